package github_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/forgetest"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

func TestGitHubConforms(t *testing.T) {
	t.Run("with a token", func(t *testing.T) {
		h := newHub(t)
		conforms(t, h, forgetest.Server{Connect: func(by http.RoundTripper) forge.Forge {
			return h.connect(t, github.Config{Token: token, Transport: by})
		}})
	})
	t.Run("as an App", func(t *testing.T) {
		h := newHub(t)
		installed(t, h)
		conforms(t, h, forgetest.Server{Connect: func(by http.RoundTripper) forge.Forge { return h.installationBy(t, appID, by) }, Checks: h.posted})
	})
	t.Run("as an App without checks", func(t *testing.T) {
		h := newHub(t)
		installed(t, h)
		delete(h.granted, "checks")
		conforms(t, h, forgetest.Server{Connect: func(by http.RoundTripper) forge.Forge { return h.installationBy(t, appID, by) }})
	})
}

// posted are the checks of a name, newest first.
func (h *hub) posted(sha, name string) (out []forgetest.PostedCheck) {
	h.change(func(time.Time) {
		for _, c := range slices.Backward(h.checks) {
			if c.fields["head_sha"] != sha || c.fields["name"] != name {
				continue
			}
			output, _ := c.fields["output"].(map[string]any)
			p := forgetest.PostedCheck{}
			p.Conclusion, _ = text(c.fields, "conclusion")
			p.Title, _ = text(output, "title")
			p.Summary, _ = text(output, "summary")
			for _, a := range c.annotations {
				line, _ := a["start_line"].(float64)
				on := forge.LineAnnotation{Line: int(line)}
				on.Path, _ = text(a, "path")
				on.Title, _ = text(a, "title")
				on.Message, _ = text(a, "message")
				level, _ := text(a, "annotation_level")
				on.Level = forge.AnnotationLevel(level)
				p.Annotations = append(p.Annotations, on)
			}
			out = append(out, p)
		}
	})
	return out
}

// conforms runs the suite on a hub, with what people do there.
func conforms(t *testing.T, h *hub, s forgetest.Server) {
	t.Helper()
	h.add(130)
	edit := func(number int, change func(p *pull)) {
		h.change(func(now time.Time) {
			h.pulls[number-1].updated = now
			change(h.pulls[number-1])
		})
	}
	forgetest.Run(t, forgetest.Server{
		First: 1, Second: 2,
		Connect: s.Connect, Checks: s.Checks,
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
				for _, c := range h.checks {
					if c.fields["head_sha"] == sha && c.fields["name"] == context {
						n++
					}
				}
			})
			return n
		},
	})
}
