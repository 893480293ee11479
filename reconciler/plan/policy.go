package plan

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// Policy turns a Plan into a more careful one: it drops changes or holds them
// back with a reason. It never adds any.
type Policy func(Plan) Plan

// NoPrune drops every deletion.
func NoPrune() Policy {
	return func(p Plan) Plan {
		p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Action == Delete })
		return p
	}
}

// OnlyDrift drops every change that does more than put back what somebody changed by hand, and
// of that what is none of the actions: what is gone may have been deleted as a later revision
// declares.
func OnlyDrift(actions ...Action) Policy {
	return func(p Plan) Plan {
		p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !c.Drift || !slices.Contains(actions, c.Action) })
		return p
	}
}

// ReportDrift holds every change that only puts back what somebody changed by
// hand; what a new revision changes goes on.
func ReportDrift() Policy {
	return func(p Plan) Plan {
		return holding(p, func(c Change) hold.Reasons {
			if c.Drift {
				return hold.Reasons{{Rule: hold.DriftReported}}
			}
			return nil
		})
	}
}

// ReportTarget turns everything in one target into what is read-only
// ([Change.ReadOnly]): there nothing is ever written, neither for drift nor for a new
// revision nor to delete.
func ReportTarget(name string) Policy {
	reason := fmt.Sprintf("nothing is written to %s (%s)", name, hold.FieldDrift)
	return func(p Plan) Plan {
		p.Changes = slices.Clone(p.Changes)
		for i, c := range p.Changes {
			if c.Key.Target == name && !c.ReadOnly() {
				p.Changes[i] = c.AsReadOnly(reason)
			}
		}
		return holding(p, func(c Change) hold.Reasons {
			if !c.ReadOnly() {
				return nil
			}
			return hold.Reasons{{Rule: hold.DriftReported, Facts: hold.Facts{Detail: c.ReadOnlyReason()}}}
		})
	}
}

// pruneFloor is the number of deletions up to which a percentage guard holds nothing:
// half of two things is no catastrophe, and a guard that cries at every clean-up is
// soon confirmed unread.
const pruneFloor = 10

// Guard holds all deletions when together they are more than maxPercent of
// what is managed and at least ten, or when they would delete everything, and
// holds each one that others go with ([loss.DeletionImpact]), and each update that loses as much
// ([Change.HasLosses]), in any case, until confirmation quotes their token, alone or among others
// separated by commas.
//
// A deletion that was allowed before and not carried out goes on, as long as no
// more goes with it than was allowed. It counts all the same, unless a person
// confirmed it: what gathers unconfirmed while something fails is confirmed together.
// One that a person confirmed goes on as long as confirmation quotes that token, and
// the token is not used up; else it waits for a confirmation again, whatever goes with
// it. Deletions that are only reported count for nothing, and neither do things of
// which nothing is known: that they are there proves no more than that they are gone.
func Guard(maxPercent int, confirmation string) Policy {
	return func(p Plan) Plan {
		p, revoked := revoke(p, confirmation)
		many := tooManyDeletions(p, maxPercent)
		return holdUntilConfirmed(p, confirmation, func(c Change) hold.Reasons {
			if many == nil || c.begun() || c.Action != Delete {
				return unconfirmed(c, revoked)
			}
			all := hold.Reason{Rule: hold.MaxPrunePercent, Facts: hold.Facts{Deletions: many}}
			return append(hold.Reasons{all}, unconfirmed(c, nil)...)
		})
	}
}

// tooManyDeletions counts the deletions where they are too many, and is nil otherwise.
func tooManyDeletions(p Plan, maxPercent int) *hold.Deletions {
	deletions, managed := 0, p.Managed
	for _, u := range p.Unknown {
		if u.Ours {
			managed--
		}
	}
	for _, c := range p.Changes {
		switch {
		case c.Action == Delete && c.ReadOnly():
			managed--
		case c.Action == Delete && !isUnconfirmed(c):
			// A person confirmed.
		case c.Action == Delete:
			deletions++
		}
	}
	all := deletions == managed && deletions > 1
	if !all && (deletions < pruneFloor || deletions*100 <= maxPercent*managed) {
		return nil
	}
	return &hold.Deletions{Count: deletions, Managed: managed, MaxPercent: maxPercent}
}

// ConfirmLosses holds each deletion that others go with ([loss.DeletionImpact]), and each update that
// loses as much ([Change.HasLosses]), until confirmation quotes their token, and lets the others go
// on.
func ConfirmLosses(confirmation string) Policy {
	return func(p Plan) Plan {
		p, revoked := revoke(p, confirmation)
		return holdUntilConfirmed(p, confirmation, func(c Change) hold.Reasons { return unconfirmed(c, revoked) })
	}
}

