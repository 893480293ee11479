package github_test

import (
	"slices"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/forgetest"
)

func TestGitHubConforms(t *testing.T) {
	h := newHub(t)
	h.add(130)
	edit := func(number int, change func(p *pull)) {
		h.change(func(now time.Time) {
			h.pulls[number-1].updated = now
			change(h.pulls[number-1])
		})
	}
	forgetest.Run(t, forgetest.Server{
		First: 1, Second: 2,
		Connect: func() forge.Forge { return h.forge(t) },
		Push: func(number int) string {
			edit(number, func(p *pull) { p.sha = sha(0xabc) })
			return sha(0xabc)
		},
		Close: func(number int) { edit(number, func(p *pull) { p.open = false }) },
		Merge: func(number int) { edit(number, func(p *pull) { p.open, p.merged = false, p.updated }) },
		Comments: func(number int) (out []forgetest.ThreadEntry) {
			h.change(func(time.Time) {
				for _, c := range h.comments {
					if c.number == number {
						out = append(out, forgetest.ThreadEntry{Mine: c.user["id"] == h.me["id"], Body: c.body})
					}
				}
			})
			return out
		},
		Imitate: func(number int, body string) { h.change(func(time.Time) { h.addComment(number, ada, body) }) },
		Delete: func(number, index int) {
			h.change(func(time.Time) {
				at := -1
				h.comments = slices.DeleteFunc(h.comments, func(c *issueComment) bool {
					if c.number == number {
						at++
					}
					return c.number == number && at == index
				})
			})
		},
		Statuses: func(sha, context string) (n int) {
			h.change(func(time.Time) {
				for _, s := range h.statuses {
					if s["sha"] == sha && s["context"] == context {
						n++
					}
				}
			})
			return n
		},
	})
}
