package pullrequest

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// crowd lets the listing hold fifty younger merges and nothing else.
func (s *stage) crowd(into string) {
	s.board.merged = nil
	for i := range 50 {
		s.board.merged = append(s.board.merged, forge.PullRequest{
			Number: 100 + i, Base: forge.Branch{Name: into}, Head: forge.Branch{SHA: sha("b")}, Merged: s.clock.Now(), MergeCommit: sha("c"),
		})
	}
}

func TestAMergeIsFollowedHoweverManyComeAfterIt(t *testing.T) {
	for _, into := range []string{"docs", "main"} {
		t.Run("into "+into, func(t *testing.T) {
			s := merged(t)
			s.pass()
			s.crowd(into)
			s.later(time.Minute)
			s.oracle.stale = nodes("gpu", 4)
			s.apply(sha("f"), sha("e"))
			s.later(time.Minute)
			if got := s.item(1); got.Phase != v1alpha1.PullRequestRollingOut || got.Reviewed == nil {
				t.Errorf("%+v", got)
			}
			s.expectMergeOutcome("rolling", 1, after(time.Minute, nodes("gpu", 4)))
			s.oracle.stale = nil
			s.restart()
			s.later(time.Minute)
			s.later(failureGrace)
			s.expectMergeOutcome("done", 1, done(time.Minute, 2*time.Minute))
			s.line("done", "eeeeeee", forge.Success, done(time.Minute, 2*time.Minute))
			s.later(time.Minute)
			if got, kept := s.r.states.open[stageName].records[1]; kept {
				t.Errorf("what is over is kept: %+v", got.item)
			}
		})
	}
}

func TestAMergeThatIsListedNoMoreIsDropped(t *testing.T) {
	tests := []struct {
		name string
		do   func(s *stage)
		want bool
	}{
		{"not while it is followed", func(*stage) {}, true},
		{"once it is 30 days old", func(s *stage) { s.clock.Step(followedFor) }, false},
		{"where it is into another branch now", func(s *stage) {
			s.board.merged = []forge.PullRequest{{Number: 1, Base: forge.Branch{Name: "other"}, Merged: s.clock.Now()}}
		}, false},
		{"where the repository is another one", func(s *stage) {
			s.change(func(y *v1alpha1.Sync) { y.Spec.PullRequests.URL = "https://forge/o/other" })
		}, false},
		{"and nothing is published where its comment is not", func(s *stage) {
			s.restart()
			clear(s.board.comments)
			s.oracle.stale = nodes("gpu", 4)
			s.apply(sha("f"), sha("e"))
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := merged(t)
			s.pass()
			s.board.merged = nil
			tt.do(s)
			comments := len(s.board.comments)
			s.later(time.Minute)
			if got := s.item(1); got.Number == 1 != tt.want || len(s.board.comments) != comments {
				t.Errorf("%+v, %d comments", got, len(s.board.comments))
			}
		})
	}
}

func TestASyncThatCannotListTheOthersReportsNothing(t *testing.T) {
	young := newSync("young")
	young.CreationTimestamp.Time = dawn.Add(time.Hour)
	s := newStage(t, newSync(stageName.Name), young)
	s.offer(1, sha("a"))
	broken := true
	s.r.AllSyncs = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if broken {
				return errBoom
			}
			return c.List(ctx, list, opts...)
		}})
	if after := s.passOf("young"); after != limits.MinBackoff {
		t.Errorf("comes back after %s", after)
	}
	s.expect("it does not know", "list")
	if events := s.eventually(); len(events) != 1 || events[0] != "Warning SetupFailed Pull requests cannot be planned: listing Syncs: boom" {
		t.Errorf("events %q", events)
	}
	broken = false
	s.clock.Step(limits.MinBackoff)
	s.passOf("young")
	s.expect("it knows", "list", "status aaaaaaa poolwright/plan (prod/young): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod/young): success")
}
