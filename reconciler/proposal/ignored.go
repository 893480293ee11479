package proposal

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
)

// asObserved is what a target shows that is just as a revision declares. What was only
// compared, and is not any more, is nobody's to delete.
func asObserved(before, after state.Set) state.Set {
	items := undecided(before).Items()
	for i, item := range items {
		desired, _ := before.Get(item.Key)
		if desired.ReadOnly == "" {
			items[i].Applied = desired.Hash()
		}
		afterwards, stays := after.Get(item.Key)
		if !stays {
			items[i].ReadOnly = desired.ReadOnly
		}
		items[i].Ignored = state.IgnoredValues(afterwards.Ignore, afterwards.Object, item.Object)
	}
	return state.NewSet(items...)
}

// withLiveValues is what is desired with the live values of what is ignored.
func withLiveValues(desired, observed state.Set) state.Set {
	items := desired.Items()
	for i, item := range items {
		if o, _ := observed.Get(item.Key); o.Object != nil {
			items[i].Object = state.KeepDeclared(item.Object, o.Ignored)
		}
	}
	return state.NewSet(items...)
}

// declaredInBoth are two revisions with one value of what both declare and ignore: that of the second. It
// is no change then, and a list that is shown as a whole has no live value.
func declaredInBoth(before, after, observedBefore, observedAfter state.Set) state.Set {
	items := before.Items()
	for i, old := range items {
		item, _ := after.Get(old.Key)
		was, _ := observedBefore.Get(old.Key)
		is, _ := observedAfter.Get(old.Key)
		var values []state.IgnoredValue
		for _, v := range is.Ignored {
			if w, found := sameIgnored(v, item.Object, old.Object, was.Ignored); found {
				values = append(values, w)
			}
		}
		items[i].Object = state.KeepDeclared(old.Object, values)
	}
	return state.NewSet(items...)
}

// sameIgnored is the same field in the other revision, where both declare and ignore it, with the value
// that object has.
func sameIgnored(v state.IgnoredValue, object, other map[string]any, values []state.IgnoredValue) (state.IgnoredValue, bool) {
	p, err := pointer.Parse(v.Pointer)
	if err != nil || !v.Declared || other == nil {
		return state.IgnoredValue{}, false
	}
	at, ok := p.In(object, other)
	if !ok {
		return state.IgnoredValue{}, false
	}
	i := slices.IndexFunc(values, func(w state.IgnoredValue) bool {
		return w.Declared && w.Pointer == at.String() && w.Present == v.Present && state.Equal(w.Value, v.Value)
	})
	if i < 0 {
		return state.IgnoredValue{}, false
	}
	same := values[i]
	same.Value, same.Present = p.Get(object)
	return same, true
}

// withDeclared is a change of a live plan with the declared values of what is ignored, in the place of the
// live ones that both of its objects have.
func withDeclared(c plan.Change, desired state.Item) plan.Change {
	if c.Before == nil || c.After == nil || len(desired.Ignore) == 0 {
		return c
	}
	before, after := *c.Before, *c.After
	for _, v := range state.IgnoredValues(desired.Ignore, desired.Object, before.Object) {
		p, err := pointer.Parse(v.Pointer)
		if err != nil || !v.Declared || !v.Present {
			continue
		}
		at, ok := p.In(desired.Object, before.Object)
		if kept, present := p.Get(after.Object); !ok || !present || !state.Equal(kept, v.Value) {
			continue
		}
		value, _ := p.Get(desired.Object)
		before.Object, _ = at.Set(before.Object, value).(map[string]any)
		after.Object, _ = p.Set(after.Object, value).(map[string]any)
	}
	c.Before, c.After = &before, &after
	c.Fields = c.Diff(before.Object, after.Object)
	return c
}

// listIgnored adds the ignored fields that the merge makes differ.
func (p *proposer) listIgnored(out *plan.Plan, live, was plan.Plan) {
	for _, ignored := range live.Ignored {
		observed, _ := p.After.Observed.Get(ignored.Key())
		listed := (p.Offline || ours(observed)) && !slices.ContainsFunc(was.Ignored, ignored.Same)
		if listed && !p.Offline {
			// The proposal chooses what the rules match: none of it was applied, and a live value
			// may be one that another manager wrote.
			ignored, listed = ignored.WithoutLiveValues()
		}
		if listed {
			out.Ignored = append(out.Ignored, ignored)
		}
	}
}
