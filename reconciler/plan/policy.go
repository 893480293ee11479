package plan

import (
	"fmt"
	"slices"
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

// ReportDrift holds every change that only puts back what somebody changed by
// hand; what a new revision asks for goes on.
func ReportDrift() Policy {
	return func(p Plan) Plan {
		return hold(p, func(c Change) string {
			if c.Drift {
				return "drift is only reported (drift: Report)"
			}
			return ""
		})
	}
}

// ReportTarget holds every change in one world: there, nothing is ever written.
func ReportTarget(name string) Policy {
	return func(p Plan) Plan {
		return hold(p, func(c Change) string {
			if c.Key.Target == name {
				return name + " is only compared (drift: Report)"
			}
			return ""
		})
	}
}

// pruneFloor is the number of deletions up to which a percentage guard stays
// silent: half of two things is no catastrophe, and a guard that cries at
// every clean-up is soon confirmed unread.
const pruneFloor = 10

// Guard holds all deletions when together they are more than maxPercent of
// what is managed and at least ten, or when they would delete everything, and
// holds each grave one (see state.Item.Grave) in any case, until confirmation
// quotes ConfirmHash of the plan's deletions. A deletion that was allowed and
// begun before goes on: see state.Item.Leaving.
func Guard(maxPercent int, confirmation string) Policy {
	return func(p Plan) Plan {
		deletions := 0
		for _, c := range p.Changes {
			if fresh(c) {
				deletions++
			}
		}
		if deletions == 0 {
			return p
		}
		hash := ConfirmHash(p)
		if confirmation == hash {
			return p
		}
		reason := ""
		switch {
		case deletions == p.Managed && deletions > 1:
			reason = fmt.Sprintf("would delete all %d objects", deletions)
		case deletions >= pruneFloor && deletions*100 > maxPercent*p.Managed:
			reason = fmt.Sprintf("would delete %d of %d objects, more than %d%%", deletions, p.Managed, maxPercent)
		}
		if reason == "" {
			return HoldGrave(confirmation)(p)
		}
		return hold(p, func(c Change) string {
			if !fresh(c) {
				return ""
			}
			return fmt.Sprintf("%s; confirm with poolwright.dev/confirm: %s", reason, hash)
		})
	}
}

// HoldGrave holds each grave deletion (see state.Item.Grave) until
// confirmation quotes ConfirmHash, and lets the others go on.
func HoldGrave(confirmation string) Policy {
	return func(p Plan) Plan {
		hash := ConfirmHash(p)
		if confirmation == hash {
			return p
		}
		return hold(p, func(c Change) string {
			if !fresh(c) || c.Before.Grave == "" {
				return ""
			}
			return fmt.Sprintf("deleting %s: %s; confirm with poolwright.dev/confirm: %s", c.Key, c.Before.Grave, hash)
		})
	}
}

// fresh reports whether c is a deletion that nobody has allowed yet. One that
// was begun, confirmed or below the guard, must not ask again because the
// process died in the middle and what is left hashes differently.
func fresh(c Change) bool { return c.Action == Delete && !c.Before.Leaving }

// ConfirmHash identifies the plan's deletions, and only them, so that a
// confirmation stays good while unrelated updates come and go, and goes stale
// as soon as anything else would be deleted.
func ConfirmHash(p Plan) string {
	only := Plan{}
	for _, c := range p.Changes {
		if c.Action == Delete {
			only.Changes = append(only.Changes, c)
		}
	}
	return only.Hash()
}

// hold sets the reason on every change for which why gives one.
func hold(p Plan, why func(Change) string) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if reason := why(c); reason != "" && c.Hold == "" {
			p.Changes[i].Hold = reason
			p.Holds = append(p.Holds, reason)
		}
	}
	slices.Sort(p.Holds)
	p.Holds = slices.Compact(p.Holds)
	return p
}
