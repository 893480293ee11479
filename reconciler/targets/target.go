// Package targets is the contract between the reconciler and every outside
// target: Kubernetes, AWS. A target is three verbs; whoever has them can be
// planned, applied and tested by the conformance suite in targettest.
//
// It refuses to hold policy: what may be deleted or must wait is decided on
// the Plan. Start reading at Target.
package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// Target is one outside target.
type Target interface {
	// Desired turns what the repository declares into what this target should
	// hold, in the form in which Observe reports it: defaults that only the declaration
	// can determine are filled in, fields that must not be sent are gone, waves and losses
	// are set. Declarations of other targets are passed over. A declaration that this
	// target can never hold is a Problem in a *ProblemsError, returned together with the
	// Set of all the others.
	Desired(ctx context.Context, declared state.Set) (state.Set, error)
	// Observe reports what the target holds of the desired things, and those
	// things that are ours but no longer desired. Observed Objects are
	// canonical: where the live thing satisfies the desired one, the Object is
	// equal to the desired Object; where not, it differs in exactly the fields
	// that Apply would change. An error means that nothing may be
	// concluded, least of all an absence.
	Observe(ctx context.Context, desired state.Set) (state.Set, error)
	// Apply makes one change. It returns nil only when the target has
	// accepted it; it never deletes anything but the very incarnation that
	// was observed (Change.Before.Live), and nothing with which more goes than
	// was allowed (Change.Approval): that is counted anew before the first
	// request, and is a *LossesGrownError. The error states why, and not which change it is
	// of: the caller has that.
	Apply(ctx context.Context, change plan.Change) error
}

// InventoryWriter is the ability of a Target that keeps an inventory: the intent to
// change is recorded before the first change, and what became of it after the
// last, so that a crash in between leaves no orphan.
type InventoryWriter interface {
	// Begin records that the changes are about to be made.
	Begin(ctx context.Context, changes []plan.Change) error
	// End records the state that the changes left behind. It is called also
	// when some of them failed, and without Begin after a run that had nothing
	// to change; it sends nothing when what is recorded is true.
	End(ctx context.Context) error
}

// ApprovalRevoker is the ability of a Target that records how far deletions were allowed.
// What an Observe finds desired again is allowed no more.
type ApprovalRevoker interface {
	// RevokeApprovals stores that right after an Observe by which targets are to be changed, and
	// that the deletions of these keys were given up: a process that ends before Begin has
	// observed what the next one may not. It sends nothing where nothing was revoked.
	RevokeApprovals(ctx context.Context, revoked ...state.Key) error
	// Deleting lists the keys of what a run was allowed to delete and is not known to be
	// gone, desired again or given up.
	Deleting(ctx context.Context) ([]state.Key, error)
}

// Waiter is the ability of a Target whose things become ready some time after
// they were accepted.
type Waiter interface {
	// Ready waits until every thing in keys is ready, or ctx ends. It returns
	// the things that are not, with the reason for each.
	Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error)
}

// ProblemsError carries problems in the repository that only a target can detect, such
// as a kind that the cluster does not serve.
type ProblemsError struct{ Problems []state.Problem }

// Count is how many problems the listed ones stand for.
func (e *ProblemsError) Count() (n int) {
	for _, p := range e.Problems {
		n += p.Count()
	}
	return n
}

// Error counts the problems and shows the first.
func (e *ProblemsError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	return fmt.Sprintf("%d problems, the first: %s", e.Count(), e.Problems[0])
}

// ErrConflict marks a change that was refused because another manager owns
// the fields. The error's text names the manager and the fields.
var ErrConflict = errors.New("owned by another manager")

// ErrSchema marks a change that was refused because the declared thing does not fit the
// schema of its kind. The error's text names the field.
var ErrSchema = errors.New("it does not fit its schema")

// LossesGrownError reports that a deletion, or an update that loses as much, was not sent, because more goes with it by now than
// was allowed. The next plan has what goes with it then, for confirmation. It is an ErrChanged.
type LossesGrownError struct{ Allowed, Now loss.Counts }

// Error names what goes with the deletion, now and then.
func (e *LossesGrownError) Error() string {
	list := func(c loss.Counts) string {
		var parts []string
		for _, kind := range slices.Sorted(maps.Keys(c)) {
			if c[kind] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", c[kind], kind))
			}
		}
		return cmp.Or(strings.Join(parts, ", "), "nothing")
	}
	return fmt.Sprintf("not sent: by now %s would go with it, and %s was allowed", list(e.Now), list(e.Allowed))
}

// Unwrap makes it an ErrChanged.
func (e *LossesGrownError) Unwrap() error { return ErrChanged }

// MayDelete compares what goes with a deletion, or an update that loses as much, now with what was allowed. Nil lets it be
// sent. What cannot be counted now is an error, unless
// it could not be when it was planned, and was allowed all the same.
func MayDelete(c plan.Change, now loss.DeletionImpact) error {
	allowed := c.Approval().Losses
	switch {
	case allowed.Covers(now.EffectiveLosses()):
		return nil
	case now.Losses[loss.Uncounted] > 0:
		return state.Failf(state.Retry, "Uncounted", "not sent: %s", now.Impact)
	}
	return state.Fail(state.Retry, "LossesGrown", &LossesGrownError{Allowed: allowed, Now: now.EffectiveLosses()})
}

// ErrChanged marks a change that was refused because the live thing is no
// longer the one that was observed. The next run observes it anew.
var ErrChanged = errors.New("changed since it was observed")
