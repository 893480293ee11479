package pullrequest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// historian answers what is in a history.
type historian struct {
	*oracle
	// requested are the merges that it was asked for.
	requested []string
	holds     func(merge string) (bool, error)
}

func (h *historian) Contains(_ context.Context, _, merge string) (bool, error) {
	h.requested = append(h.requested, merge)
	return h.holds(merge)
}

// took is how many times it was asked since the last time.
func (h *historian) took() int {
	n := len(h.requested)
	h.requested = nil
	return n
}

// commitOf is the commit of the merge of a pull request.
func commitOf(number int) string { return fmt.Sprintf("%07x%033x", number, 0) }

// withPastMerges is a stage with merges that nobody was asked for yet, and who answers.
func withPastMerges(t *testing.T, merges int) (*stage, *historian) {
	t.Helper()
	s := newStage(t)
	h := &historian{oracle: s.oracle}
	s.r.Build = func(context.Context, *v1alpha1.Sync) (ForgeAccess, error) {
		return ForgeAccess{Forge: s.board, Planner: h}, nil
	}
	for n := 100; n < 100+merges; n++ {
		s.board.merged = append(s.board.merged, forge.PullRequest{
			Number: n, Base: forge.Branch{Name: "main"}, Head: forge.Branch{SHA: sha("b")}, Merged: s.clock.Now(), MergeCommit: commitOf(n),
		})
	}
	return s, h
}

func TestWhatFollowingMergesCosts(t *testing.T) {
	t.Run("without Git each pass requests once, ever more slowly, and goes on to publish", func(t *testing.T) {
		s, h := withPastMerges(t, 40)
		h.holds = func(string) (bool, error) {
			s.clock.Step(callTime)
			return false, context.DeadlineExceeded
		}
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if after := s.pass(); after != want || h.took() != 1 {
				t.Errorf("pass %d comes back after %s", i, after)
			}
			s.clock.Step(want)
		}
		s.offer(1, sha("a"))
		s.pass()
		if s.comment(1).Body == "" {
			t.Error("an open pull request waits for Git")
		}
	})
	t.Run("requests end with the time of the pass, and go on soon", func(t *testing.T) {
		s, h := withPastMerges(t, 40)
		h.holds = func(string) (bool, error) {
			s.clock.Step(3 * time.Second)
			return false, nil
		}
		if after := s.pass(); after != soon || h.took() != 4 {
			t.Errorf("comes back after %s", after)
		}
		for range 9 {
			s.later(soon)
		}
		if got := h.took(); got != 36 {
			t.Errorf("asked %d times more", got)
		}
		s.later(soon)
		if got := h.took(); got != 0 {
			t.Errorf("asked %d times again", got)
		}
	})
	t.Run("one that can never be decided keeps none of the others waiting", func(t *testing.T) {
		s, h := withPastMerges(t, 4)
		lost := []string{commitOf(100), commitOf(101)}
		h.holds = func(merge string) (bool, error) {
			if slices.Contains(lost, merge) {
				return false, errBoom
			}
			return true, nil
		}
		for range 3 {
			s.later(time.Minute)
		}
		for n := int64(100); n < 104; n++ {
			want := v1alpha1.PullRequestRollingOut
			if n < 102 {
				want = v1alpha1.PullRequestMerged
			}
			if got := s.item(n).Phase; got != want {
				t.Errorf("#%d: %s", n, got)
			}
		}
		lost = lost[:1]
		for range 2 {
			s.later(limits.MaxBackoff)
		}
		if got := s.item(101).Phase; got == v1alpha1.PullRequestMerged {
			t.Errorf("found again, it is %s", got)
		}
	})
	t.Run("the ends of comments are written for a stint", func(t *testing.T) {
		s, h := withPastMerges(t, 40)
		h.holds = func(string) (bool, error) { return false, nil }
		s.board.fail = func(call string) error {
			if call != "list" {
				s.clock.Step(time.Second)
			}
			return nil
		}
		if after := s.pass(); after != soon {
			t.Errorf("comes back after %s", after)
		}
		first := len(s.board.statuses)
		for range 12 {
			s.later(soon)
		}
		if first > 6 || len(s.board.statuses) != 41 {
			t.Errorf("%d statuses, then %d", first, len(s.board.statuses))
		}
	})
}

func TestAHeldMergeStaysHeldWhileItsStateCannotBeRead(t *testing.T) {
	s := merged(t)
	s.oracle.contains[sha("f")+sha("e")] = true
	s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("f") })
	s.condition("Ready", metav1.ConditionFalse, "NodeReplacementHeld", "6 nodes would be replaced")
	s.pass()
	s.expectMergeOutcome("held", 1, waiting("6 nodes would be replaced"))
	s.oracle.err = errBoom
	s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("d") })
	for range 3 {
		s.later(time.Minute)
		s.expectMergeOutcome("nobody can tell", 1, waiting("6 nodes would be replaced"))
	}
}
