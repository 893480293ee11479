package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// This file is about what waits for a confirmation: the reasons, the one token for all of
// it, the tokens that were used and those that do not fit.

// waiting is the Sync's reason while changes wait for a person, and why they do. The
// gist stays the same while only numbers of nodes move.
func (p picture) waiting(revision string) (reason, message, gist string) {
	// What only a person can end comes before what also ends by itself.
	order := []string{"", rolloutHeld, pruneHeld, guardHeld}
	var of []string
	for _, l := range p.left {
		switch l.waits {
		case pruneHeld, guardHeld:
			of = append(of, l.change.Reason)
		case rolloutHeld:
			of = append(of, l.change.Object, revision)
		default:
			continue
		}
		if slices.Index(order, l.waits) > slices.Index(order, reason) {
			reason = l.waits
		}
		for _, t := range l.held.Tokens() {
			of = append(of, t.Digest)
		}
	}
	return cmp.Or(reason, pruneHeld), p.reasons(), strings.Join(of, "\x00")
}

// namedReasons bounds how many reasons a message names, of which there may be one for
// each deletion: the token must have room behind them.
const namedReasons = 10

// reasons are those of all changes that wait for a person.
func (p picture) reasons() string {
	var all hold.Reasons
	for _, l := range p.left {
		if l.waits != "" {
			all = append(all, l.held...)
		}
	}
	return summary(all)
}

// summary names reasons, each once: first those that are about all changes.
func summary(reasons hold.Reasons) string {
	var all hold.Reasons
	seen := map[string]bool{}
	for _, r := range reasons {
		if text := r.String(); !seen[text] {
			seen[text], all = true, append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b hold.Reason) int {
		one := func(r hold.Reason) int { return min(len(r.Facts.Object), 1) }
		return cmp.Or(cmp.Compare(one(a), one(b)), strings.Compare(a.String(), b.String()))
	})
	out := all[:min(len(all), namedReasons)].String()
	if rest := len(all) - namedReasons; rest > 0 {
		out += fmt.Sprintf("; and %s (see status.pending)", count(rest, "more reason"))
	}
	return out
}

// tokens are those of all that waits for a confirmation, and of what one has let pass
// that is not made yet: who confirms the rest must not take that back. None where
// nothing waits.
func (p picture) tokens() []hold.Token {
	if !slices.ContainsFunc(p.left, func(l leftover) bool { return l.held.Asks() }) {
		return nil
	}
	var out []hold.Token
	for _, l := range p.left {
		out = append(append(out, l.tokens...), l.held.Tokens()...)
	}
	return out
}

// confirmedKeys are what a token has let pass and is not made yet.
func (p picture) confirmedKeys() []state.Key {
	var out []state.Key
	for _, l := range p.left {
		if len(l.tokens) > 0 {
			out = append(out, l.key)
		}
	}
	return out
}

// ask completes a verdict with what waits for a confirmation, and with the one token for
// all of it.
func (v *verdict) ask(done run) {
	v.tokens = v.picture.tokens()
	if moved, ok := errors.AsType[*gitsource.NotFastForwardError](cmp.Or(done.err, done.Stale)); ok {
		v.tokens = append(v.tokens, tokenForMove(moved.From, moved.To))
	}
	if len(v.tokens) == 0 || v.ready {
		return
	}
	if reasons := v.picture.reasons(); reasons != "" && !slices.Contains([]string{pruneHeld, guardHeld, rolloutHeld}, v.reason) {
		v.message += "; also waiting for a confirmation: " + reasons
	}
	// However long the reasons are, the token is never cut off.
	v.message = limited(v.message, messageLimit/2) + hold.ConfirmWith(hold.Join(v.tokens, done.scope))
}

// remedy is what ends the wait for a person, where the source waits for one.
func remedy(err error) string {
	if _, moved := errors.AsType[*gitsource.NotFastForwardError](err); !moved {
		return ""
	}
	return "; put the branch back to a commit that descends from it, or accept the new history"
}

// tokenForMove is what a confirmation of a branch's move quotes. It stands for both
// ends: one that was confirmed once does not confirm a way back to it later.
func tokenForMove(from, to string) hold.Token {
	return hold.Token{Purpose: "move", Digest: confirm.Digest([]string{from, to})}
}

