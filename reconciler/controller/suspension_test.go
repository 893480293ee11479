package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// suspendedStage is a Sync that has applied a revision and is suspended, while there is a newer one.
func suspendedStage(t *testing.T, suspend func(*v1alpha1.Sync, time.Time)) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.commit("kubernetes/map=1")
	s.reconcile()
	s.edit(func(sync *v1alpha1.Sync) { suspend(sync, s.clock.Now()) })
	s.commit("kubernetes/map=2")
	return s
}

func TestASuspensionWithAnEndEndsAtItsTimeAndNotBefore(t *testing.T) {
	s := suspendedStage(t, func(sync *v1alpha1.Sync, now time.Time) {
		suspension.Start(sync, "EKS is upgraded", now.Add(2*time.Hour))
	})
	if after := s.reconcile(); after != 2*time.Hour {
		t.Errorf("it is reconciled again after %s", after)
	}
	s.clock.Step(2*time.Hour - time.Second)
	s.restart()
	if after := s.reconcile(); after != time.Second || !s.sync().Spec.Suspend || s.cluster.live["map"] != "1" {
		t.Errorf("a second before, it is suspended %t, has applied %s, and is reconciled again after %s", s.sync().Spec.Suspend, s.cluster.live["map"], after)
	}
	s.clock.Step(time.Second)
	s.reconcile()
	if got := s.sync(); got.Spec.Suspend || len(got.Annotations) > 0 {
		t.Fatalf("at its end, it is suspended %t, with %v", got.Spec.Suspend, got.Annotations)
	}
	s.reconcile() // The update requests it.
	if got := s.cluster.live["map"]; got != "2" {
		t.Errorf("resumed, it has applied %s", got)
	}
}

func TestASuspensionWithoutAValidEndLastsUntilAPersonEndsIt(t *testing.T) {
	for name, suspend := range map[string]func(*v1alpha1.Sync, time.Time){
		"one without an end": func(sync *v1alpha1.Sync, _ time.Time) { suspension.Start(sync, "", time.Time{}) },
		"one with an end that is no time": func(sync *v1alpha1.Sync, _ time.Time) {
			sync.Spec.Suspend = true
			metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendUntilAnnotation, "2h")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := suspendedStage(t, suspend)
			for range 3 {
				if after := s.reconcile(); after != 0 {
					t.Errorf("it is reconciled again after %s", after)
				}
				s.clock.Step(1000 * time.Hour)
			}
			if !s.sync().Spec.Suspend || s.cluster.live["map"] != "1" {
				t.Errorf("it is suspended %t, and has applied %s", s.sync().Spec.Suspend, s.cluster.live["map"])
			}
		})
	}
}

// Who resumes with kubectl leaves the annotation. It must not end what somebody suspends with kubectl later.
func TestTheEndOfASuspensionThatAPersonEndedDoesNotEndALaterOne(t *testing.T) {
	s := suspendedStage(t, func(sync *v1alpha1.Sync, now time.Time) { suspension.Start(sync, "", now.Add(time.Hour)) })
	s.reconcile()
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = false })
	s.reconcile()
	if got := s.sync().Annotations[v1alpha1.SuspendUntilAnnotation]; got != "" || s.cluster.live["map"] != "2" {
		t.Errorf("it runs until %s, and has applied %s", got, s.cluster.live["map"])
	}
	if finalizers := s.sync().Finalizers; !slices.Contains(finalizers, v1alpha1.Finalizer) {
		t.Errorf("it has %v", finalizers)
	}
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	s.clock.Step(2 * time.Hour)
	s.reconcile()
	if !s.sync().Spec.Suspend {
		t.Error("it is resumed by the end of the suspension before")
	}
}

// An update would remove the fields of the spec that a controller of an earlier release does not know.
func TestTheControllerPatchesWhatItChangesInASync(t *testing.T) {
	s := newStage(t, nil)
	s.intercept(interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
		return errors.New("the whole object is written")
	}})
	s.commit("kubernetes/map=1")
	s.reconcile()
	if finalizers := s.sync().Finalizers; !slices.Contains(finalizers, v1alpha1.Finalizer) {
		t.Errorf("it has %v", finalizers)
	}
}
