package pullrequest

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

const planned = " poolwright/plan (prod)"

// failing is what is said while the reason keeps the merge from being applied.
func failing(reason string) report.MergeOutcome {
	a := waiting("")
	a.Failed, a.Sync = reason, "poolwright-system/dev"
	return a
}

// tried lets the Git loop try a commit that holds the merge, in vain.
func (s *stage) tried(reason, message string) {
	s.Helper()
	s.oracle.contains[sha("f")+sha("e")] = true
	s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("f") })
	s.condition("Ready", metav1.ConditionFalse, reason, message)
}

// What a person has held until a time fails nothing, and no token lets it pass.
func TestAMergeOfWhatIsHeldUntilATimeIsHeld(t *testing.T) {
	s := merged(t)
	s.pass()
	s.tried("HoldUntil", "1 change waits")
	const reason = "stays as it is until 2026-11-28T18:00:00Z (hold-until): INC-7"
	s.change(func(y *v1alpha1.Sync) {
		y.Status.Pending = []v1alpha1.PendingChange{{Reason: reason, HeldBy: []string{"HoldUntil"}}}
	})
	s.later(time.Minute)
	s.line("held", "eeeeeee", forge.Pending, waiting(reason))
	if tail := s.comment(1).Footer; !strings.Contains(tail, "held: `"+reason+"`") || strings.Contains(tail, v1alpha1.ConfirmAnnotation) {
		t.Errorf("the tail is %s", tail)
	}
}

func TestEachPhaseOfAMergeIsReportedAsItComes(t *testing.T) {
	s := merged(t)
	s.pass()
	s.expectMergeOutcome("merged", 1, waiting(""))
	s.tried("ApplyFailed", "1 of 3 changes failed: password=hunter2")
	s.later(time.Second)
	s.expectMergeOutcome("failed a second later", 1, failing("ApplyFailed"))
	for _, commit := range []string{"eeeeeee", "aaaaaaa"} {
		s.line("failed", commit, forge.Failure, failing("ApplyFailed"))
	}
	if tail := s.comment(1).Footer; strings.Contains(tail, "hunter2") {
		t.Errorf("it quotes the Sync: %s", tail)
	}
	s.calls()
	s.change(func(y *v1alpha1.Sync) {
		y.Status.ConfirmationToken = "3ae3f00d"
		y.Status.Pending = []v1alpha1.PendingChange{
			{Reason: "refused"}, {Reason: "read-only", SkippedBy: []string{"ReadOnly"}}, {Reason: "too many", HeldBy: []string{"MaxNodesReplaced"}}, {Reason: "too many", HeldBy: []string{"MaxNodesReplaced"}},
		}
	})
	s.condition("Ready", metav1.ConditionFalse, "NodeReplacementHeld", "too many; confirm with poolwright.dev/confirm: 3ae3f00d")
	s.later(time.Second)
	if tail := s.comment(1).Footer; !strings.Contains(tail, "poolwright.dev/confirm=3ae3f00d") || !strings.Contains(tail, "held: `too many`") {
		t.Errorf("held, the tail says %s", tail)
	}
	s.line("held", "eeeeeee", forge.Pending, waiting("too many"))
	s.condition("Ready", metav1.ConditionFalse, "ApplyFailed", "")
	s.calls()
	s.later(time.Second)
	s.expect("a phase that was reported before waits", "list")
	s.condition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "")
	s.oracle.stale = nodes("gpu", 4)
	s.apply(sha("f"), sha("e"))
	s.later(time.Second)
	s.expectMergeOutcome("applied a second later", 1, after(3*time.Second, nodes("gpu", 4)))
}

func TestWhatFailedBeforeAMergeDoesNotConcernIt(t *testing.T) {
	s := merged(t)
	s.tried("ApplyFailed", "")
	clear(s.oracle.contains)
	s.pass()
	s.expectMergeOutcome("merged", 1, waiting(""))
}

func TestADelayedApplyIsReported(t *testing.T) {
	s := merged(t)
	s.tried("NotReady", "")
	if after := s.pass(); after > failureGrace {
		t.Errorf("comes back after %s", after)
	}
	s.expectMergeOutcome("at once", 1, waiting(""))
	s.later(failureGrace)
	s.expectMergeOutcome("later", 1, failing("NotReady"))
	s.condition("Stalled", metav1.ConditionTrue, "NotReady", "")
	want := failing("NotReady")
	want.Stalled = true
	s.later(footerInterval)
	s.expectMergeOutcome("stalled", 1, want)
}

func TestAMergeThatWaitsForAnotherSyncIsHeld(t *testing.T) {
	s := merged(t)
	s.tried("DependencyNotReady", "waiting for Sync pools: it is not ready, with reason ApplyFailed")
	s.pass()
	s.expectMergeOutcome("at once", 1, waiting(""))
	s.later(failureGrace)
	s.expectMergeOutcome("later", 1, waiting("waiting for Sync pools: it is not ready, with reason ApplyFailed"))
}

func TestNoPlanStaysPendingBesideAMergedHead(t *testing.T) {
	// move lets main move, so that the plan is made anew.
	move := func(s *stage) {
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
	}
	push := func(s *stage) { s.board.find(1).Head.SHA = sha("b") }
	tests := []struct {
		name string
		// refused lets a guard hold what is planned first.
		refused bool
		first   bool
		do      func(s *stage)
		restart bool
		head    string
		state   forge.State
		message string
	}{
		{name: "one that is planned anew for another base is as it was planned last", first: true, do: move, head: "a", state: forge.Success, message: "1 to update"},
		{name: "also where that was refused", first: true, refused: true, do: move, head: "a", state: forge.ActionRequired, message: "1 to update"},
		{name: "one that was pushed while another head was planned", first: true, do: push, head: "b", state: forge.Errored, message: "merged before it was planned"},
		{name: "also over a restart", first: true, do: push, restart: true, head: "b", state: forge.Errored, message: "merged before it was planned"},
		{name: "one that is new", do: func(*stage) {}, head: "a", state: forge.Errored, message: "merged before it was planned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			plan := s.oracle.plan
			if tt.refused {
				s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
					p, err := plan(pr)
					p.Report.GuardResults = []report.GuardResult{{Rule: "MaxNodesReplaced", Result: "held"}}
					return p, err
				}
			}
			s.offer(1, sha("a"))
			if tt.first {
				s.pass()
			}
			tt.do(s)
			s.meanwhile(func() {
				s.clock.Step(slow)
				s.merge(1, sha("e"))
			})
			s.pass()
			if got := s.board.statuses[short(sha(tt.head))+planned]; got.State != forge.Pending {
				t.Fatalf("while it is planned: %+v", got)
			}
			if tt.restart {
				s.restart()
			}
			// The forge does not take it at first.
			s.board.fail = func(call string) error {
				if strings.HasPrefix(call, "status") {
					return &forge.Error{Code: 502}
				}
				return nil
			}
			s.later(soon)
			if got := s.item(1).Phase; got == v1alpha1.PullRequestMerged {
				t.Errorf("phase %s before the forge took it", got)
			}
			s.board.fail = nil
			s.later(time.Minute)
			if got := s.board.statuses[short(sha(tt.head))+planned]; got.State != tt.state || !strings.Contains(got.Description, tt.message) {
				t.Errorf("once it is merged: %+v", got)
			}
			if got := s.item(1).Phase; got != v1alpha1.PullRequestMerged {
				t.Errorf("phase %s", got)
			}
			s.calls()
			s.later(time.Minute)
			if calls := s.calls(); strings.Contains(calls, "plan") {
				t.Errorf("told twice: %s", calls)
			}
		})
	}
}
