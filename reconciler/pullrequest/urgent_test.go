package pullrequest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// idle is a stage with planned pull requests, numbered from 1, whose plans take a time
// from now on.
func idle(t *testing.T, n int, takes time.Duration) *stage {
	t.Helper()
	s := newStage(t)
	for i := 1; i <= n; i++ {
		s.offer(i, commitOf(i))
	}
	s.pass()
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		s.clock.Step(takes)
		return plan(pr)
	}
	s.calls()
	s.oracle.plans = nil
	return s
}

// meanwhile does something while the first plan from now on is made.
func (s *stage) meanwhile(do func()) {
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		s.oracle.plan = plan
		do()
		return plan(pr)
	}
}

func TestWhoIsNewWaitsForNobodyWhoWasPlannedBefore(t *testing.T) {
	moved := func(s *stage) {
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
	}
	tests := []struct {
		name string
		// due lets the planned ones be read again.
		due func(s *stage)
		// meanwhile happens during the first plan.
		meanwhile func(s *stage)
		// plans is how many are made in the pass.
		plans int
		// next is who is planned first in the next pass, which comes soon; 0 for nobody.
		next int
	}{
		{"one that is opened while idle ones are read", func(s *stage) { s.clock.Step(planValidity) }, func(s *stage) { s.offer(99, sha("d")) }, 1, 99},
		{"one that is pushed to while idle ones are read", func(s *stage) { s.clock.Step(planValidity) }, func(s *stage) { s.board.find(7).Head.SHA = sha("d") }, 1, 7},
		{"one that is opened while the base of all has moved", moved, func(s *stage) { s.offer(99, sha("d")) }, 1, 99},
		{"one that a webhook names", func(s *stage) { s.clock.Step(planValidity) }, func(s *stage) {
			s.change(func(y *v1alpha1.Sync) { y.Annotations = map[string]string{v1alpha1.WebhookAnnotation: "now"} })
		}, 1, 19},
		{"nobody is new", func(s *stage) { s.clock.Step(planValidity) }, func(*stage) {}, 6, 0},
		{"one into another branch", func(s *stage) { s.clock.Step(planValidity) }, func(s *stage) {
			s.offer(99, sha("d"))
			s.board.find(99).Base.Name = "other"
		}, 6, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := idle(t, 20, 1900*time.Millisecond)
			tt.due(s)
			s.meanwhile(func() { tt.meanwhile(s) })
			after := s.pass()
			if len(s.oracle.plans) != tt.plans || (after == soon) != (tt.next > 0) {
				t.Fatalf("planned %v, comes back after %s", s.oracle.plans, after)
			}
			s.later(soon)
			if got := s.oracle.plans[tt.plans]; tt.next > 0 && got != tt.next {
				t.Errorf("planned %v", s.oracle.plans)
			}
		})
	}
	t.Run("the forge is listed for who is new only after what took its time", func(t *testing.T) {
		s := idle(t, 20, 0)
		s.later(planValidity)
		s.expect("quick", "list")
		s = idle(t, 20, 600*time.Millisecond)
		s.later(planValidity)
		s.expect("slower", "list", "list", "list", "list")
	})
	t.Run("a forge that goes away ends the passes", func(t *testing.T) {
		s := idle(t, 20, 1900*time.Millisecond)
		s.meanwhile(func() {
			s.board.fail = func(string) error { return &forge.Error{Operation: "listing", Message: "gone"} }
		})
		if after := s.later(planValidity); after != limits.MinBackoff || len(s.oracle.plans) != 1 || s.status().Reason != "ForgeUnavailable" {
			t.Errorf("comes back after %s, planned %v, %s", after, s.oracle.plans, s.status().Reason)
		}
	})
}

func TestABaseThatMovesMarksWhatStandsBesideTheHeads(t *testing.T) {
	const plan = " poolwright/plan (prod)"
	base := func(s *stage, letter string) {
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha(letter) })
	}
	// beside counts the heads by what stands next to them.
	beside := func(s *stage) map[forge.State]int {
		out := map[forge.State]int{}
		for at, status := range s.board.statuses {
			if strings.HasSuffix(at, plan) {
				out[status.State]++
			}
		}
		return out
	}
	t.Run("of all that wait for their turn, with the first pass", func(t *testing.T) {
		s := idle(t, 20, 1900*time.Millisecond)
		base(s, "9")
		if after := s.pass(); after != soon {
			t.Errorf("comes back after %s", after)
		}
		if got := beside(s); got[forge.Success] != 6 || got[forge.Pending] != 14 {
			t.Errorf("%v", got)
		}
		if got := s.board.statuses[short(commitOf(1))+plan].Description; got != "planning for main at 9999999" {
			t.Errorf("it says %q", got)
		}
		if !s.board.checks[short(commitOf(1))+plan].KeepCompleted {
			t.Error("a completed check is replaced for the new base")
		}
		s.calls()
		s.later(soon)
		if calls := s.calls(); strings.Contains(calls, "pending") {
			t.Errorf("marked twice: %s", calls)
		}
		for range 3 {
			s.later(soon)
		}
		if got := beside(s); got[forge.Success] != 20 {
			t.Errorf("%v", got)
		}
	})
	t.Run("over a restart, with the second", func(t *testing.T) {
		s := idle(t, 20, 1900*time.Millisecond)
		base(s, "9")
		s.pass()
		s.restart()
		for range 5 {
			s.later(soon)
		}
		if got := beside(s); got[forge.Success] != 20 {
			t.Errorf("%v", got)
		}
	})
	t.Run("and what comes of it is published though it is the same", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		s.calls()
		// The comment shows no more of a commit than both have in common.
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("0")[:39] + "9" })
		s.pass()
		s.expect("moved", "list", "status aaaaaaa"+plan+": pending", "comment #1", "status aaaaaaa"+plan+": success")
	})
	t.Run("and not if the base is back before its turn", func(t *testing.T) {
		s := idle(t, 20, 1900*time.Millisecond)
		base(s, "9")
		s.pass()
		base(s, "0")
		for range 9 {
			s.later(soon)
		}
		if got := beside(s); got[forge.Success] != 20 {
			t.Errorf("%v", got)
		}
	})
	t.Run("but not of one that cannot be planned anyway", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, errBoom }
		for range enduring {
			s.later(time.Minute)
		}
		s.calls()
		base(s, "9")
		s.later(limits.MaxBackoff)
		s.expect("moved", "list")
	})
	t.Run("until the plan comes, whatever fails before", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		plans := s.oracle.plan
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, errBoom }
		base(s, "9")
		s.pass()
		if got := beside(s); got[forge.Pending] != 1 {
			t.Errorf("%v", got)
		}
		s.oracle.plan = plans
		s.later(limits.MinBackoff)
		if got := beside(s); got[forge.Success] != 1 {
			t.Errorf("%v", got)
		}
	})
	t.Run("who may set no status is reported by the comment", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		s.board.fail = func(call string) error {
			if strings.HasPrefix(call, "status") {
				return &forge.Error{Code: 403}
			}
			return nil
		}
		base(s, "9")
		s.calls()
		s.pass()
		calls := strings.Split(s.calls(), "\n")
		if !slices.Contains(calls, "write #1") || s.item(1).Base != sha("9") {
			t.Errorf("%s\n%+v", fmt.Sprint(calls), s.item(1))
		}
	})
}
