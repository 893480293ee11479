package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// A Sync that is let go while something of it could not be deleted would leave that behind, with
// nothing that tries again.
func TestASyncDoesNotGoWhileADeletionFails(t *testing.T) {
	s := newStage(t, deleting)
	orphaned := 0
	build := s.r.Build
	s.r.Build = func(ctx context.Context, sync *v1alpha1.Sync) (SyncRuntime, error) {
		a, err := build(ctx, sync)
		a.Orphan = func(context.Context) error { orphaned++; return nil }
		return a, err
	}
	s.commit("kubernetes/pool=1", "kubernetes/map=1")
	s.leave()
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.reconcile()
	if s.sync().Name == "" || orphaned > 0 {
		t.Fatalf("the Sync is %q, its inventory was deleted %d times", s.sync().Name, orphaned)
	}
	s.expectCondition("Ready", metav1.ConditionFalse, "DeletionFailed")
	if d := cmp.Diff(map[string]string{"pool": "1"}, s.cluster.live); d != "" {
		t.Errorf("the cluster (-want +got):\n%s", d)
	}
	delete(s.cluster.refused, "pool")
	s.reconcile()
	if s.sync().Name != "" || orphaned != 1 || len(s.cluster.live) > 0 {
		t.Errorf("the Sync is %q, its inventory was deleted %d times, the cluster holds %v", s.sync().Name, orphaned, s.cluster.live)
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
			sync.Spec.DeletionPolicy = v1alpha1.DeletionPolicyOrphan
			return nil
		},
		"it was deleted and made again": func(sync *v1alpha1.Sync) error { sync.UID = "another"; return nil },
		"it is not being deleted":       func(sync *v1alpha1.Sync) error { sync.DeletionTimestamp = nil; return nil },
		"it cannot be read":             func(*v1alpha1.Sync) error { return errors.New("the API server does not answer") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, deleting)
			s.commit("kubernetes/pool=1", "kubernetes/map=1")
			s.leave()
			s.r.Live = changedSync{s.r.Client, change}
			s.reconcile()
			if s.sync().Name == "" || len(s.cluster.live) != 2 {
				t.Fatalf("the Sync is %q, the cluster holds %v", s.sync().Name, s.cluster.live)
			}
			s.r.Live = s.r.Client
			s.reconcile()
			if s.sync().Name != "" || len(s.cluster.live) > 0 {
				t.Errorf("unchanged, the Sync is %q, the cluster holds %v", s.sync().Name, s.cluster.live)
			}
		})
	}
}

// Who is asked to confirm must find what waits, and by which token it is confirmed, also while a
// run cannot read anything: nothing was compared, so what waited still does.
func TestWhatWaitsStaysInTheStatusWhileNothingCanBeRead(t *testing.T) {
	pool := loss.DeletionImpact{Impact: "2 nodes go with it", Losses: loss.Counts{"Node": 2}}
	for name, held := range map[string]func(*stage){
		"of a Sync that is being deleted": func(s *stage) {
			s.leave()
			s.cluster.removals["pool"] = pool
		},
		"of a Sync that applies a revision": func(s *stage) {
			s.reconcile()
			s.cluster.removals["pool"] = pool
			s.commit("kubernetes/map=1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, deleting)
			s.commit("kubernetes/pool=1", "kubernetes/map=1")
			held(s)
			s.later()
			token, before := s.required("PruneHeld"), s.sync().Status
			build := s.r.Build
			s.r.Build = func(context.Context, *v1alpha1.Sync) (SyncRuntime, error) {
				return SyncRuntime{}, errors.New("the API server does not answer")
			}
			s.restart()
			s.later()
			now := s.sync().Status
			if d := cmp.Diff(before.Pending, now.Pending); d != "" || len(now.Pending) == 0 || now.ConfirmationToken != token {
				t.Errorf("token %q, was %q, pending (-before +now):\n%s", now.ConfirmationToken, token, d)
			}
			s.r.Build = build
			s.restart()
			s.confirm(token)
			s.later()
			if s.cluster.live["pool"] != "" {
				t.Errorf("confirmed, the cluster holds %v", s.cluster.live)
			}
			if now := s.sync().Status; len(now.Pending) > 0 || now.ConfirmationToken != "" {
				t.Errorf("confirmed, token %q, pending %v", now.ConfirmationToken, now.Pending)
			}
		})
	}
}

// What keeps a Sync that is being deleted is another's text: what looks like a token in it is masked.
func TestWhyASyncCannotGoIsMasked(t *testing.T) {
	const secret = "ghp_0123456789abcdefABCDEF"
	s := newStage(t, deleting)
	build := s.r.Build
	s.r.Build = func(ctx context.Context, sync *v1alpha1.Sync) (SyncRuntime, error) {
		a, err := build(ctx, sync)
		a.Orphan = func(context.Context) error { return errors.New("the inventory: " + secret) }
		return a, err
	}
	s.commit("kubernetes/pool=1")
	s.leave()
	for want, refused := range map[string]string{"the inventory: (masked)": "", "a webhook: (masked)": "a webhook: " + secret} {
		s.commit("kubernetes/pool=1")
		s.cluster.live["pool"], s.cluster.applied["pool"] = "1", "1"
		delete(s.cluster.refused, "pool")
		if refused != "" {
			s.cluster.refused["pool"] = refused
		}
		s.reconcile()
		message := s.expectCondition("Ready", metav1.ConditionFalse, "DeletionFailed")
		if events := strings.Join(s.takeEvents(), ""); !strings.Contains(message, want) || strings.Contains(message+events, secret) {
			t.Errorf("message %q, events %q", message, events)
		}
	}
}
