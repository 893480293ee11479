package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// A Sync that is let go while something of it could not be deleted would leave that behind, with
// nothing that tries again.
func TestASyncDoesNotGoWhileADeletionFails(t *testing.T) {
	s := newStage(t, deleting)
	forgotten := 0
	build := s.r.Build
	s.r.Build = func(ctx context.Context, sync *v1alpha1.Sync) (Assembly, error) {
		a, err := build(ctx, sync)
		a.Forget = func(context.Context) error { forgotten++; return nil }
		return a, err
	}
	s.commit("cluster/pool=1", "cluster/map=1")
	s.leave()
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.visit()
	if s.sync().Name == "" || forgotten > 0 {
		t.Fatalf("the Sync is %q, its inventory was deleted %d times", s.sync().Name, forgotten)
	}
	s.says("Ready", metav1.ConditionFalse, "DeletionFailed")
	if d := cmp.Diff(map[string]string{"pool": "1"}, s.cluster.live); d != "" {
		t.Errorf("the cluster (-want +got):\n%s", d)
	}
	delete(s.cluster.refused, "pool")
	s.visit()
	if s.sync().Name != "" || forgotten != 1 || len(s.cluster.live) > 0 {
		t.Errorf("the Sync is %q, its inventory was deleted %d times, the cluster holds %v", s.sync().Name, forgotten, s.cluster.live)
	}
}

// changedSync reads a Sync as others changed it, or fails.
type changedSync struct {
	client.Reader
	change func(*v1alpha1.Sync) error
}

func (r changedSync) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return r.change(obj.(*v1alpha1.Sync))
}

// Between the observation and the first deletion minutes can go by, also of a Sync that is being
// deleted.
func TestASyncThatWasChangedSinceItsDeletionBeganDeletesNothing(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Sync) error{
		"its deletionPolicy is Orphan": func(sync *v1alpha1.Sync) error {
			sync.Generation++
			sync.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
			return nil
		},
		"it was deleted and made again": func(sync *v1alpha1.Sync) error { sync.UID = "another"; return nil },
		"it is not being deleted":       func(sync *v1alpha1.Sync) error { sync.DeletionTimestamp = nil; return nil },
		"it cannot be read":             func(*v1alpha1.Sync) error { return errors.New("the API server does not answer") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, deleting)
			s.commit("cluster/pool=1", "cluster/map=1")
			s.leave()
			s.r.Live = changedSync{s.r.Client, change}
			s.visit()
			if s.sync().Name == "" || len(s.cluster.live) != 2 {
				t.Fatalf("the Sync is %q, the cluster holds %v", s.sync().Name, s.cluster.live)
			}
			s.r.Live = s.r.Client
			s.visit()
			if s.sync().Name != "" || len(s.cluster.live) > 0 {
				t.Errorf("unchanged, the Sync is %q, the cluster holds %v", s.sync().Name, s.cluster.live)
			}
		})
	}
}
