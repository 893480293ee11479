package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// pendingLimit is how many changes status.pending lists.
const pendingLimit = 20

// The bounds in bytes of what a pending change repeats of a repository or of a
// response: a name in Git may be a megabyte long, and etcd takes 1.5 for the whole
// Sync.
const (
	nameLimit   = 1024
	reasonLimit = 8192
)

// limited is text that others may have written as a status shows it: sanitized, and of at
// most so many bytes.
func limited(text string, most int) string { return cut(sanitize.Text(text), most) }

// listedName is the name of an object or a file as a status lists it: one that resembles a token is
// what a person has to read.
func listedName(name string) string { return cut(sanitize.Escape(name), nameLimit) }

// cut is text of at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// planScope is which changes a run can compute: those that it does not find among these are not
// pending any more.
type planScope int

const (
	everything planScope = iota
	// noDeletions: the revision has problems, or is not the newest.
	noDeletions
	// nothing: there is no revision, or none by which more than drift is known.
	nothing
)

// requiredConfirmation is what a person has to confirm of a Sync.
type requiredConfirmation struct {
	// tokens are those of all that the run found to wait, and retained is what waited before and the run could
	// not compute.
	tokens   []hold.Token
	retained retained
	// quote is the one confirmation of both.
	quote string
}

// retained is what waits, or could not be done, by an earlier run, and what the present one cannot compute.
type retained struct {
	changes []v1alpha1.PendingChange
	tokens  []string
	// quoted are the parts of the confirmation that let something pass before, which who confirms what
	// else waits must not take back.
	quoted []string
}

// retainedFrom is what is kept of an earlier status, where moved is true also the token of a move of the branch.
// wanted reports whether this run found a change of that object itself.
func retainedFrom(earlier v1alpha1.SyncStatus, confirmation string, by planScope, moved bool, desired func(object string) bool, in confirm.Scope) retained {
	var out retained
	served := slices.Concat(confirm.Tokens(earlier.LastAttemptedConfirmationTokens), confirm.Tokens(earlier.LastHandledConfirmationTokens))
	for _, part := range confirm.Tokens(confirmation) {
		if token := hold.Find(served, part); by != everything && token != "" {
			out.quoted = append(out.quoted, token)
		}
	}
	var listed []string
	for _, c := range earlier.Pending {
		if by == everything || by == noDeletions && c.Action != string(plan.Delete) || desired(c.Object) {
			continue
		}
		c.ConfirmationToken = in.Unused(c.ConfirmationToken)
		listed = append(listed, confirm.Tokens(c.ConfirmationToken)...)
		out.changes = append(out.changes, c)
	}
	for _, token := range confirm.Tokens(in.Unused(earlier.ConfirmationToken)) {
		move := confirm.Purpose(token) == syncpolicy.ForcePush
		if move && moved || !move && (by == nothing || slices.Contains(listed, token)) {
			out.tokens = append(out.tokens, token)
		}
	}
	return out
}

// mergeTokens is the one confirmation of what a run's own tokens are for, and of what is kept for other
// purposes than theirs.
func (k retained) mergeTokens(own []string) string {
	out := slices.Clone(own)
	for _, token := range k.tokens {
		if !slices.ContainsFunc(own, func(t string) bool { return confirm.Purpose(t) == confirm.Purpose(token) }) {
			out = append(out, token)
		}
	}
	if len(out) > 0 {
		out = union(out, k.quoted)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// mergeChanges is the status.pending with those that the run found, of so many that it left undone, and how many
// of all are not listed. Those that wait for a confirmation come first.
func (k retained) mergeChanges(found []v1alpha1.PendingChange, left, omittedBefore int) (listed []v1alpha1.PendingChange, omitted int32) {
	all := slices.Concat(k.changes, found)
	if len(k.changes) > 0 && len(found) > 0 {
		slices.SortStableFunc(all, func(a, b v1alpha1.PendingChange) int {
			return cmp.Compare(min(len(b.ConfirmationToken), 1), min(len(a.ConfirmationToken), 1))
		})
	}
	listed = all[:min(len(all), pendingLimit)]
	n := len(k.changes) + left - len(listed)
	if len(k.changes) > 0 {
		n = max(n, omittedBefore) // How many of those are kept as well is not known.
	}
	return listed, int32(n)
}

// reasons are those of the kept changes that wait for a confirmation, each once, and where there
// are several tokens, with its own.
func (k retained) reasons(several bool) string {
	var out []string
	for _, c := range k.changes {
		text := cut(c.Reason, messageLimit/4/namedReasons)
		if several {
			text += " (confirmation token " + c.ConfirmationToken + ")"
		}
		if c.ConfirmationToken != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if rest := len(out) - namedReasons; rest > 0 {
		out = append(out[:namedReasons], fmt.Sprintf("and %d more in status.pending", rest))
	}
	return strings.Join(out, "; ")
}

// messageLimit is the API's bound on a condition's message, in bytes.
const messageLimit = 32768

// namedReasons bounds how many reasons a message names, of which there may be one for
// each deletion: the tokens must have room behind them.
const namedReasons = 10
