package pullrequest

import (
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// downgrade is the status as a version wrote it that had no kind of comment, and the process is
// another one.
func (s *stage) downgrade() {
	s.Helper()
	s.change(func(y *v1alpha1.Sync) {
		for i := range y.Status.PullRequests.Items {
			item := &y.Status.PullRequests.Items[i]
			item.CommentHash = "of-another-version-" + item.CommentHash
			item.CommentKind, item.CommentEditOnly, item.MergedOtherHead = "", false, false
		}
	})
	s.restart()
	s.calls()
}

func TestAStatusWithoutTheKindOfACommentLeadsToOneEditAtMost(t *testing.T) {
	unaffected := func(s *stage) { s.oracle.plan = s.nothing }
	mergedAs := func(s *stage) { s.clock.Step(time.Minute); s.merge(1, sha("e")) }
	tests := []struct {
		name string
		// before leads pull request 1 to where the earlier version left it; while is what
		// happens to it until the later one starts.
		before, while func(*stage)
		// comments and writes are those that are there in the end, and were made since.
		comments, writes int
		kind             v1alpha1.PullRequestCommentKind
	}{
		{"an open one that is planned", func(*stage) {}, func(*stage) {}, 1, 0, v1alpha1.PullRequestCommentPlan},
		{"an open one that changes nothing", unaffected, func(*stage) {}, 0, 0, v1alpha1.PullRequestCommentUnaffected},
		{"one that is merged meanwhile", func(*stage) {}, mergedAs, 1, 1, v1alpha1.PullRequestCommentOutcome},
		{"one that changes nothing and is merged meanwhile", unaffected, mergedAs, 0, 0, v1alpha1.PullRequestCommentOutcome},
		{"one of which another head is merged meanwhile", func(*stage) {}, func(s *stage) {
			s.board.find(1).Head.SHA = sha("b")
			mergedAs(s)
		}, 1, 1, v1alpha1.PullRequestCommentOutcome},
		{"a merged one", func(s *stage) { s.pass(); mergedAs(s) }, func(*stage) {}, 1, 1, v1alpha1.PullRequestCommentOutcome},
		{"a merged one that changes nothing", func(s *stage) { unaffected(s); s.pass(); mergedAs(s) }, func(*stage) {}, 0, 0, v1alpha1.PullRequestCommentOutcome},
		{"one that was merged unplanned", mergedAs, func(*stage) {}, 0, 0, v1alpha1.PullRequestCommentOutcome},
		{"one of which another head was merged", func(s *stage) {
			s.pass()
			s.board.find(1).Head.SHA = sha("b")
			mergedAs(s)
		}, func(*stage) {}, 1, 1, v1alpha1.PullRequestCommentOutcome},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			tt.before(s)
			s.pass()
			s.downgrade()
			tt.while(s)
			for range 3 {
				s.later(footerInterval)
			}
			made := strings.Count(s.calls(), "write #1")
			if made > tt.writes || len(s.board.comments) != tt.comments {
				t.Errorf("%d comments and %d writes, want %d and at most %d", len(s.board.comments), made, tt.comments, tt.writes)
			}
			s.comment(1) // That there is one only.
			if got := s.item(1); got.CommentKind != tt.kind {
				t.Errorf("the comment is of kind %q, want %q", got.CommentKind, tt.kind)
			}
			s.restart()
			for range 3 {
				s.later(footerInterval)
			}
			if got := s.calls(); strings.Contains(got, "write #1") {
				t.Errorf("written again by the next process:\n%s", got)
			}
		})
	}
}
