package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// driftState is what is known of the targets between two reconciliations: a run that reads only
// what drifted has nothing of the rest.
type driftState struct {
	// pendingChanges are the changes that were not made, in the order of work.
	pendingChanges []pendingChange
	// unknown are the things that could not be observed, by key.
	unknown []plan.Unknown
	// problems counts those for which something could not be compared.
	problems int
	// objects counts what the Sync manages: what is read-only and what is
	// unknown without ever having been ours do not count.
	objects int
	// complete is false as long as the last comparison failed as a whole.
	complete bool
	// computes is which changes the last full comparison could compute.
	computes pending.Computable
}

// holdUntil is the reason of a Sync of whose revision a person marked something to stay as it is until a time.
const holdUntil = "HoldUntil"

// pendingChange is a change that was not made.
type pendingChange struct {
	v1alpha1.PendingChange
	key state.Key
	// drift is why the live thing is taken for drifted, as the condition has it; empty
	// where it is not.
	drift string
	// readOnly is true for what no run will ever make.
	readOnly bool
	// waits is the reason of a Sync for which a person must let the change pass;
	// empty where nobody can, or need not.
	waits string
	// held is why it is held.
	held hold.Reasons
	// tokens are those that were quoted and let the change pass, which was not made
	// all the same.
	tokens []hold.Token
	// losses is how many things of all kinds would be lost with the change.
	losses int
	// missing is true for what would count among the objects, had it been made.
	missing bool
}

// driftStateOf is the drift state that one run alone gives.
func driftStateOf(done reconciliation) driftState {
	p := driftState{unknown: done.Plan.Unknown, problems: (&targets.ProblemsError{Problems: done.Problems}).Count(), objects: managed(done), complete: true, computes: done.computable(pending.Everything)}
	for _, r := range done.Outcome.Results {
		if r.Status == apply.Applied {
			continue
		}
		c := r.Change
		l := pendingChange{key: c.Key, readOnly: r.Status == apply.Skipped && c.ReadOnly(), held: c.Hold, tokens: c.Tokens, PendingChange: v1alpha1.PendingChange{
			Object: state.QualifiedName(c.Key), Action: string(c.Action), Reason: c.Hold.String(), Source: c.Origin().String(),
		}}
		for _, rule := range c.Hold.Rules() {
			if rule.Skips() {
				l.SkippedBy = append(l.SkippedBy, string(rule))
			} else {
				l.HeldBy = append(l.HeldBy, string(rule))
			}
		}
		if r.Err != nil {
			l.Reason = sanitize.Text(r.Message())
		}
		l.waits, l.losses = awaited(r), lossCount(c)
		l.missing = !c.ReadOnly() && (c.Action == plan.Create || r.Status == apply.Conflict && c.Action == plan.Update)
		switch {
		case l.readOnly, c.Drift && !c.Admitted() && l.waits == "":
			l.drift = driftReported
		case c.Drift:
			l.drift = driftNotCorrected
		}
		p.pendingChanges = append(p.pendingChanges, l)
	}
	return p
}

// lossCount is how many things of all kinds the change would lose.
func lossCount(c plan.Change) int {
	n := 0
	if c.HasLosses() && !c.ReadOnly() {
		for _, of := range c.Before.EffectiveLosses() {
			n += of
		}
	}
	return n
}

// awaited is the reason of a Sync of which a change is held until a confirmation; empty
// where no confirmation releases the change.
func awaited(r apply.Result) string {
	switch {
	case r.Status != apply.Held, r.Change.Hold.Has(hold.HoldUntil):
		return ""
	case r.Change.Hold.Has(hold.MaxPrunePercent, hold.DeletionLosses, hold.UpdateLosses):
		return pruneHeld
	case r.Change.Hold.Nodes():
		return nodeReplacementHeld
	case r.Change.Hold.Has(hold.QuotaExceeded):
		return quotaHeld
	case r.Change.HasLosses() && !r.Change.ReadOnly() && !r.Change.RelaxesSync():
		return pruneHeld
	case r.Change.RelaxesSync():
		return syncChangeHeld
	}
	return ""
}

