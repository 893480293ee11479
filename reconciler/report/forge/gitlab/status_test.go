package gitlab_test

import (
	"net/http"
	"testing"
	"time"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// A request whose response was lost may be carried out after the statuses were read for the next one, and another process may set the same.
func TestWhatIsSetBetweenTheReadAndTheWriteIsNoFailure(t *testing.T) {
	for name, c := range map[string]struct {
		there string // the state that is set in between; empty for none
		state forge.State
		fails bool
	}{
		"the same state":             {"pending", forge.Pending, false},
		"the state that follows it":  {"running", forge.Pending, false},
		"a state that it ends":       {"pending", forge.Success, false},
		"the control, which is none": {"", forge.Pending, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			f, set := l.forge(t), false
			list(t, f, forge.Listing{})
			l.Change(func(time.Time) {
				l.Before = func(w http.ResponseWriter, r *http.Request) bool {
					switch {
					case r.Method != http.MethodPost || set:
						return false
					case c.there == "":
						server.Refuse(w, http.StatusBadRequest, "Cannot transition status via :enqueue from :pending")
						return true
					}
					set = true
					p := l.AddPipeline(first, "change-1", "external")
					l.Statuses = append(l.Statuses, &server.Status{ID: 1, PipelineID: p.ID, SHA: first, Ref: p.Ref, Name: plan.Context, State: c.there})
					return false
				}
			})
			s := plan
			s.State = c.state
			if err := f.Status(t.Context(), first, s); (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
			if n := len(l.Statuses); n > 1 || (n == 0) != c.fails {
				t.Errorf("%d statuses", n)
			}
		})
	}
}
