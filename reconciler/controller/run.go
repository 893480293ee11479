package controller

import (
	"cmp"
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
	// idle found the revision unchanged and had no reason to read more.
	idle
	// partial read only what drifted.
	partial
	// waiting has no result of the source yet, and did nothing.
	waiting
)

// run is what one pass over a Sync found and did.
type run struct {
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
	// scope is what the confirmation tokens of what waits after the run are bound to.
	scope confirm.Scope
	// used are the parts of the confirmation by which all is done that they let pass.
	used []string
	// after is when a waiting pass is to be repeated; 0 leaves it to others. loading is
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

// done reports whether anything that a part of the Sync's confirmation let pass is made, by which its
// token is used up, and returns that token, as it was reported: what is recorded holds no text of the
// annotation. The token is empty where the part let nothing pass. Deletions that are not made go on by
// what was recorded of them; updates that are not wait for a token of their own.
func (d run) done(sync *v1alpha1.Sync, part string) (token string, done bool) {
	if d.kind != full || d.err != nil {
		return "", false
	}
	let, made := false, false
	for _, r := range d.Outcome.Results {
		if by := asked(sync, part, r.Change.Tokens); by != "" {
			token, let, made = by, true, made || r.Status == apply.Applied
		}
	}
	return cmp.Or(token, asked(sync, part, d.moved(sync))), made || !let
}

// unfinished reports whether an update that a token of the purpose let pass is not made yet. What
// remains of it is confirmed by that token while none of the purpose is used: a deletion keeps by
// which token it was begun.
func (d run) unfinished(purpose string) bool {
	return slices.ContainsFunc(d.Outcome.Results, func(r apply.Result) bool {
		return r.Status != apply.Applied && r.Change.Action != plan.Delete &&
			slices.ContainsFunc(r.Change.Tokens, func(t hold.Token) bool { return t.Purpose == purpose })
	})
}

// idle reports whether nothing waits for a token of the purpose, so that one that is
// quoted must not let anything pass that waits later. It must be certain that nothing does, save for a
// token that began to let something pass and does so no more: deletions go on without it.
func (d run) idle(purpose string, begun bool) bool {
	if d.kind != full || d.err != nil || d.awaitsNodes(purpose) {
		return false
	}
	if begun {
		return d.Stale == nil
	}
	unseen := func(u plan.Unknown) bool { return u.Origin == (state.Origin{}) } // It may be there to be deleted.
	if d.Stale != nil || len(d.Problems) > 0 || slices.ContainsFunc(d.Plan.Unknown, unseen) {
		return false
	}
	asks := func(r apply.Result) bool {
		return slices.ContainsFunc(r.Change.Hold.Tokens(), func(t hold.Token) bool { return t.Purpose == purpose })
	}
	return !slices.ContainsFunc(d.Outcome.Results, asks) && !d.unfinished(purpose)
}

// moved is the token of the branch's move to the commit of the run, also where that cannot be loaded;
// none where it did not move.
func (d run) moved(sync *v1alpha1.Sync) []hold.Token {
	from, to := syncpolicy.Followed(sync), commitOf(cmp.Or(d.Attempted, d.Revision))
	if from == "" || from == to {
		return nil
	}
	return []hold.Token{syncpolicy.ForcePushToken(from, to)}
}