// observe is the drift state after one more run, which it puts into the run's result where that has
// observed only some of it. What the status has already was reported.
func (p driftState) observe(done reconciliation, reported []v1alpha1.PendingChange, v *runResult) driftState {
	now := p.after(done)
	v.newUnknowns = now.newUnknowns(p)
	v.cleared = len(p.unknown) > 0 && len(now.unknown) == 0
	if done.err == nil && done.kind != idle {
		v.added = now.added(p, reported)
	}
	if done.kind == partial && done.err == nil {
		v.drift = now
		if slices.Contains(heldReasons, v.reason) {
			v.wait(done.Revision) // With what else waits.
		}
	}
	return now
}

// after is the drift state after one more run: a full one replaces it, a partial
// one what it read.
func (p driftState) after(done reconciliation) driftState {
	switch {
	case done.err != nil:
		p.complete = false
	case done.kind == full:
		return driftStateOf(done)
	case done.kind == partial:
		some := driftStateOf(done)
		// What was read alone shows nothing of the rest; what it lacked
		// before, and has now, is one more.
		p.objects += p.missing(done.observed) - some.missing(done.observed)
		p.pendingChanges = replaced(p.pendingChanges, some.pendingChanges, done.observed)
		p.unknown = append(slices.DeleteFunc(slices.Clone(p.unknown), func(u plan.Unknown) bool { return slices.Contains(done.observed, u.Key) }), some.unknown...)
		slices.SortStableFunc(p.unknown, func(a, b plan.Unknown) int { return a.Key.Compare(b.Key) })
	}
	return p
}

// replaced is the list with what was read anew, each in its old place.
func replaced(old, fresh []pendingChange, observed []state.Key) []pendingChange {
	var out []pendingChange
	for _, l := range old {
		if !slices.Contains(observed, l.key) || l.Action == string(plan.Delete) { // Which no run of some things reads.
			out = append(out, l)
		} else if at := slices.IndexFunc(fresh, func(f pendingChange) bool { return f.key == l.key }); at >= 0 {
			out = append(out, fresh[at])
		}
	}
	for _, f := range fresh {
		if !slices.ContainsFunc(old, func(l pendingChange) bool { return l.key == f.key }) {
			out = append(out, f)
		}
	}
	return out
}

// missing counts those of the keys that are no objects of ours because a change was not
// made.
func (p driftState) missing(keys []state.Key) int {
	n := 0
	for _, l := range p.pendingChanges {
		if l.missing && slices.Contains(keys, l.key) {
			n++
		}
	}
	return n
}

// managed counts what is ours after a full run.
func managed(done reconciliation) int {
	n := done.Plan.Managed
	for _, r := range done.Outcome.Results {
		switch {
		case r.Status == apply.Applied && r.Change.Action == plan.Create:
			n++
		case r.Status == apply.Applied && r.Change.Action == plan.Delete, r.Status == apply.Conflict && r.Change.Action == plan.Update:
			n--
		}
	}
	return max(n, 0)
}

// pending are the changes that were not made, as a status lists them: those that lose the
// most come first, so that none of them is left out for what loses nothing.
func (p driftState) pending(in confirm.Binding) []v1alpha1.PendingChange {
	left := slices.Clone(p.pendingChanges)
	slices.SortStableFunc(left, func(a, b pendingChange) int {
		return cmp.Or(cmp.Compare(b.losses, a.losses), strings.Compare(a.Object, b.Object))
	})
	var out []v1alpha1.PendingChange
	for _, l := range left[:min(len(left), pending.Limit)] {
		c := l.PendingChange
		c.Object, c.Reason, c.Source = listedName(c.Object), truncate.Bytes(sanitize.Escape(c.Reason), reasonLimit), listedName(c.Source)
		if l.held.NeedsConfirmation() {
			c.ConfirmationToken = hold.Join(slices.Concat(l.tokens, l.held.Tokens()), in)
		}
		out = append(out, c)
	}
	return out
}

// drifted counts the live things that differ and stay so, with the reason; what should
// have been put right and could not be goes first.
func (p driftState) drifted() (n int, reason string) {
	for _, l := range p.pendingChanges {
		if l.drift == "" {
			continue
		}
		n++
		if reason != driftNotCorrected {
			reason = l.drift
		}
	}
	return n, reason
}

