package gitea_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/forgetest"
)

// conformance runs the suite of every forge on two pull requests of its own.
func conformance(t *testing.T, p *project) {
	// Each has a file of its own, so that nothing that was merged before conflicts.
	add := func(file string, target map[string]any) string {
		var made struct{ Commit struct{ SHA string } }
		target["content"], target["message"] = base64.StdEncoding.EncodeToString([]byte(file)), "Add a file"
		p.call(t, p.ada, http.MethodPost, "/contents/"+file, target, &made)
		return made.Commit.SHA
	}
	opened := func(branch string) int {
		add(branch+".yaml", map[string]any{"branch": "main", "new_branch": branch})
		return p.open(t, p.ada, branch, "Conform")
	}
	server := forgetest.Server{
		First: opened("conformance-1"), Second: opened("conformance-2"),
		Connect: func(transport http.RoundTripper) forge.Forge { return p.forgeBy(t, p.bot.Token, transport) },
		Push:    func(int) string { return add("pushed.yaml", map[string]any{"branch": "conformance-1"}) },
		Close: func(number int) {
			p.call(t, p.ada, http.MethodPatch, fmt.Sprintf("/pulls/%d", number), map[string]any{"state": "closed"}, nil)
		},
		Merge: func(number int) { p.merge(t, number) },
		Comments: func(number int) (out []forgetest.ThreadEntry) {
			var all []struct {
				Body string                 `json:"body"`
				User struct{ Login string } `json:"user"`
			}
			p.call(t, p.ada, http.MethodGet, fmt.Sprintf("/issues/%d/comments", number), nil, &all)
			for _, c := range all {
				out = append(out, forgetest.ThreadEntry{Mine: c.User.Login == "poolwright", Body: c.Body})
			}
			return out
		},
		Imitate: func(number int, body string) {
			p.call(t, p.ada, http.MethodPost, fmt.Sprintf("/issues/%d/comments", number), map[string]any{"body": body}, nil)
		},
		Delete: func(number, index int) {
			p.call(t, p.ada, http.MethodDelete, fmt.Sprintf("/issues/comments/%d", p.comments(t, number)[index].ID), nil, nil)
		},
		Statuses: func(sha, context string) (n int) {
			var all []struct{ Context string }
			p.call(t, p.ada, http.MethodGet, "/commits/"+sha+"/statuses", nil, &all)
			for _, s := range all {
				if s.Context == context {
					n++
				}
			}
			return n
		},
	}
	forgetest.Run(t, server)
}
