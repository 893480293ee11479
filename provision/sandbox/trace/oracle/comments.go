package oracle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// commentsOfPull is the kind of a request for the comments of a pull request, and oneComment
// that of a request for one of them.
const (
	commentsOfPull = "issues/comments"
	oneComment     = "comments"
)

// comments counts what was created for each pull request less what was deleted, and what was
// found in the end: a request that the forge got twice created two.
func comments(records []trace.Record) []Violation {
	made := map[string][]int{}
	of := map[string]string{} // which pull request a comment belongs to
	var out []Violation
	for _, r := range records {
		if e := r.Event; e != nil {
			for _, pull := range slices.Sorted(maps.Keys(e.Comments)) {
				if n := e.Comments[pull]; n > 1 {
					out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s has %d comments in the end", pull, n)})
				}
			}
			continue
		}
		q := r.Request
		if q == nil || q.Wire != trace.Forge || !q.Succeeded() {
			continue
		}
		switch {
		case q.Kind == commentsOfPull && q.Verb == "post":
			made[q.Name] = append(made[q.Name], r.N)
			of[q.UID] = q.Name
		case q.Kind == oneComment && q.Verb == "delete":
			pull := of[q.Name]
			if n := len(made[pull]); n > 0 {
				made[pull] = made[pull][:n-1]
			}
		}
	}
	for _, pull := range slices.Sorted(maps.Keys(made)) {
		if n := made[pull]; len(n) > 1 {
			out = append(out, Violation{N: n, Detail: fmt.Sprintf("%d comments on %s", len(n), pull)})
		}
	}
	return out
}