// isPending reports whether a change of the object, as a status names it, is left undone.
func (p driftState) isPending(object string) bool {
	return slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool { return listedName(l.Object) == object })
}

// waits reports whether changes are held until a confirmation.
func (p driftState) waits() bool {
	return slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool { return l.waits != "" })
}

// converged reports whether another full comparison would find nothing to do.
func (p driftState) converged() bool {
	return len(p.unknown) == 0 && !slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool {
		return !l.readOnly && l.drift != driftReported && !l.held.Has(hold.HoldUntil)
	})
}

// isHeld reports whether all that drifted waits for the end of a hold.
func (p driftState) isHeld() bool {
	return !slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool { return l.drift != "" && !l.held.Has(hold.HoldUntil) })
}

// holdsRevision reports whether a change of the revision itself, and not of a hand, waits for the end of a hold.
func (p driftState) holdsRevision() bool {
	return slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool { return l.drift == "" && l.held.Has(hold.HoldUntil) })
}

// heldSentence names the first thing that waits for the end of a hold, and why.
func (p driftState) heldSentence() string {
	for _, l := range p.pendingChanges {
		if l.held.Has(hold.HoldUntil) {
			return l.Object + " " + sanitize.Text(l.Reason)
		}
	}
	return ""
}

// heldKey is what heldSentence is of: the object, the end of its hold and the revision.
func (p driftState) heldKey(revision string) string {
	for _, l := range p.pendingChanges {
		for _, reason := range l.held {
			if reason.Rule == hold.HoldUntil {
				return strings.Join([]string{l.Object, reason.Key(), revision}, "\x00")
			}
		}
	}
	return revision
}

// heldUntil is when the first hold ends for which a change waits; zero where none does.
func (p driftState) heldUntil() (first time.Time) {
	for _, l := range p.pendingChanges {
		for _, reason := range l.held {
			until, err := time.Parse(time.RFC3339, reason.Facts.Until)
			if err == nil && (first.IsZero() || until.Before(first)) { // Only this rule has a time.
				first = until
			}
		}
	}
	return first
}

// reported are the things that drifted and stay so because they are only
// reported. A person who puts one back is not detected at once: the next reconciliation finds
// it.
func (p driftState) reported() []state.Key {
	var keys []state.Key
	for _, l := range p.pendingChanges {
		if !l.readOnly && l.drift == driftReported {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// added are the things that differ now, are only reported, and were not known to
// before: neither to the last run nor to the status of an earlier life.
func (p driftState) added(before driftState, reported []v1alpha1.PendingChange) []pendingChange {
	return slices.DeleteFunc(slices.Clone(p.pendingChanges), func(l pendingChange) bool {
		return l.drift != driftReported ||
			slices.ContainsFunc(before.pendingChanges, func(b pendingChange) bool { return b.key == l.key && b.drift == l.drift }) ||
			slices.ContainsFunc(reported, func(c v1alpha1.PendingChange) bool {
				return c.Object == listedName(l.Object) && c.Action == l.Action
			})
	})
}

// newUnknowns are the things that are unknown now and were not before.
func (p driftState) newUnknowns(before driftState) []plan.Unknown {
	return slices.DeleteFunc(slices.Clone(p.unknown), func(u plan.Unknown) bool {
		return slices.ContainsFunc(before.unknown, func(b plan.Unknown) bool { return b.Key == u.Key })
	})
}

// unknowns names the first unknown thing and counts all.
func unknowns(list []plan.Unknown) string {
	first := state.QualifiedName(list[0].Key)
	if at := list[0].Origin.String(); at != "" {
		first += " (" + at + ")"
	}
	return firstOf(len(list), "thing could not be compared", "things could not be compared", first+": "+sanitize.Text(list[0].Reason))
}

// reportedOnly names the first of the things that differ, and counts all.
func reportedOnly(list []pendingChange) string {
	first := list[0].Object
	if at := list[0].Source; at != "" {
		first += " (" + at + ")"
	}
	return firstOf(len(list), "live thing differs from Git and stays so", "live things differ from Git and stay so", first+": "+list[0].Reason)
}

func firstOf(n int, one, more, first string) string {
	if n == 1 {
		return "1 " + one + ": " + first
	}
	return fmt.Sprintf("%d %s, the first: %s", n, more, first)
}
