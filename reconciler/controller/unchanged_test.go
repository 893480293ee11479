package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Whoever watches Syncs is woken by each write: a failure that lasts must not be one a run.
func TestAFailureThatStaysTheSameIsWrittenOnce(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*stage)
		kind string
	}{
		"a problem in the repository": {func(s *stage) {
			s.problems = []state.Problem{{Origin: state.Origin{File: "nodepools.yaml", Line: 12}, Message: "no such field"}}
			s.commit("kubernetes/pool=2")
		}, "Stalled"},
		"a source that cannot be reached": {func(s *stage) { s.unread = fmt.Errorf("fetching: %w", gitsource.ErrUnreachable) }, "Reconciling"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/pool=1")
			s.reconcile()
			c.edit(s)
			s.later()
			first := s.sync()
			if !conditions.IsTrue(first, c.kind) {
				t.Fatalf("conditions %+v, want %s", first.Status.Conditions, c.kind)
			}
			for range 3 {
				s.later()
			}
			if d := cmp.Diff(first, s.sync()); d != "" {
				t.Errorf("the Sync was written again (-before +after):\n%s", d)
			}
		})
	}
}

func TestTheNextFetchIsAfterTheIntervalWithItsJitter(t *testing.T) {
	s := newStage(t, nil)
	s.r.Jitter = func(d time.Duration) time.Duration { return d - 7*time.Second }
	s.commit("kubernetes/pool=1")
	if after := s.reconcile(); after != 53*time.Second {
		t.Errorf("comes back after %s, want the minute that is the default without 7 s", after)
	}
}
