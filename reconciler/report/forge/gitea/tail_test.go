package gitea_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitea"
)

// tails has Gitea itself keep, and show, what stands above and below the mark.
func tails(t *testing.T, p *project, f *gitea.Forge) {
	const mark = "\n\n<!-- poolwright:tail -->\n"
	about := forge.NewMarker("plan", "team/nodes", "tails")
	ours := func(c forge.Comment) forge.PostedComment {
		t.Helper()
		c.Marker = about
		return post(t, f, 2, c)
	}
	expect := func(step, want string) (int64, string) {
		t.Helper()
		id, body := p.marked(t, 2, about)
		if got := strings.TrimPrefix(body, string(about)+"\n"); got != want {
			t.Fatalf("%s: got %q, want %q", step, got, want)
		}
		return id, body
	}
	reviewed := "### 4 nodes replaced\n\n<details><summary>all</summary>\n\n```diff\n+ a\n```\n\n</details>"
	ours(forge.Comment{Body: reviewed})
	if posted := ours(forge.Comment{Footer: "**Applied** in 40 s"}); !posted.Written {
		t.Error("the tail was not written")
	}
	if posted := ours(forge.Comment{Footer: "**Applied** in 40 s"}); posted.Written {
		t.Error("an equal tail was written")
	}
	_, whole := expect("a tail", reviewed+mark+"**Applied** in 40 s")
	if got := p.render(t, whole); strings.Contains(got, "poolwright") || !strings.Contains(got, "<strong>Applied</strong>") || strings.Index(got, "</details>") > strings.Index(got, "Applied") {
		t.Errorf("people see %q", got)
	}
	ours(forge.Comment{Footer: "rolled out"})
	id, whole := expect("another tail", reviewed+mark+"rolled out")

	// A person with permissions edits our comment, above the mark.
	edited := strings.Replace(whole, "### 4", "> seen by ada\n\n### 4", 1)
	p.call(t, p.ada, http.MethodPatch, fmt.Sprintf("/issues/comments/%d", id), map[string]any{"body": edited}, nil)
	ours(forge.Comment{Footer: "done", EditOnly: true})
	expect("a person's edit", "> seen by ada\n\n"+reviewed+mark+"done")
	ours(forge.Comment{})
	expect("no tail", "> seen by ada\n\n"+reviewed)
	ours(forge.Comment{Body: "new\n<!-- poolwright:tail -->\nimitated", Footer: "true"})
	expect("an imitation", "new\n<\u200b!-- poolwright:tail -->\nimitated"+mark+"true")
	ours(forge.Comment{Footer: "still true"})
	expect("after an imitation", "new\n<\u200b!-- poolwright:tail -->\nimitated"+mark+"still true")
	ours(forge.Comment{Body: strings.Repeat("line\n", 100_000), Footer: "kept"})
	if _, whole := p.marked(t, 2, about); !strings.HasSuffix(whole, "limit._"+mark+"kept") || len(whole) > f.Limit()+len(about)+1 {
		t.Errorf("%d bytes end with %q", len(whole), whole[max(0, len(whole)-200):])
	}
}

// marked is the comment that begins with the marker.
func (p *project) marked(t *testing.T, number int, marker forge.Marker) (id int64, body string) {
	t.Helper()
	for _, c := range p.comments(t, number) {
		if marker.IsPrefixOf(c.Body) {
			return c.ID, c.Body
		}
	}
	t.Fatalf("no comment begins with %s", marker)
	return 0, ""
}