// used reports whether the Sync's confirmation was used by the run, and all that it has
// let pass is done, whatever else waits; or whether nothing waits for one any more. Only
// a run that has compared everything can know.
func (d run) used(sync *v1alpha1.Sync) bool {
	if d.kind != full || d.err != nil {
		return false
	}
	let := func(r apply.Result) bool { return len(r.Change.Tokens) > 0 }
	undone := func(r apply.Result) bool { return let(r) && r.Status != apply.Applied }
	results := d.Outcome.Results
	switch {
	case slices.ContainsFunc(results, undone):
		return false
	case slices.ContainsFunc(results, let), d.movedBy(sync):
		return true
	case d.Stale != nil, len(d.Problems) > 0:
		return false
	}
	unseen := func(u plan.Unknown) bool { return u.Origin == (state.Origin{}) } // It may be there to be deleted.
	asks := func(r apply.Result) bool { return r.Change.Hold.Asks() }
	return !slices.ContainsFunc(d.Plan.Unknown, unseen) && !slices.ContainsFunc(results, asks)
}

// scopeAfter is what confirmation tokens are bound to after the run: those of a
// confirmation that was used, by this run or by one whose status could not be written, are
// used up.
func (d run) scopeAfter(sync *v1alpha1.Sync, s *session) confirm.Scope {
	out := scope(sync)
	if quoted := sync.Annotations[v1alpha1.ConfirmAnnotation]; quoted != "" && (d.used(sync) || s != nil && s.used == quoted) {
		out.Handled = quoted
	}
	return out
}

// movedBy reports whether the run followed the branch to another commit because the
// Sync's confirmation accepts that.
func (d run) movedBy(sync *v1alpha1.Sync) bool {
	from := Followed(sync)
	_, to, _ := strings.Cut(d.Revision, "@sha1:")
	_, quoted := tokenForMove(from, to).QuotedBy(sync.Annotations[v1alpha1.ConfirmAnnotation], scope(sync))
	return from != "" && from != to && quoted
}

// The condition of a Sync whose confirmation does not fit, and its reason.
const (
	confirmedCondition   = "Confirmed"
	confirmationMismatch = "ConfirmationMismatch"
)

// confirmation puts the token of what waits into the status, and sets the condition of a
// confirmation that quotes what does not wait; without one, or where it fits or was used,
// or nothing waits, there is none.
func (v verdict) confirmation(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, next confirm.Scope) {
	status.ConfirmationToken = hold.Join(v.tokens, next)
	quoted := sync.Annotations[v1alpha1.ConfirmAnnotation]
	var strange []string
	for _, one := range confirm.Tokens(quoted) {
		fits := func(t hold.Token) bool { _, ok := t.QuotedBy(one, scope(sync)); return ok }
		if !slices.ContainsFunc(v.tokens, fits) {
			strange = append(strange, limited(one, nameLimit))
		}
	}
	if quoted == "" || quoted == next.Handled || len(strange) == 0 || len(v.tokens) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, confirmedCondition)
		return
	}
	set(status, sync, confirmedCondition, metav1.ConditionFalse, confirmationMismatch,
		fmt.Sprintf("%s is %s, which fits nothing that waits; what waits is confirmed by %s", v1alpha1.ConfirmAnnotation, strings.Join(strange, ","), status.ConfirmationToken))
}

// heldError says that what a Sync takes along waits for a person.
type heldError struct {
	reasons string
	tokens  []hold.Token
	scope   confirm.Scope
}

func (e *heldError) Error() string {
	return e.reasons + hold.ConfirmWith(hold.Join(e.tokens, e.scope))
}

// mismatch emits an event when a confirmation was found not to fit, or not to fit any more.
func (r *SyncReconciler) mismatch(sync *v1alpha1.Sync, now *v1alpha1.SyncStatus) {
	before := meta.FindStatusCondition(sync.Status.Conditions, confirmedCondition)
	after := meta.FindStatusCondition(now.Conditions, confirmedCondition)
	if after != nil && (before == nil || before.Message != after.Message) {
		r.Recorder.Event(sync, corev1.EventTypeWarning, after.Reason, after.Message)
	}
}
