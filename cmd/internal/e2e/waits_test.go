package e2e

import (
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// isReady says why the Sync is not ready at the revision, or nil.
func isReady(sync *v1alpha1.Sync, revision string) error {
	ready := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
	switch {
	case ready == nil:
		return fmt.Errorf("there is no condition Ready yet")
	case ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != sync.Generation:
		return fmt.Errorf("Ready is %s, %s at generation %d of %d: %s", ready.Status, ready.Reason, ready.ObservedGeneration, sync.Generation, ready.Message)
	case sync.Status.LastAppliedRevision != revision:
		return fmt.Errorf("revision %s is applied, not %s", sync.Status.LastAppliedRevision, revision)
	}
	for _, kind := range []string{"Reconciling", "Stalled"} {
		if meta.FindStatusCondition(sync.Status.Conditions, kind) != nil {
			return fmt.Errorf("it is ready and %s", kind)
		}
	}
	return nil
}

// ready waits until the newest commit is applied.
func (s *syncFixture) ready() *v1alpha1.Sync {
	s.Helper()
	return s.readyAs(s.name)
}

func (s *syncFixture) readyAs(name string) *v1alpha1.Sync {
	s.Helper()
	var sync *v1alpha1.Sync
	s.eventually("Sync "+name+" is ready", func() (err error) {
		if sync, err = s.read(name); err != nil {
			return err
		}
		return isReady(sync, s.repo.revision())
	})
	return sync
}

// waitForNotReady waits until the Sync is not ready for the given reason, and an event
// says so. It returns the message.
func (s *syncFixture) waitForNotReady(reason string) string {
	s.Helper()
	var ready *metav1.Condition
	s.eventually("the Sync is not ready: "+reason, func() error {
		ready = meta.FindStatusCondition(s.sync().Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	s.waitForEvent(reason)
	return ready.Message
}

// waitForEvent waits for an event of the Sync with the reason, and returns its message.
func (s *syncFixture) waitForEvent(reason string) string {
	s.Helper()
	message := ""
	s.eventually("an event "+reason, func() error {
		var events corev1.EventList
		if err := s.hand.List(s.Context(), &events, client.InNamespace(s.system)); err != nil {
			return err
		}
		var observed []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Sync" && e.InvolvedObject.Name == s.name {
				observed = append(observed, e.Reason)
				if e.Reason == reason {
					message = e.Message
					return nil
				}
			}
		}
		return fmt.Errorf("there are only %v", observed)
	})
	return message
}

// handled asks for a run now and waits until it is done. Whatever the
// controller still had to do has happened then.
func (s *syncFixture) handled() *v1alpha1.Sync {
	s.Helper()
	return s.handledAs(s.name)
}

func (s *syncFixture) handledAs(name string) *v1alpha1.Sync {
	s.Helper()
	token := time.Now().Format(time.RFC3339Nano)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, token)
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.system}}
	if err := s.hand.Patch(s.Context(), sync, mergePatch(patch)); err != nil {
		s.Fatal(err)
	}
	s.eventually("the request is handled", func() error {
		var err error
		if sync, err = s.read(name); err == nil && sync.Status.LastHandledReconcileAt != token {
			err = fmt.Errorf("the last one handled is %q", sync.Status.LastHandledReconcileAt)
		}
		return err
	})
	return sync
}
