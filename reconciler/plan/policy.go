package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// Policy turns a Plan into a more careful one: it drops changes or holds them
// back with a reason. It never adds any.
type Policy func(Plan) Plan

// The names of the rules that hold, see Change.Rules.
const (
	ruleDrift    = "drift: Report"
	rulePrune    = "guard.maxPrunePercent"
	ruleGrave    = "grave deletion"
	ruleNodes    = "guard.maxNodesReplaced"
	ruleReviewed = "reviewed"
	ruleUsed     = "deletion that waits"
)

// NoPrune drops every deletion.
func NoPrune() Policy {
	return func(p Plan) Plan {
		p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Action == Delete })
		return p
	}
}

// ReportDrift holds every change that only puts back what somebody changed by
// hand; what a new revision asks for goes on.
func ReportDrift() Policy {
	return func(p Plan) Plan {
		return hold(p, ruleDrift, func(c Change) string {
			if c.Drift {
				return "drift is only reported (" + ruleDrift + ")"
			}
			return ""
		})
	}
}

// ReportTarget turns everything in one world into what is only compared (see
// Change.Standing): there nothing is ever written, neither for drift nor for a
// new revision nor to delete.
func ReportTarget(name string) Policy {
	reason := "nothing is written to " + name + " (" + ruleDrift + ")"
	return func(p Plan) Plan {
		p.Changes = slices.Clone(p.Changes)
		for i, c := range p.Changes {
			if c.Key.Target == name && !c.Standing() {
				p.Changes[i] = comparedOnly(c, reason)
			}
		}
		return hold(p, ruleDrift, standing)
	}
}

// comparedOnly gives the change's items the terms of things that are only
// compared. Items are shared with who observed them, so it changes copies.
func comparedOnly(c Change, reason string) Change {
	for _, item := range []**state.Item{&c.Before, &c.After} {
		if *item != nil {
			held := **item
			held.Hold = reason
			*item = &held
		}
	}
	return c
}

// pruneFloor is the number of deletions up to which a percentage guard stays
// silent: half of two things is no catastrophe, and a guard that cries at
// every clean-up is soon confirmed unread.
const pruneFloor = 10

// Guard holds all deletions when together they are more than maxPercent of
// what is managed and at least ten, or when they would delete everything, and
// holds each grave one (see loss.Removal) in any case, until confirmation
// quotes ConfirmHash of the plan, alone or among words separated by commas.
//
// A deletion that was allowed before and not carried out goes on, as long as no
// more goes with it than was allowed. It counts all the same, unless a person
// confirmed it: what gathers unasked while something fails is asked for together.
// Deletions that are only reported count for nothing, and neither do things of
// which nothing could be told: that they are there proves no more than that they
// are gone.
func Guard(maxPercent int, confirmation string) Policy {
	return func(p Plan) Plan {
		reason := tooManyDeletions(p, maxPercent)
		if reason == "" {
			return ConfirmLosses(confirmation)(p)
		}
		return ask(p, rulePrune, confirmation, func(c Change) string {
			if grave := unconfirmed(c); c.begun() {
				return grave
			}
			return reason
		})
	}
}

// tooManyDeletions says why the deletions are too many, or is empty.
func tooManyDeletions(p Plan, maxPercent int) string {
	deletions, managed := 0, p.Managed
	for _, u := range p.Unknown {
		if u.Ours {
			managed--
		}
	}
	for _, c := range p.Changes {
		switch {
		case c.Action == Delete && c.Standing():
			managed--
		case c.Action == Delete && !fresh(c):
			// A person was asked.
		case c.Action == Delete:
			deletions++
		}
	}
	switch {
	case deletions == managed && deletions > 1:
		return fmt.Sprintf("would delete all %d objects (%s)", deletions, rulePrune)
	case deletions >= pruneFloor && deletions*100 > maxPercent*managed:
		return fmt.Sprintf("would delete %d of %d objects, more than %d%% (%s)", deletions, managed, maxPercent, rulePrune)
	}
	return ""
}

// ConfirmLosses holds each deletion that others go with (see loss.Removal) until confirmation
// quotes ConfirmHash, and lets the others go on.
func ConfirmLosses(confirmation string) Policy {
	return func(p Plan) Plan { return ask(p, ruleGrave, confirmation, unconfirmed) }
}

// unconfirmed says what is grave about a deletion that no person has confirmed.
func unconfirmed(c Change) string {
	if c.Before.Grave == "" || !fresh(c) {
		return ""
	}
	return fmt.Sprintf("deleting %s: %s", c.Key, c.Before.Grave)
}

