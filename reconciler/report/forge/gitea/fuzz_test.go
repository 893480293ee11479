package gitea_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitea"
)

const token = "0123456789abcdef0123456789abcdef01234567"

// canned answers every request alike, and stops a client that does not end.
type canned struct {
	code      int
	header    http.Header
	body      []byte
	requested int
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.requested++; c.requested > 2000 {
		return nil, errors.New("endless")
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return &http.Response{
		Status: http.StatusText(c.code), StatusCode: c.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header.Clone(), Body: io.NopCloser(bytes.NewReader(c.body)), Request: r,
	}, nil
}

var calls = map[string]func(forge.Forge) error{
	"list":    list,
	"comment": comments,
	"status": func(f forge.Forge) error {
		return f.Status(context.Background(), strings.Repeat("a", 40), forge.Status{Context: "c", State: forge.Success})
	},
}

func connect(t *testing.T, transport http.RoundTripper, now time.Time) *gitea.Forge {
	t.Helper()
	f, err := gitea.New(gitea.Config{
		Address: "https://git.example.org", Repository: "ada/nodes", Token: token, Transport: transport, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// FuzzResponses feeds every call with one answer for all of its requests: it may
// fail, but neither crash, nor go on without end, nor tell the token.
func FuzzResponses(f *testing.F) {
	f.Add(200, []byte(`[{"number": 1, "state": "open", "updated_at": "2026-01-01T00:00:00Z", "head": {"sha": "x", "repo": null}}]`), "", "")
	f.Add(200, []byte(`[null, {"number": 2, "merged": true, "merged_at": null}]`), "Link", `<https://git.example.org/x?page=2>; rel="next"`)
	f.Add(200, []byte(`{"id": 7}`), "Link", `<`)
	f.Add(201, []byte(`null`), "", "")
	f.Add(204, []byte(``), "", "")
	f.Add(403, []byte(`{"message": "`+token+`"}`), "Retry-After", "-1")
	f.Add(404, []byte(`[]`), "", "")
	f.Add(422, []byte(`{"message": null}`), "", "")
	f.Add(500, []byte("<html>\x1b[31m"+token), "", "")
	f.Add(301, []byte(``), "Location", "https://evil.example/")
	f.Add(429, []byte(``), "X-RateLimit-Reset", "99999999999999999")
	f.Add(200, []byte(`<html><body>Sign in</body></html>`), "Content-Type", "text/html")
	f.Add(200, []byte(`[{"number": 1, "state": "open"}]garbage`), "Content-Type", "text/plain; charset=utf-16")
	f.Add(200, []byte(`{"id": "seven", "body": {"a": []}, "user": [1]}`), "Content-Encoding", "gzip")
	f.Add(200, []byte("\x1f\x8b\x08\x00garbage"), "Content-Encoding", "gzip")
	f.Add(200, bytes.Repeat([]byte(`[`), 20_000), "X-RateLimit-Limit", "x")
	f.Add(200, []byte(`[{"number": 1e300}, {"number": -1}, 7]`), "Link", `<https://git.example.org/x?page=99999999999999999999>; rel="next"`)
	f.Fuzz(func(t *testing.T, code int, body []byte, name, value string) {
		if code < 200 || code > 599 || strings.ContainsAny(name+value, "\r\n\x00") {
			t.Skip("no server of net/http sends such a status or header")
		}
		header := http.Header{"Content-Type": {"application/json"}}
		header.Set(name, value)
		now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for what, call := range calls {
			transport := &canned{code: code, header: header, body: body}
			err := call(connect(t, transport, now))
			if transport.requested > 1900 {
				t.Errorf("%s: %d requests", what, transport.requested)
			}
			if err == nil {
				continue
			}
			if strings.Contains(err.Error(), token) || strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("%s: %q", what, err)
			}
			known, is := errors.AsType[*forge.Error](err)
			if !is {
				t.Errorf("%s: %v is no *forge.Error", what, err)
			} else if known.Until.Sub(now) > time.Hour {
				t.Errorf("%s: it waits until %s", what, known.Until)
			}
		}
	})
}

func TestALimitOfAProxyInFrontIsKept(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	transport := &canned{code: 429, header: http.Header{"Retry-After": {"120"}}}
	f := connect(t, transport, now)
	for what, call := range calls {
		var known *forge.Error
		if err := call(f); !errors.As(err, &known) || !known.Until.Equal(now.Add(2*time.Minute)) || known.Permanent() || !strings.Contains(err.Error(), "2026-11-20T00:02:00Z") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if transport.requested != 1 {
		t.Errorf("%d requests", transport.requested)
	}
}

func TestAConnectionThatCannotBeRightIsRefusedAtOnce(t *testing.T) {
	tests := map[string]gitea.Config{
		"no token":      {Address: "https://git.example.org", Repository: "ada/nodes"},
		"plain http":    {Address: "http://git.example.org", Repository: "ada/nodes", Token: token},
		"no address":    {Repository: "ada/nodes", Token: token},
		"no repository": {Address: "https://git.example.org", Token: token},
	}
	for name, config := range tests {
		config.Now = time.Now
		if _, err := gitea.New(config); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
