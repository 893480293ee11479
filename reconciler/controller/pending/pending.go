// Package pending decides what a Sync's status keeps of the changes that an earlier run found and the
// present one cannot compute, and with which confirmation.
//
// It refuses to compute changes of its own. Start reading at RetainedFrom.
package pending

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// Limit is how many changes status.pending lists.
const Limit = 20

// MessageLimit is the API's bound on a condition's message, in bytes.
const MessageLimit = 32768

// NamedReasons bounds how many reasons a message names, of which there may be one for
// each deletion: the tokens must have room behind them.
const NamedReasons = 10

// Computable is which changes a run can compute: those that it does not find among these are not
// pending any more.
type Computable int

const (
	// Everything means that the newest revision was compared as a whole.
	Everything Computable = iota
	// NoDeletions means that the revision has problems, or is not the newest.
	NoDeletions
	// Nothing means that there is no revision, or none by which more than drift is known.
	Nothing
)

// Retained is what waits, or could not be done, by an earlier run, and what the present one cannot compute.
type Retained struct {
	// Changes are those of status.pending.
	Changes []v1alpha1.PendingChange
	// Tokens are those of what waits for a confirmation.
	Tokens []string
	// quoted are the parts of the confirmation that let something pass before, which who confirms what
	// else waits must not take back.
	quoted []string
}

// RetainedFrom is what is kept of an earlier status, where branchMayHaveMoved is true also the token of a move of the branch.
// found reports whether this run found a change of that object itself.
func RetainedFrom(earlier v1alpha1.SyncStatus, confirmation string, computed Computable, branchMayHaveMoved bool, found func(object string) bool, tokens confirm.Binding) Retained {
	var out Retained
	served := slices.Concat(confirm.Tokens(earlier.LastAttemptedConfirmationTokens), confirm.Tokens(earlier.LastHandledConfirmationTokens))
	for _, part := range confirm.Tokens(confirmation) {
		if token := hold.Find(served, part); computed != Everything && token != "" {
			out.quoted = append(out.quoted, token)
		}
	}
	var listed []string
	for _, c := range earlier.Pending {
		if computed == Everything || computed == NoDeletions && c.Action != string(plan.Delete) || found(c.Object) {
			continue
		}
		c.ConfirmationToken = tokens.Unused(c.ConfirmationToken)
		c.HeldBy, c.SkippedBy = divided(c)
		listed = append(listed, confirm.Tokens(c.ConfirmationToken)...)
		out.Changes = append(out.Changes, c)
	}
	for _, token := range confirm.Tokens(tokens.Unused(earlier.ConfirmationToken)) {
		move := confirm.Purpose(token) == syncpolicy.ForcePush
		if move && branchMayHaveMoved || !move && (computed == Nothing || slices.Contains(listed, token)) {
			out.Tokens = append(out.Tokens, token)
		}
	}
	return out
}

// divided are the rules of a stored change that hold it, and those by which it is skipped: a former release stored
// both as heldBy.
func divided(c v1alpha1.PendingChange) (heldBy, skippedBy []string) {
	skippedBy = slices.Clone(c.SkippedBy)
	for _, rule := range c.HeldBy {
		switch {
		case !hold.Rule(rule).Skips():
			heldBy = append(heldBy, rule)
		case !slices.Contains(skippedBy, rule):
			skippedBy = append(skippedBy, rule)
		}
	}
	return heldBy, skippedBy
}

// MergeTokens is the one confirmation of what a run's own tokens are for, and of what is kept for other
// purposes than theirs.
func (k Retained) MergeTokens(own []string) string {
	out := slices.Clone(own)
	for _, token := range k.Tokens {
		if !slices.ContainsFunc(own, func(t string) bool { return confirm.Purpose(t) == confirm.Purpose(token) }) {
			out = append(out, token)
		}
	}
	if len(out) > 0 {
		for _, token := range k.quoted {
			if !slices.Contains(out, token) {
				out = append(out, token)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// MergeChanges is the status.pending with those that the run found, of so many that it left undone, and how many
// of all are not listed. Those that wait for a confirmation come first.
func (k Retained) MergeChanges(found []v1alpha1.PendingChange, left, omittedBefore int) (listed []v1alpha1.PendingChange, omitted int32) {
	all := slices.Concat(k.Changes, found)
	if len(k.Changes) > 0 && len(found) > 0 {
		slices.SortStableFunc(all, func(a, b v1alpha1.PendingChange) int {
			return cmp.Compare(min(len(b.ConfirmationToken), 1), min(len(a.ConfirmationToken), 1))
		})
	}
	listed = all[:min(len(all), Limit)]
	n := len(k.Changes) + left - len(listed)
	if len(k.Changes) > 0 {
		n = max(n, omittedBefore) // How many of those are kept as well is not known.
	}
	return listed, int32(n)
}

// Reasons are those of the kept changes that wait for a confirmation, each once, and where there
// are several tokens, with its own.
func (k Retained) Reasons(several bool) string {
	var out []string
	for _, c := range k.Changes {
		text := truncate.Bytes(c.Reason, MessageLimit/4/NamedReasons)
		if several {
			text += " (confirmation token " + c.ConfirmationToken + ")"
		}
		if c.ConfirmationToken != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if rest := len(out) - NamedReasons; rest > 0 {
		out = append(out[:NamedReasons], fmt.Sprintf("and %d more in status.pending", rest))
	}
	return strings.Join(out, "; ")
}
