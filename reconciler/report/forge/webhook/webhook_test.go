package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/poolwright/poolwright/reconciler/report/forge/webhook"
)

const secret = "It's a Secret to Everybody"

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// sent is a request as GitHub makes it.
func sent(kind, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", kind)
	r.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, body))
	return r
}

func TestGitHubsOwnExampleOfASignatureIsAccepted(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("Hello, World!"))
	r.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if event, err := webhook.Read(r, []byte(secret)); err != nil || !event.Ignored {
		t.Errorf("got %+v, %v", event, err)
	}
}

func TestEventsNameWhatChanged(t *testing.T) {
	const repository = `"repository": {"full_name": "ada/nodes"}`
	tests := []struct {
		name, kind, body string
		want             webhook.Event
	}{
		{"a new head", "pull_request", `{"action": "synchronize", "number": 3, "pull_request": {"number": 3}, ` + repository + `}`, webhook.Event{Repository: "ada/nodes", Number: 3}},
		{"Gitea's new head", "pull_request_sync", `{"number": 3, "pull_request": {"number": 3}, ` + repository + `}`, webhook.Event{Repository: "ada/nodes", Number: 3}},
		{"a deleted comment", "issue_comment", `{"action": "deleted", "issue": {"number": 4, "pull_request": {}}, ` + repository + `}`, webhook.Event{Repository: "ada/nodes", Number: 4}},
		{"a comment on an issue", "issue_comment", `{"issue": {"number": 4}, ` + repository + `}`, webhook.Event{Ignored: true}},
		{"a push", "push", `{"ref": "refs/heads/team/main", ` + repository + `}`, webhook.Event{Repository: "ada/nodes", Branch: "team/main"}},
		{"a tag", "push", `{"ref": "refs/tags/v1", ` + repository + `}`, webhook.Event{Ignored: true}},
		{"a ping", "ping", `{"zen": "Design for failure."}`, webhook.Event{Ignored: true}},
		{"something else", "star", `no JSON`, webhook.Event{Ignored: true}},
	}
	for _, tt := range tests {
		if got, err := webhook.Read(sent(tt.kind, tt.body), []byte("new"), []byte(secret)); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
	}
}

func TestSignaturesOfEveryForgeAreKnown(t *testing.T) {
	const body = `{"ref": "refs/heads/main", "repository": {"full_name": "ada/nodes"}}`
	for _, header := range []string{"X-Gitea-Signature", "X-Forgejo-Signature"} {
		r := sent("push", body)
		r.Header.Del("X-Hub-Signature-256")
		r.Header.Del("X-GitHub-Event")
		r.Header.Set(strings.Replace(header, "Signature", "Event", 1), "push")
		r.Header.Set(header, sign(secret, body))
		if got, err := webhook.Read(r, []byte(secret)); err != nil || got.Branch != "main" {
			t.Errorf("%s: got %+v, %v", header, got, err)
		}
	}
}

// unread fails the test when anything reads it.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestWhatIsNotVerifiedIsRefused(t *testing.T) {
	const body = `{"number": 1, "repository": {"full_name": "ada/nodes"}}`
	with := func(change func(*http.Request)) *http.Request {
		r := sent("pull_request", body)
		change(r)
		return r
	}
	long := `{"number": 1, "repository": {"full_name": "ada/nodes"}, "x": "` + strings.Repeat("x", 1<<20) + `"}`
	tests := []struct {
		name    string
		request *http.Request
		code    int
		secrets []string
	}{
		{"another method", with(func(r *http.Request) { r.Method = http.MethodGet }), 405, nil},
		{"no signature", with(func(r *http.Request) { r.Header.Del("X-Hub-Signature-256"); r.Body = io.NopCloser(unread{t}) }), 401, nil},
		{"only the old SHA-1", with(func(r *http.Request) {
			r.Header.Del("X-Hub-Signature-256")
			r.Header.Set("X-Hub-Signature", "sha1=00")
			r.Body = io.NopCloser(unread{t})
		}), 401, nil},
		{"half a signature", with(func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, body)[:32]) }), 401, nil},
		{"no hexadecimal", with(func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("zz", 32))
		}), 401, nil},
		{"another secret", sent("pull_request", body), 401, []string{"other"}},
		{"no secret at all", with(func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+sign("", body)) }), 401, []string{"", ""}},
		{"another body", with(func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(body + " ")) }), 401, nil},
		{"a length that is too much", with(func(r *http.Request) { r.ContentLength = 100 << 20; r.Body = io.NopCloser(unread{t}) }), 413, nil},
		{"a body that is too long and signed", with(func(r *http.Request) { *r = *sent("pull_request", long); r.ContentLength = -1 }), 413, nil},
		{"a body that breaks off", with(func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(errors.New("reset"))) }), 400, nil},
		{"a form", with(func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }), 415, nil},
		{"no JSON", sent("pull_request", `{"number"`), 400, nil},
		{"no repository", sent("pull_request", `{"number": 1}`), 400, nil},
		{"no number", sent("pull_request", `{"number": -1, "repository": {"full_name": "ada/nodes"}}`), 400, nil},
	}
	for _, tt := range tests {
		keys := [][]byte{[]byte(secret)}
		if tt.secrets != nil {
			keys = nil
			for _, s := range tt.secrets {
				keys = append(keys, []byte(s))
			}
		}
		event, err := webhook.Read(tt.request, keys...)
		var refusal *webhook.RequestError
		if !errors.As(err, &refusal) || refusal.Code != tt.code || event != (webhook.Event{}) {
			t.Errorf("%s: got %+v, %v", tt.name, event, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("pull_request", "application/json", []byte(`{"number": 1, "pull_request": {"number": 2}, "repository": {"full_name": "a/b"}}`), true)
	f.Add("issue_comment", "application/json; charset=utf-8", []byte(`{"issue": {"number": 1, "pull_request": null}, "repository": {"full_name": "a/b"}}`), true)
	f.Add("push", "application/json", []byte(`{"ref": "refs/heads/", "repository": null}`), true)
	f.Add("push", "text/plain", bytes.Repeat([]byte(`[`), 20_000), true)
	f.Add("pull_request", "application/json", []byte(`{"number": 1e99}`), false)
	f.Fuzz(func(t *testing.T, kind, contentType string, body []byte, signed bool) {
		r := sent("", string(body))
		r.Header["X-Github-Event"], r.Header["Content-Type"] = []string{kind}, []string{contentType}
		if !signed {
			r.Header.Set("X-Hub-Signature-256", "sha256="+sign("other", string(body)))
		}
		event, err := webhook.Read(r, []byte(secret))
		var refusal *webhook.RequestError
		switch {
		case err != nil && (!errors.As(err, &refusal) || refusal.Code < 400 || refusal.Code > 499 || event != (webhook.Event{})):
			t.Errorf("got %+v, %v", event, err)
		case err == nil && !signed:
			t.Errorf("unsigned, yet taken: %+v", event)
		case err == nil && event.Ignored && event != (webhook.Event{Ignored: true}):
			t.Errorf("got %+v", event)
		case err == nil && !event.Ignored && (event.Repository == "" || (event.Number > 0) == (event.Branch != "")):
			t.Errorf("got %+v", event)
		}
	})
}
