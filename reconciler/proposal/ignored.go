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

// kept is what is wanted with the live values of what is ignored.
func kept(desired, observed state.Set) state.Set {
	items := desired.Items()
	for i, item := range items {
		if o, _ := observed.Get(item.Key); o.Object != nil {
			items[i].Object = state.KeepDeclared(item.Object, o.Ignored)
		}
	}
	return state.NewSet(items...)
}

// keptInBoth are two revisions with the live values of what both declare and ignore. All others stay as
// they are declared: in one of them alone, a live value would be shown as a change.
func keptInBoth(before, after, observedBefore, observedAfter state.Set) (keptBefore, keptAfter state.Set) {
	items, olds := after.Items(), map[state.Key]state.Item{}
	for i, item := range items {
		old, _ := before.Get(item.Key)
		was, _ := observedBefore.Get(item.Key)
		is, _ := observedAfter.Get(item.Key)
		var befores, afters []state.IgnoredValue
		for _, v := range is.Ignored {
			if w, found := sameIgnored(v, item.Object, old.Object, was.Ignored); found {
				befores, afters = append(befores, w), append(afters, v)
			}
		}
		if len(afters) > 0 {
			old.Object = state.KeepDeclared(old.Object, befores)
			items[i].Object = state.KeepDeclared(item.Object, afters)
			olds[item.Key] = old
		}
	}
	all := before.Items()
	for i, item := range all {
		if old, found := olds[item.Key]; found {
			all[i] = old
		}
	}
	return state.NewSet(all...), state.NewSet(items...)
}

// sameIgnored is the value of the same field among those of the other revision, where both declare it.
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
	return values[i], true
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