// unconfirmed is what a deletion, or an update, loses that no person has confirmed. A deletion
// whose confirmation was revoked waits also where nothing else goes with it.
func unconfirmed(c Change, revoked map[state.Key]bool) hold.Reasons {
	rule := hold.DeletionLosses
	switch {
	case c.Before.Impact == "" && revoked[c.Key]:
		return hold.Reasons{{Rule: rule, Facts: hold.Facts{Object: c.Key.String(), Detail: "its confirmation was taken back before it was sent"}}}
	case c.Before.Impact == "":
		return nil
	case c.Action == Update:
		rule = hold.UpdateLosses
	case !isUnconfirmed(c):
		return nil
	}
	return hold.Reasons{{Rule: rule, Facts: hold.Facts{Object: c.Key.String(), Detail: c.Before.Impact, Losses: c.Before.Losses}}}
}

// HasLosses reports whether the change may take along what a person has to allow: a deletion,
// or an update of a revision that loses nodes or data as one does. Putting back what a hand
// has changed takes nothing that the repository gave.
func (c Change) HasLosses() bool {
	return c.Action == Delete || c.Action == Update && !c.Drift && c.Before.Impact != ""
}

// holdUntilConfirmed holds the deletions for which why gives reasons, until confirmation quotes their token, and
// with them the changes that take away what the held ones are used by. What ends the engine has a
// token of its own: it comes after the deletions, and stays confirmed once these are made.
func holdUntilConfirmed(p Plan, confirmation string, why func(Change) hold.Reasons) Plan {
	for _, engine := range []bool{false, true} {
		p = holdByToken(p, confirmation, engine, why)
	}
	return holdForDependents(p)
}

// holdByToken requires one token for all that ends the engine, or for all else.
func holdByToken(p Plan, confirmation string, engine bool, why func(Change) hold.Reasons) Plan {
	needsToken := func(c Change) bool {
		return c.HasLosses() && c.endsEngine() == engine && !c.ReadOnly() && c.Admitted() && len(why(c)) > 0
	}
	of := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !needsToken(c) })
	token := tokenFor(of, engine)
	then, ok := token.ConfirmedBy(confirmation, p.Binding)
	if !ok {
		return holding(p, func(c Change) hold.Reasons {
			if !needsToken(c) {
				return nil
			}
			reasons := why(c)
			for i := range reasons {
				reasons[i].Token = token
			}
			return reasons
		})
	}
	shares := loss.Divide(costs(of), token.Losses, then.WithTolerance())
	token.Number = p.Binding.Next(token.Purpose)
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if needsToken(c) {
			p.Changes[i].Confirmed, p.Changes[i].Tokens, shares = shares[0], append(slices.Clip(c.Tokens), *token), shares[1:]
		}
	}
	return p
}

// endsEngine reports whether the engine may stop with the change.
func (c Change) endsEngine() bool { return c.Before != nil && c.Before.EndsEngine }

// tokenFor is what a confirmation of the deletions quotes: a digest of them alone, and
// what goes with them in numbers. So it stays good while everything else comes and
// goes, deletions that nobody need allow among it; and it goes stale as soon as another
// deletion waits, or more goes with these.
func tokenFor(changes []Change, engine bool) *hold.Token {
	var removals []loss.DeletionImpact
	for _, c := range changes {
		removals = append(removals, c.Before.DeletionImpact)
	}
	purpose := deletions
	if engine {
		purpose = confirm.Engine
	}
	return &hold.Token{Purpose: purpose, Digest: confirm.Digest(subjects(changes)), Losses: loss.Union(removals)}
}

// costs are what goes with each of the deletions.
func costs(deletions []Change) []loss.Counts {
	var out []loss.Counts
	for _, c := range deletions {
		out = append(out, c.Before.EffectiveLosses())
	}
	return out
}

// holding sets the reasons on every change for which why gives some and that has none
// yet.
func holding(p Plan, why func(Change) hold.Reasons) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if c.Admitted() {
			p.Changes[i].Hold = why(c)
		}
	}
	return p
}

// HoldEach sets the reasons on every change for which why gives some and that has none yet.
func (p Plan) HoldEach(why func(Change) hold.Reasons) Plan { return holding(p, why) }

// holdUnless is holding, but for the changes all of whose reasons a confirmation quotes
// the tokens of.
func (p Plan) holdUnless(confirmation string, why func(Change) hold.Reasons) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if !c.Admitted() {
			continue
		}
		reasons := why(c)
		unquoted := func(t hold.Token) bool { _, ok := t.ConfirmedBy(confirmation, p.Binding); return !ok }
		if tokens := reasons.Tokens(); len(tokens) > 0 && !slices.ContainsFunc(tokens, unquoted) {
			p.Changes[i].Tokens = append(slices.Clip(c.Tokens), tokens...)
			continue
		}
		p.Changes[i].Hold = reasons
	}
	return p
}