// ask holds the deletions for which why gives a reason, until confirmation quotes
// their word, and with them the changes that take away what the held ones are used by.
func ask(p Plan, rule, confirmation string, why func(Change) string) Plan {
	asked := func(c Change) bool {
		return c.Action == Delete && !c.Standing() && c.Hold == "" && why(c) != ""
	}
	of := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !asked(c) })
	word := wordOf(p.Scope, of)
	if then, ok := allowed(p.Scope, confirmation, of); ok {
		shares := loss.Divide(costs(of), then.Tolerant())
		p.Changes = slices.Clone(p.Changes)
		for i, c := range p.Changes {
			if asked(c) {
				p.Changes[i].Confirmed, p.Changes[i].ByToken, shares = shares[0], true, shares[1:]
			}
		}
		return holdUsed(p)
	}
	return holdUsed(hold(p, rule, func(c Change) string {
		if !asked(c) {
			return ""
		}
		return why(c) + confirmWith + word
	}))
}

// begun tells whether the deletion was allowed before, with all that goes with it now.
func (c Change) begun() bool { return c.Action == Delete && c.Before.Allowed.Covers(c.Before.Cost()) }

// fresh reports whether c is a deletion that no person has confirmed yet. One that
// was must not ask again because the process died in the middle and what is left
// hashes differently, but for what has come to go with it since. One that is only
// reported needs no leave.
func fresh(c Change) bool {
	return c.Action == Delete && !c.Standing() && !(c.begun() && c.Before.Allowed.Confirmed)
}

// Allowance is what is remembered of a deletion that is about to be sent, and by which
// it is measured when it is: what was allowed before where that covers it, what a person
// confirmed, or else what goes with it now. Small steps must not add up to more than
// anybody allowed.
func (c Change) Allowance() *loss.Allowance {
	switch {
	case c.begun() && (c.Confirmed == nil || c.Before.Allowed.Confirmed):
		return c.Before.Allowed
	case c.Confirmed != nil:
		return &loss.Allowance{Losses: c.Confirmed, Confirmed: true}
	}
	return &loss.Allowance{Losses: c.Before.Cost()}
}

// ConfirmHash is the word that confirms the deletions of which the guards ask, whether
// they are held or a confirmation has let them pass: a hash of them alone, and what
// goes with them in numbers (loss.Counts). So it stays good while everything else comes and
// goes, deletions that nobody need allow among it; and it goes stale as soon as another
// deletion is asked for, or more goes with these.
func ConfirmHash(p Plan) string { return wordOf(p.Scope, p.asked()) }

// asked are the deletions of which the guards ask.
func (p Plan) asked() []Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool {
		held := slices.Contains(c.Rules, rulePrune) || slices.Contains(c.Rules, ruleGrave)
		return c.Action != Delete || c.Confirmed == nil && !held
	})
}

// wordOf is what a confirmation of the deletions quotes.
func wordOf(in confirm.Scope, deletions []Change) string {
	return in.Token("deletions", subjects(deletions)) + costOf(deletions).String()
}

func costOf(deletions []Change) loss.Counts {
	all := loss.Counts{}
	for _, cost := range costs(deletions) {
		all = all.Plus(cost)
	}
	return all
}

// costs are what goes with each of the deletions.
func costs(deletions []Change) []loss.Counts {
	var out []loss.Counts
	for _, c := range deletions {
		out = append(out, c.Before.Cost())
	}
	return out
}

// allowed finds in the confirmation the word of exactly these deletions that covers all
// that goes with them now, and returns what it says goes with them.
func allowed(in confirm.Scope, confirmation string, deletions []Change) (loss.Counts, bool) {
	hash, cost := in.Token("deletions", subjects(deletions)), costOf(deletions)
	for _, word := range confirm.Tokens(confirmation) {
		text := strings.TrimPrefix(word, hash)
		if then, ok := loss.Parse(text); text != word && ok && then.Tolerant().Covers(cost) {
			return then, true
		}
	}
	return nil, false
}

// hold sets the reason on every change for which why gives one, and the rule that
// gives it.
func hold(p Plan, rule string, why func(Change) string) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if reason := why(c); reason != "" && c.Hold == "" {
			p.Changes[i].Hold = reason
			if rule != "" {
				p.Changes[i].Rules = []string{rule}
			}
			p.Holds = append(p.Holds, reason)
		}
	}
	slices.Sort(p.Holds)
	p.Holds = slices.Compact(p.Holds)
	return p
}
