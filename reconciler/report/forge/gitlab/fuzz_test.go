package gitlab_test

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
	"github.com/poolwright/poolwright/reconciler/report/forge/gitlab"
)

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

// FuzzResponses feeds every call with one response for all of its requests: it may
// fail, but neither crash, nor go on without end, nor reveal the token.
func FuzzResponses(f *testing.F) {
	f.Add(200, []byte(`[{"iid": 1, "state": "opened", "updated_at": "2026-01-01T00:00:00Z", "sha": "x", "source_project_id": null}]`), "", "")
	f.Add(200, []byte(`[null, {"iid": 2, "state": "merged", "merged_at": null}]`), "Link", `<https://git.example.org/x?page=2>; rel="next"`)
	f.Add(200, []byte(`{"id": 7}`), "Link", `<`)
	f.Add(200, []byte(`[]`), "Link", `<x>; rel`)
	f.Add(201, []byte(`null`), "X-Next-Page", "-1")
	f.Add(204, []byte(``), "X-Next-Page", "99999999999999999999")
	f.Add(403, []byte(`{"error": "insufficient_scope", "error_description": "`+token+`"}`), "Retry-After", "-1")
	f.Add(404, []byte(`[]`), "", "")
	f.Add(400, []byte(`{"message": {"note": ["`+token+`", null, {}]}}`), "", "")
	f.Add(500, []byte("<html>\x1b[31m"+token), "", "")
	f.Add(301, []byte(``), "Location", "https://evil.example/")
	f.Add(304, []byte(``), "Etag", `W/"x"`)
	f.Add(429, []byte(``), "RateLimit-Reset", "99999999999999999")
	f.Add(200, []byte(`<html><body>Sign in</body></html>`), "Content-Type", "text/html")
	f.Add(200, bytes.Repeat([]byte(`[`), 20_000), "RateLimit-Limit", "x")
	f.Add(200, []byte(`[{"iid": 1e300}, {"iid": -1}, 7]`), "X-Next-Page", "x")
	f.Fuzz(func(t *testing.T, code int, body []byte, name, value string) {
		if code < 200 || code > 599 || strings.ContainsAny(name+value, "\r\n\x00") {
			t.Skip("no server of net/http sends such a status or header")
		}
		header := http.Header{"Content-Type": {"application/json"}}
		header.Set(name, value)
		now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for what, call := range calls {
			transport := &canned{code: code, header: header, body: body}
			g, err := gitlab.New(gitlab.Config{Address: "https://gitlab.example.com", Project: project, Token: token, Transport: transport, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			err = call(context.Background(), g)
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
