package controller

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// lag is after how long it is checked again whether the cache has caught up.
const lag = 50 * time.Millisecond

type runKind int

const (
	// full compared everything.
	full runKind = iota
	// idle found the revision unchanged and had no reason to look further.
	idle
	// partial looked only at what drifted.
	partial
	// waiting has not heard from the source yet, and did nothing.
	waiting
)

// run is what one pass over a Sync found and did.
type run struct {
	reconciler.Result
	// err is set when there is no result to speak of.
	err error
	// kind is how far the pass went.
	kind runKind
	// observed are the things that a partial pass read.
	observed []state.Key
	// applied is the last applied revision where none could be read or loaded; else empty.
	applied string
	// partly is true where the revision of the run was never applied in full.
	partly bool
	// scope is what the confirmation tokens of what waits after the run are bound to.
	scope confirm.Scope
	// used are the parts of the confirmation by which all is done that they let pass.
	used []string
	// after is when a waiting pass wants to come back; 0 leaves it to others. loading is
	// true where a full one waits for its revision.
	after   time.Duration
	loading bool
}

// computable is which changes the run could compute; last is that of the last full one.
func (d run) computable(last computes) computes {
	switch {
	case d.err != nil || d.Resumed:
		return nothing
	case d.kind == partial:
		return last
	case d.kind == full && (d.Stale != nil || len(d.Problems) > 0):
		return noDeletions
	}
	return everything
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

// again tries once more after an error. That the cache was behind is none: it
// catches up by itself.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lag}, nil
	}
	return ctrl.Result{}, err
}

// done reports whether all that tokens of a purpose let pass is made; let is false where
// none let anything pass. Only a run that has compared everything can know.
func (d run) done(sync *v1alpha1.Sync, purpose string) (let, done bool) {
	if d.kind != full || d.err != nil {
		return false, false
	}
	done = true
	for _, r := range d.Outcome.Results {
		if slices.ContainsFunc(r.Change.Tokens, func(t hold.Token) bool { return t.Purpose == purpose }) {
			let, done = true, done && r.Status == apply.Applied
		}
	}
	return let || purpose == syncpolicy.Move && d.movedBy(sync), done
}

// idle reports whether nothing waits for a token of the purpose, so that one that is
// quoted must not let anything pass that waits later.
func (d run) idle(purpose string) bool {
	if d.kind != full || d.err != nil || d.Stale != nil || len(d.Problems) > 0 {
		return false
	}
	unseen := func(u plan.Unknown) bool { return u.Origin == (state.Origin{}) } // It may be there to be deleted.
	asks := func(r apply.Result) bool {
		return slices.ContainsFunc(r.Change.Hold.Tokens(), func(t hold.Token) bool { return t.Purpose == purpose })
	}
	return !slices.ContainsFunc(d.Plan.Unknown, unseen) && !slices.ContainsFunc(d.Outcome.Results, asks) && !d.awaitsNodes(purpose)
}

// letting are the tokens that the run was allowed to do something by.
func (d run) letting(sync *v1alpha1.Sync) []hold.Token {
	var out []hold.Token
	for _, r := range d.Outcome.Results {
		out = append(out, r.Change.Tokens...)
	}
	if from, to := syncpolicy.Followed(sync), commitOf(d.Revision); from != "" && from != to {
		out = append(out, syncpolicy.MoveToken(from, to))
	}
	return out
}

// movedBy reports whether the run followed the branch to another commit because the
// Sync's confirmation accepts that.
func (d run) movedBy(sync *v1alpha1.Sync) bool {
	from, to := syncpolicy.Followed(sync), commitOf(d.Revision)
	return from != "" && from != to && fits(sync, sync.Annotations[v1alpha1.ConfirmAnnotation], []hold.Token{syncpolicy.MoveToken(from, to)})
}
