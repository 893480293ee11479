package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge/webhook"
)

// sentByGitLab is a request as GitLab makes it.
func sentByGitLab(kind, token string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gitlab-Event", kind)
	r.Header.Set("X-Gitlab-Token", token)
	return r
}

func TestEventsOfGitLabNameWhatChanged(t *testing.T) {
	const project = `"project": {"id": 3, "path_with_namespace": "platform/gpu/nodes"}, "repository": {"name": "nodes"}`
	tests := []struct {
		name, kind, body string
		want             webhook.Event
	}{
		{"a push", "Push Hook", `{"object_kind": "push", "ref": "refs/heads/team/main", ` + project + `}`, webhook.Event{Repository: "platform/gpu/nodes", Branch: "team/main"}},
		{"a tag", "Tag Push Hook", `{"object_kind": "tag_push", "ref": "refs/tags/v1", ` + project + `}`, webhook.Event{Ignored: true}},
		{"a merge request", "Merge Request Hook", `{"object_kind": "merge_request", "object_attributes": {"id": 99, "iid": 3, "action": "update"}, ` + project + `}`, webhook.Event{Repository: "platform/gpu/nodes", Number: 3}},
		{"a note on a merge request", "Note Hook", `{"object_kind": "note", "object_attributes": {"id": 1244, "noteable_type": "MergeRequest"}, "merge_request": {"id": 7, "iid": 4}, ` + project + `}`, webhook.Event{Repository: "platform/gpu/nodes", Number: 4}},
		{"a note on an issue", "Note Hook", `{"object_kind": "note", "object_attributes": {"id": 1241}, "issue": {"id": 92, "iid": 17}, ` + project + `}`, webhook.Event{Ignored: true}},
		{"a note on a commit", "Note Hook", `{"object_kind": "note", "object_attributes": {"id": 1243}, "commit": {"id": "cfe32cf6"}, ` + project + `}`, webhook.Event{Ignored: true}},
		{"a pipeline", "Pipeline Hook", `{"object_kind": "pipeline"}`, webhook.Event{Ignored: true}},
	}
	for _, tt := range tests {
		if got, err := webhook.Read(sentByGitLab(tt.kind, secret, strings.NewReader(tt.body)), []byte("new"), []byte(secret)); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
	}
}

func TestATokenThatIsWrongIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	for name, token := range map[string]string{
		"another": "other", "a beginning": secret[:5], "a longer one": secret + "x", "in capitals": strings.ToUpper(secret),
	} {
		event, err := webhook.Read(sentByGitLab("Push Hook", token, unread{t}), []byte(secret))
		var refusal *webhook.RequestError
		if !errors.As(err, &refusal) || refusal.Code != http.StatusUnauthorized || event != (webhook.Event{}) || strings.Contains(refusal.Reason, token) {
			t.Errorf("%s: got %+v, %v", name, event, err)
		}
	}
	const body = `{"object_kind": "push", "ref": "refs/heads/main", "project": {"path_with_namespace": "ada/nodes"}}`
	empty := sentByGitLab("Push Hook", "", unread{t})
	if _, err := webhook.Read(empty, nil, []byte("")); err == nil {
		t.Error("an empty secret is a token")
	}
	// A signature does not help a wrong token.
	both := sentByGitLab("Push Hook", "other", strings.NewReader(body))
	both.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, body))
	if _, err := webhook.Read(both, []byte(secret)); err == nil {
		t.Error("a wrong token was accepted")
	}
	for name, broken := range map[string]string{"no JSON": `{"ref"`, "no project": `{"object_kind": "push", "ref": "refs/heads/main"}`, "a project without a group": `{"object_kind": "push", "ref": "refs/heads/main", "project": {"path_with_namespace": "nodes"}}`} {
		var refusal *webhook.RequestError
		if _, err := webhook.Read(sentByGitLab("Push Hook", secret, strings.NewReader(broken)), []byte(secret)); !errors.As(err, &refusal) || refusal.Code != http.StatusBadRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzReadOfGitLab(f *testing.F) {
	f.Add("Push Hook", []byte(`{"object_kind": "push", "ref": "refs/heads/main", "project": {"path_with_namespace": "a/b/c"}}`), secret)
	f.Add("Merge Request Hook", []byte(`{"object_kind": "merge_request", "object_attributes": {"iid": 1e99}, "project": {"path_with_namespace": "a/b"}}`), secret)
	f.Add("Note Hook", []byte(`{"object_kind": "note", "merge_request": null, "issue": {"pull_request": {}}, "project": {"path_with_namespace": "a/b"}}`), secret)
	f.Add("Note Hook", []byte(`{"object_kind": "note", "merge_request": {"iid": -1}, "pull_request": {"number": 3}, "project": []}`), "other")
	f.Fuzz(func(t *testing.T, kind string, body []byte, token string) {
		r := sentByGitLab("", "", strings.NewReader(string(body)))
		r.Header["X-Gitlab-Event"], r.Header["X-Gitlab-Token"] = []string{kind}, []string{token}
		event, err := webhook.Read(r, []byte(secret))
		var refusal *webhook.RequestError
		switch {
		case err != nil && (!errors.As(err, &refusal) || refusal.Code < 400 || refusal.Code > 499 || event != (webhook.Event{})):
			t.Errorf("got %+v, %v", event, err)
		case err == nil && token != secret:
			t.Errorf("a token was not verified: %+v", event)
		case err == nil && event.Ignored && event != (webhook.Event{Ignored: true}):
			t.Errorf("got %+v", event)
		case err == nil && !event.Ignored && (event.Repository == "" || (event.Number > 0) == (event.Branch != "")):
			t.Errorf("got %+v", event)
		}
	})
}
