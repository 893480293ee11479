package pullrequest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// TestAHeadThatIsMergedBeforeItIsPlanned is a push and its merge within one poll: what
// was reviewed is the head before it.
func TestAHeadThatIsMergedBeforeItIsPlanned(t *testing.T) {
	tests := []struct {
		name string
		// before is what the head before it came to.
		before func(s *stage)
		// commented is set where there is a comment for it to end.
		commented bool
	}{
		{"after one that replaces nodes of another pool", func(*stage) {}, true},
		{"after one that does not touch the cluster", func(s *stage) { s.oracle.plan = s.nothing }, false},
		{"after one that could not be planned", func(s *stage) {
			s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, errBoom }
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			tt.before(s)
			s.offer(1, sha("a"))
			s.pass()
			body := s.comment(1).Body
			s.board.find(1).Head.SHA = sha("b")
			s.clock.Step(time.Minute)
			s.merge(1, sha("e"))
			s.pass()
			if got := s.item(1); got.Head != sha("b") || got.Reviewed != nil || got.Base != "" || got.Headline != "" {
				t.Errorf("recorded as reviewed: %+v", got)
			}
			stale := nodes("cpu", 9)
			s.oracle.stale = stale
			s.clock.Step(40 * time.Second)
			s.apply(sha("f"), sha("e"))
			s.pass()
			want := after(40*time.Second, stale)
			want.Nodes = 9
			s.restart()
			s.later(failureGrace)
			for _, commit := range []string{"eeeeeee", "bbbbbbb"} {
				s.line("rolling", commit, forge.Pending, want)
			}
			s.ends("rolling", tt.commented, want)

			s.oracle.stale = nil
			s.later(footerInterval)
			s.restart()
			s.later(footerInterval)
			want.Remaining, want.Done = nil, want.Applied.Add(failureGrace+footerInterval)
			s.line("done", "bbbbbbb", forge.Success, want)
			s.ends("done", tt.commented, want)
			if got := s.item(1).Phase; got != v1alpha1.PullRequestDone || s.comment(1).Body != body {
				t.Errorf("phase %s, comment %s", got, s.comment(1).Body)
			}
			if got, there := s.board.statuses["aaaaaaa "+rollout]; there {
				t.Errorf("next to the head that was not merged: %+v", got)
			}
		})
	}
}

// ends compares the end of #1's comment, which was planned for another head.
func (s *stage) ends(what string, commented bool, want report.MergeOutcome) {
	s.Helper()
	tail := ""
	if commented {
		tail = fmt.Sprintf(movedTo, "bbbbbbb") + want.Markdown()
	}
	if d := cmp.Diff(tail, s.comment(1).Footer); d != "" {
		s.Errorf("%s: -want +got\n%s", what, d)
	}
}

func TestDriftBelowAHeadThatIsMergedBeforeItIsPlanned(t *testing.T) {
	s := newStage(t, reporting())
	s.offer(1, sha("a"))
	s.pass()
	s.board.find(1).Head.SHA = sha("b")
	s.clock.Step(time.Minute)
	s.merge(1, sha("e"))
	s.pass()
	s.apply(sha("f"), sha("e"))
	s.later(failureGrace)
	s.later(time.Minute)
	s.drifted("gpu")
	s.clock.Step(time.Minute)
	if got := s.item(1); got.Phase != v1alpha1.PullRequestDone || !got.MergedOtherHead || got.CommentKind != v1alpha1.PullRequestCommentDrift {
		t.Errorf("%+v", got)
	}
}
