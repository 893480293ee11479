package plan

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
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
// holds each grave one (see state.Item.Grave) in any case, until confirmation
// quotes ConfirmHash of the plan's deletions, alone or among words separated by
// commas. A deletion that was allowed and begun before goes on: see
// state.Item.Leaving. Deletions that are only reported count for nothing, and
// neither do things of which nothing could be told: that they are there proves no
// more than that they are gone.
func Guard(maxPercent int, confirmation string) Policy {
	return func(p Plan) Plan {
		deletions, managed := 0, p.Managed
		for _, u := range p.Unknown {
			if u.Ours {
				managed--
			}
		}
		for _, c := range p.Changes {
			switch {
			case fresh(c):
				deletions++
			case c.Action == Delete && c.Standing():
				managed--
			}
		}
		if deletions == 0 {
			return p
		}
		hash := ConfirmHash(p)
		if confirmed(confirmation, hash) {
			return p
		}
		reason := ""
		switch {
		case deletions == managed && deletions > 1:
			reason = fmt.Sprintf("would delete all %d objects (%s)", deletions, rulePrune)
		case deletions >= pruneFloor && deletions*100 > maxPercent*managed:
			reason = fmt.Sprintf("would delete %d of %d objects, more than %d%% (%s)", deletions, managed, maxPercent, rulePrune)
		}
		if reason == "" {
			return HoldGrave(confirmation)(p)
		}
		return hold(p, rulePrune, func(c Change) string {
			if !fresh(c) {
				return ""
			}
			return reason + confirmWith + hash
		})
	}
}

// HoldGrave holds each grave deletion (see state.Item.Grave) until
// confirmation quotes ConfirmHash, and lets the others go on.
func HoldGrave(confirmation string) Policy {
	return func(p Plan) Plan {
		hash := ConfirmHash(p)
		if confirmed(confirmation, hash) {
			return p
		}
		return hold(p, ruleGrave, func(c Change) string {
			if !fresh(c) || c.Before.Grave == "" {
				return ""
			}
			return fmt.Sprintf("deleting %s: %s", c.Key, c.Before.Grave) + confirmWith + hash
		})
	}
}

// fresh reports whether c is a deletion that nobody has allowed yet. One that
// was begun, confirmed or below the guard, must not ask again because the
// process died in the middle and what is left hashes differently. One that is
// only reported needs no leave.
func fresh(c Change) bool { return c.Action == Delete && !c.Before.Leaving && !c.Standing() }

// ConfirmHash identifies the deletions that the plan would make, and only them,
// so that a confirmation stays good while unrelated updates come and go, and
// goes stale as soon as anything else would be deleted.
func ConfirmHash(p Plan) string {
	only := Plan{}
	for _, c := range p.Changes {
		if c.Action == Delete && !c.Standing() {
			only.Changes = append(only.Changes, c)
		}
	}
	return only.Hash()
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
