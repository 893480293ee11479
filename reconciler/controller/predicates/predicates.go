// Package predicates distinguishes the updates of a Sync that request a run from all others, such as
// those of its status. It refuses to read anything but the two versions of the object. Start reading at
// RunRequested.
package predicates

import (
	"slices"

	fluxpredicates "github.com/fluxcd/pkg/runtime/predicates"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// RunRequested returns the predicate of the updates of a Sync that a run depends on: of its spec, of an annotation
// by which a run is requested, or by which something is allowed, rolled back or suspended. Other annotations, such as
// the time of a webhook or what kubectl and other controllers keep there, change nothing.
func RunRequested() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, fluxpredicates.ReconcileRequestedPredicate{}, predicate.Funcs{UpdateFunc: allowed})
}

// allowed reports whether an update of a Sync changes an annotation by which something is
// allowed, which taking it back does as well.
func allowed(e event.UpdateEvent) bool {
	if e.ObjectOld == nil || e.ObjectNew == nil {
		return false
	}
	before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
	return slices.ContainsFunc([]string{v1alpha1.ConfirmAnnotation, v1alpha1.UpdateParametersAnnotation, v1alpha1.RollbackAnnotation, v1alpha1.RollbackReasonAnnotation, v1alpha1.SuspendReasonAnnotation, v1alpha1.SuspendUntilAnnotation},
		func(name string) bool { return before[name] != after[name] })
}
