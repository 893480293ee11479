package controller

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// conflictDelay is after how long it is checked again whether the cache has caught up.
const conflictDelay = 50 * time.Millisecond

type runKind int

const (
	// full compared everything.
	full runKind = iota
	// idle found the revision unchanged and had no reason to read more.
	idle
	// partial read only what drifted.
	partial
	// waiting has no result of the source yet, and did nothing.
	waiting
)

// reconciliation is what one pass over a Sync found and did.
type reconciliation struct {
	reconciler.Result
	// err is set when there is no result.
	err error
	// kind is how far the pass went.
	kind runKind
	// observed are the things that a partial pass read.
	observed []state.Key
	// applied is the last applied revision where none could be read or loaded; else empty.
	applied string
	// partly is true where the revision of the run was never applied in full.
	partly bool
	// binding is what the confirmation tokens of what waits after the run are bound to.
	binding confirm.Binding
	// used are the parts of the confirmation by which all is done that they let pass.
	used []string
	// after is when a waiting pass is to be repeated; 0 leaves it to others. loading is
	// true where a full one waits for its revision.
	after   time.Duration
	loading bool
}

// computable is which changes the run could compute; last is that of the last full one.
func (d reconciliation) computable(last pending.Computable) pending.Computable {
	switch {
	case d.err != nil || d.OnlyDrift:
		return pending.Nothing
	case d.kind == partial:
		return last
	case d.kind == full && (d.SourceError != nil || len(d.Problems) > 0):
		return pending.NoDeletions
	}
	return pending.Everything
}

// mayHaveMoved reports whether the branch may be elsewhere by now.
func (d reconciliation) mayHaveMoved() bool {
	return d.err != nil || d.kind == partial || d.SourceError != nil && d.AttemptedRevision == ""
}

// union has each value of both lists once.
func union[T comparable](a, b []T) []T {
	for _, k := range b {
		if !slices.Contains(a, k) {
			a = append(a, k)
		}
	}
	return a
}

func interval(sync *v1alpha1.Sync) time.Duration {
	if sync.Spec.Interval.Duration <= 0 {
		return time.Minute
	}
	return sync.Spec.Interval.Duration
}

// requeueOnConflict tries once more after an error. That the cache was behind is none: it
// catches up by itself.
func requeueOnConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return ctrl.Result{}, err
}
