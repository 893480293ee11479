package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

// branch is a source that gives the commit which a Sync follows.
type branch struct {
	*stage
	commit string
}

func (b branch) Fetch(context.Context) (gitsource.Snapshot, error) {
	revision := b.revision
	if b.commit != "" {
		revision = "main@sha1:" + b.commit
	}
	return gitsource.Snapshot{Revision: revision}, nil
}

// following has the stage's Sync follow what it is rolled back to.
func (s *stage) following() {
	build := s.r.Build
	s.r.Build = func(ctx context.Context, sync *v1alpha1.Sync) (SyncRuntime, error) {
		out, err := build(ctx, sync)
		out.Loop = reconciler.NewLoop(branch{s, rollback.Ref(sync).Commit}, s.load, reconciler.NamedTarget{Name: "kubernetes", Target: s.cluster})
		return out, err
	}
}

func TestASyncThatIsRolledBackStaysThereUntilItIsResumed(t *testing.T) {
	const old, newest = "0123456789012345678901234567890123456789", "main@sha1:111"
	s := newStage(t, nil)
	s.following()
	applied := func() string { return s.sync().Status.LastAppliedRevision }
	s.commit("kubernetes/pool=1")
	s.reconcile()
	if got := applied(); got != "main@sha1:11" {
		t.Fatal(got)
	}
	s.edit(func(sync *v1alpha1.Sync) {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.RollbackAnnotation, old)
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.RollbackReasonAnnotation, "nodes hang")
	})
	s.reconcile()
	stays := func(when string) {
		t.Helper()
		if got := applied(); got != "main@sha1:"+old {
			t.Errorf("%s it has applied %s", when, got)
		}
		if d := cmp.Diff(rollback.Message(s.sync()), s.expectCondition(rollback.Condition, metav1.ConditionTrue, "RolledBack")); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	stays("at once")
	s.commit("kubernetes/pool=2")
	s.later()
	stays("after a newer commit")
	s.restart()
	s.later()
	stays("after a restart")
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	s.reconcile()
	stays("suspended")
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = false })
	s.later()
	stays("resumed from the suspension")
	s.edit(rollback.End)
	s.reconcile()
	if got := applied(); got != newest || conditions.Has(s.sync(), rollback.Condition) {
		t.Errorf("followed again it has applied %s: %v", got, s.sync().Status.Conditions)
	}
}

// A run of a newer revision that has begun deletes nothing after the Sync was rolled back.
func TestARollbackEndsTheDeletionsOfARunThatHasBegun(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/pool=1", "kubernetes/map=1")
	s.reconcile()
	s.commit("kubernetes/pool=2")
	s.cluster.meanwhile = func() {
		s.cluster.meanwhile = nil
		s.edit(func(sync *v1alpha1.Sync) {
			metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.RollbackAnnotation, "0123456789012345678901234567890123456789")
		})
	}
	s.clock.Step(70 * time.Second)
	s.reconcile()
	if s.cluster.live["map"] == "" || slices.Contains(s.cluster.writes, "delete map") {
		t.Errorf("it is deleted: %v", s.cluster.writes)
	}
}
