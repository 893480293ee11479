package plan

import (
	"strings"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// holdForDependents holds the changes that take away the field of a thing on which another depends
// whose deletion is held until it is confirmed, or that may be there to be deleted and is
// unknown. Otherwise what the wait protects would come to pass without the deletion: an
// engine that is not given an interruption queue any more does not read it, though the
// queue is there.
func holdForDependents(p Plan) Plan {
	used := func(part loss.FieldRef, by state.Key, detail string) hold.Reasons {
		return hold.Reasons{{Rule: hold.DependentDeletionHeld, Facts: hold.Facts{Object: by.String(), Fields: []string{part.Field}, Detail: detail}}}
	}
	return holding(p, func(c Change) hold.Reasons {
		for _, d := range p.Changes {
			if d.Action == Delete && !d.Admitted() && !d.ReadOnly() && c.takes(d.Before.UsedBy) {
				return used(d.Before.UsedBy, d.Key, "")
			}
		}
		for _, u := range p.Unknown {
			if c.takes(u.UsedBy) {
				return used(u.UsedBy, u.Key, u.Reason)
			}
		}
		return nil
	})
}

// HeldForDependent reports whether the change is held because it takes away a field on which
// something depends whose own deletion waits.
func (c Change) HeldForDependent() bool { return c.Hold.Has(hold.DependentDeletionHeld) }

// KeepDependentHolds holds the changes of the given things again, with the reasons from a plan of
// everything: a plan of some things does not have the deletion that waits.
func (p Plan) KeepDependentHolds(reasons map[state.Key]hold.Reasons) Plan {
	return holding(p, func(c Change) hold.Reasons {
		if c.Drift || c.ReadOnly() {
			return nil
		}
		return reasons[c.Key]
	})
}

// takes reports whether the change is one of a thing that has the part, and has it no
// more afterwards. One that only changes the part brings what is used in its place.
func (c Change) takes(part loss.FieldRef) bool {
	if part.Field == "" || c.Key.Group != part.Group || c.Key.Kind != part.Kind || c.Before == nil {
		return false
	}
	return has(c.Before, part.Field) && !has(c.After, part.Field)
}

func has(item *state.Item, field string) bool {
	if item == nil {
		return false
	}
	path := strings.Split(field, ".")
	last := len(path) - 1
	// A field that is null is absent to the API server.
	return mapAt(item.Object, path[:last])[path[last]] != nil
}
