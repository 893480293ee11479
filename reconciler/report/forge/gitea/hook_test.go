package gitea_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge/webhook"
)

// hooks has Gitea send what it sends, and refuses it with another secret.
func hooks(t *testing.T, p *project) {
	type outcome struct {
		kind  string
		event webhook.Event
		err   error
		wrong error
	}
	got := make(chan outcome, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, err := webhook.Read(r, []byte("old"), []byte("s3cret"))
		again := r.Clone(r.Context())
		again.Body = http.NoBody
		again.ContentLength = 0
		_, wrong := webhook.Read(again, []byte("s3cret"))
		got <- outcome{r.Header.Get("X-Gitea-Event"), event, err, wrong}
	}))
	defer server.Close()
	p.call(t, p.ada, http.MethodPost, "/hooks", map[string]any{
		"type": "gitea", "active": true, "events": []string{"push", "pull_request", "pull_request_sync", "issue_comment", "pull_request_comment"},
		"config": map[string]any{"url": server.URL, "content_type": "json", "secret": "s3cret"},
	}, nil)
	next := func(what string, is func(outcome) bool) {
		t.Helper()
		for {
			select {
			case o := <-got:
				if o.err != nil || o.wrong == nil {
					t.Errorf("%s: %+v", what, o)
				}
				if is(o) {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("no webhook for %s", what)
			}
		}
	}
	p.commit(t, "change", "kind: NodePool\nspec: {weight: 9}\n")
	p.push(t, "change")
	next("the push", func(o outcome) bool { return o.event == webhook.Event{Repository: "ada/nodes", Branch: "change"} })
	next("the pull request's new head", func(o outcome) bool {
		return o.kind == "pull_request" && o.event == webhook.Event{Repository: "ada/nodes", Number: 1}
	})
	p.call(t, p.ada, http.MethodPost, "/issues/1/comments", map[string]any{"body": "hello"}, nil)
	next("the comment", func(o outcome) bool {
		return o.kind != "push" && o.kind != "pull_request" && o.event == webhook.Event{Repository: "ada/nodes", Number: 1}
	})
}
