package pullrequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/outcome"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestWhichNodesAMergeHasToDoWith(t *testing.T) {
	// applied is a merge that was applied some minutes after dawn; no changes mean that
	// nobody could tell.
	applied := func(minutes int, objects ...v1alpha1.ReviewedObject) *entry {
		e := &entry{item: v1alpha1.PullRequestStatus{AppliedTime: &metav1.Time{Time: dawn.Add(time.Duration(minutes) * time.Minute)}}}
		if len(objects) > 0 {
			e.item.Reviewed = &v1alpha1.ReviewedDisruption{Objects: objects}
		}
		return e
	}
	node := func(pool string, minutes int) provision.Node {
		return provision.Node{Pool: pool, Reason: "NodePoolDrifted", Created: dawn.Add(time.Duration(minutes) * time.Minute)}
	}
	caused := func(reason, object string) provision.Node {
		n := node("gpu", 1)
		n.Reason = reason
		if object != "" {
			n.Changes = []provision.Change{{Object: object, Field: "spec.role", Reason: reason}}
		}
		return n
	}
	tests := []struct {
		name  string
		node  provision.Node
		of    *entry
		later []*entry
		want  bool
	}{
		{"one that was there before", node("gpu", 1), applied(5, reviewed("NodePool", "gpu", "1")), nil, true},
		{"one that was launched late", node("gpu", 6), applied(5, reviewed("NodePool", "gpu", "1")), nil, true},
		{"one of another pool", node("cpu", 1), applied(5, reviewed("NodePool", "gpu", "1")), nil, false},
		{"one of any pool, where it is unknown which", node("cpu", 6), applied(5), nil, true},
		{"one from before a later merge of its pool is both's", node("gpu", 6), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(8, reviewed("NodePool", "gpu", "2"))}, true},
		{"one from after a later merge of its pool is that one's", node("gpu", 8), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(8, reviewed("NodePool", "gpu", "2"))}, false},
		{"a later merge of another pool takes none over", node("gpu", 9), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(8, reviewed("NodePool", "cpu", "2"))}, true},
		{"a later merge whose pool is unknown takes it over", node("gpu", 9), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(8)}, false},
		{"what was applied with it takes none over", node("gpu", 9), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(5, reviewed("NodePool", "gpu", "2"))}, true},
		{"one for its class", caused("NodeClassDrift", "EC2NodeClass/gpu"), applied(5, reviewed("EC2NodeClass", "gpu", "1")), nil, true},
		{"one for a class whose name begins like its class's", caused("NodeClassDrift", "EC2NodeClass/gpu"), applied(5, reviewed("EC2NodeClass", "g", "1")), nil, false},
		{"one of any class, where it is unknown which", caused("AMIDrift", ""), applied(5, reviewed("EC2NodeClass", "cpu", "1")), nil, true},
		{"one for its pool alone is of no class", caused("RequirementsDrifted", ""), applied(5, reviewed("EC2NodeClass", "cpu", "1")), nil, false},
		{"one for an overlay", caused("NodePoolDrifted", "NodeOverlay/shared"), applied(5, reviewed("NodeOverlay", "shared", "1")), nil, true},
		{"what was applied before it takes none over", node("gpu", 9), applied(5, reviewed("NodePool", "gpu", "1")), []*entry{applied(3, reviewed("NodePool", "gpu", "2"))}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			left := pendingReplacements{nodes: []provision.Node{tt.node}, known: true, applied: append(tt.later, tt.of)}
			var want []provision.Node
			if tt.want {
				want = left.nodes
			}
			if d := cmp.Diff(want, left.of(tt.of)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatIsReportedOfNodesThatAreDeletedWithTheirPool(t *testing.T) {
	s := newStage(t)
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		p, err := plan(pr)
		p.Reviewed.NodesReplaced, p.Reviewed.NodesRemoved = 1, 3
		return p, err
	}
	s.offer(1, sha("a"))
	s.pass()
	s.clock.Step(time.Minute)
	s.merge(1, sha("e"))
	s.oracle.contains[sha("f")+sha("e")] = true
	s.change(func(y *v1alpha1.Sync) {
		y.Status.LastAttemptedRevision, y.Status.ConfirmationToken = "main@sha1:"+sha("f"), "3ae3f00d,1234"
	})
	s.condition("Ready", metav1.ConditionFalse, "PruneHeld", "3 nodes go with it; confirm with poolwright.dev/confirm: 3ae3f00d,1234")
	s.pass()
	held := waiting("3 nodes go with it; confirm with poolwright.dev/confirm: 3ae3f00d,1234")
	held.Sync, held.Removed, held.ConfirmationToken = "poolwright-system/dev", 3, "3ae3f00d,1234"
	s.expectMergeOutcome("held", 1, held)
	if got := s.comment(1).Footer; !strings.Contains(got, "sync dev") && !strings.Contains(got, " dev ") {
		t.Errorf("whose confirmation it is stands nowhere: %s", got)
	}
	s.condition("Ready", metav1.ConditionTrue, "Applied", "")
	s.oracle.stale = nodes("gpu", 4)
	for i := range 3 {
		s.oracle.stale[i].Reason = outcome.PoolRemoved
	}
	s.apply(sha("f"), sha("e"))
	s.later(time.Minute)
	s.oracle.stale = nil
	s.later(time.Minute)
	want := done(0, 2*time.Minute)
	want.Removed = 3
	want.Predicted, want.Actual.Replaced, want.Actual.Removed = &report.RolloutFigures{Replaced: 1, Removed: 3}, 1, 3
	s.expectMergeOutcome("done", 1, want)
}
