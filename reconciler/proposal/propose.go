package proposal

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Sides are two revisions, and the targets as far as they were read.
type Sides struct {
	// Before and After are what is wanted before and after the step.
	Before, After state.Set
	// ObservedBefore and ObservedAfter are what was observed of each; left aside when Offline.
	ObservedBefore, ObservedAfter state.Set
	// Offline is true when no target was read: they count as being as in Before.
	Offline bool
	// MistakenBefore and MistakenAfter are true for a revision with mistakes. Nothing
	// is deleted while there are any: they may hide what seems to go.
	MistakenBefore, MistakenAfter bool
	// Refused are things that the revision after the step declares, and with a
	// mistake: not being in After, they are not removed by it either.
	Refused []state.Key
}

// Propose reports what the step does, apart from what the targets differ in without it.
//
// Step.Changes are the differences of After from Before. Each has what the live plan
// after the step has of it: why it is held, what dies with it, who else manages the
// thing. Where the live target makes something else of it (it is so already, it is gone,
// it is not ours) a note reports that in one sentence. What the live plan after the step
// changes, and neither the revisions nor the one before it do, is among them as well.
//
// The policies run on the two live plans as a whole, so that a guard counts everything
// that will be deleted and not the step's part alone. A deletion that they drop is shown
// with the reason, as it is what the revision declares.
func Propose(s Sides, policies ...plan.Policy) plan.Proposal {
	refused := map[state.Key]bool{}
	for _, k := range s.Refused {
		refused[k] = true
	}
	before, after := comparableItems(s.Before, refused), comparableItems(s.After, refused)
	if s.Offline {
		s.Before, s.After = before, after
		s.ObservedBefore = asObserved(before, after)
		s.ObservedAfter = s.ObservedBefore
	}
	was := plan.Compute(s.Before, s.ObservedBefore, cautious(policies, s.MistakenBefore)...)
	live := plan.Compute(s.After, s.ObservedAfter, cautious(policies, s.MistakenAfter)...)

	p := &proposer{Sides: s, was: byKey(was), live: byKey(live), changed: map[state.Key]bool{}}
	for _, c := range plan.Compute(after, undecided(before)).Changes {
		p.changed[c.Key] = true
		p.add(c)
	}
	for _, c := range live.Changes {
		if _, without := p.was[c.Key]; !without && !p.changed[c.Key] {
			p.surplus(c)
		}
	}
	out := plan.Proposal{Step: p.step(live, was)}
	if !s.Offline {
		out.Drift = drift(was, s.ObservedBefore)
	}
	return out
}

// cautious are the policies for a revision that may have mistakes.
func cautious(policies []plan.Policy, mistaken bool) []plan.Policy {
	if !mistaken {
		return policies
	}
	return append([]plan.Policy{plan.NoPrune()}, policies...)
}

// comparableItems are the items that the revisions determine by themselves: not those that
// declare nothing and are only read, nor those whose meaning is unknown.
func comparableItems(set state.Set, refused map[state.Key]bool) state.Set {
	return state.NewSet(slices.DeleteFunc(set.Items(), func(i state.Item) bool {
		looked := i.Object != nil && len(i.Object) == 0 && i.ReadOnly == ""
		return looked || refused[i.Key]
	})...)
}

// undecided is what a revision declares, as if it had been found: the terms are those
// of what is wanted afterwards.
func undecided(set state.Set) state.Set {
	items := set.Items()
	for i := range items {
		items[i].Terms = state.Terms{}
	}
	return state.NewSet(items...)
}

// asObserved is what a target shows that is just as a revision declares. What was only
// compared, and is not any more, is nobody's to delete.
func asObserved(before, after state.Set) state.Set {
	items := undecided(before).Items()
	for i, item := range items {
		wanted, _ := before.Get(item.Key)
		if wanted.ReadOnly == "" {
			items[i].Applied = state.Hash(item.Object)
		}
		if _, stays := after.Get(item.Key); !stays {
			items[i].ReadOnly = wanted.ReadOnly
		}
	}
	return state.NewSet(items...)
}

func byKey(p plan.Plan) map[state.Key]plan.Change {
	out := make(map[state.Key]plan.Change, len(p.Changes))
	for _, c := range p.Changes {
		out[c.Key] = c
	}
	return out
}

// proposer is one Propose at work.
type proposer struct {
	Sides
	// was and live are the live plans without the step and with it.
	was, live map[state.Key]plan.Change
	// changed are the keys of what the step changes.
	changed map[state.Key]bool
	changes []plan.Change
	notes   []plan.Note
}

func (p *proposer) note(c plan.Change, text string) { p.notes = append(p.notes, noteOf(c, text)) }

// warn adds a note that is a warning.
func (p *proposer) warn(c plan.Change, text string) {
	n := noteOf(c, text)
	n.Warning = true
	p.notes = append(p.notes, n)
}

func noteOf(c plan.Change, text string) plan.Note {
	return plan.Note{Key: c.Key, Origin: c.Origin(), Text: text}
}

// notOurs is all that is reported of what exists and is not in the applied inventory.
func notOurs(c plan.Change) plan.Note {
	n := noteOf(c, "exists, not ours")
	n.NotOurs = true
	return n
}

// ours reports whether what was observed may be shown.
func ours(seen state.Item) bool { return seen.Applied != "" }

// add takes over a difference of the two revisions.
func (p *proposer) add(c plan.Change) {
	if c.Action == plan.Delete {
		p.remove(c)
		return
	}
	seen, _ := p.ObservedAfter.Get(c.Key)
	planned, will := p.live[c.Key]
	if c.Before != nil && ours(seen) {
		was := *c.Before
		was.Owner, was.Live = seen.Owner, seen.Live
		c.Before = &was
	}
	c.Hold = planned.Hold
	if reason := cmp.Or(terms(planned), seen.ReadOnly); reason != "" {
		c = compared(c, reason)
	}
	p.changes = append(p.changes, c)
	p.noteLive(c, seen, planned, will)
}

// noteLive is what the live target makes of a change; will is whether it is among those
// that are planned there.
func (p *proposer) noteLive(c plan.Change, seen state.Item, planned plan.Change, will bool) {
	switch exists := seen.Object != nil; {
	case p.Offline, seen.Unknown != "", exists && !will && seen.Live == state.Identity{}:
		// Nothing is known of the live thing, as its target itself reports.
	case seen.Unasked:
		if c.Action == plan.Update {
			p.note(c, "is not applied by this Sync: for a comment, it is not read whether it exists")
		}
	case exists && !ours(seen):
		p.foreign(c, planned)
	case exists && !will:
		p.note(c, "is so already")
	case exists && c.Action == plan.Create:
		p.note(c, "exists already, and is ours: it is changed, not made")
	case exists:
		p.overlaps(c, planned)
	case c.Action == plan.Update:
		p.note(c, "is not applied now: it is made anew")
	}
}

// terms are for what reason a change is never made; empty where it may be.
func terms(c plan.Change) string {
	reason := ""
	if c.After != nil {
		reason = c.After.ReadOnly
	}
	if c.Before != nil {
		reason = cmp.Or(reason, c.Before.ReadOnly)
	}
	return reason
}

// compared gives a change the terms of what is read-only.
func compared(c plan.Change, reason string) plan.Change {
	for _, item := range []**state.Item{&c.Before, &c.After} {
		if *item != nil {
			held := **item
			held.ReadOnly = reason
			*item = &held
		}
	}
	c.Hold = hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: reason}}}
	return c
}

// remove takes over that the step does not declare a thing any more.
func (p *proposer) remove(c plan.Change) {
	wanted, _ := p.Before.Get(c.Key)
	planned, will := p.live[c.Key]
	after, _ := p.ObservedAfter.Get(c.Key)
	before, _ := p.ObservedBefore.Get(c.Key)
	switch {
	case will && !(p.Offline && wanted.ReadOnly != ""):
		c = withLosses(c, after)
		c.Hold = planned.Hold
		if reason := terms(planned); reason != "" {
			c = compared(c, reason)
		}
	case wanted.ReadOnly != "":
		p.note(c, "is not compared any more")
		return
	case after.Unknown != "" || before.Unknown != "":
		// Nothing is known of the live thing, as its target itself reports.
	case after.Object != nil && p.MistakenAfter:
		// Nor waited for: mended, it is another revision. Nobody shall count nodes
		// as lost with a pool that is only misspelled.
		c = compared(withLosses(c, after), "nothing is deleted while the repository has mistakes: they may hide what seems to be removed")
	case after.Object != nil:
		c = compared(withLosses(c, after), "nothing is deleted (prune: false)")
	case before.Object == nil:
		p.note(c, "is not applied now: nothing is deleted")
	case leaving(before):
		p.note(c, "is being deleted already")
	default:
		c = compared(c, "is not deleted with it: a deletion policy, another owner or what still uses it keeps it")
		if !ours(before) {
			p.notes = append(p.notes, notOurs(c))
		}
	}
	p.changes = append(p.changes, c)
}

// withLosses completes a deletion with what the live target reports of the thing.
func withLosses(c plan.Change, seen state.Item) plan.Change {
	was := *c.Before
	was.Removal, was.Live, was.Wave = seen.Removal, seen.Live, seen.Wave
	if ours(seen) {
		was.Owner = seen.Owner
	}
	c.Before = &was
	return c
}

// leaving reports whether a Kubernetes object was observed on its way out.
func leaving(seen state.Item) bool {
	metadata, _ := seen.Object["metadata"].(map[string]any)
	return metadata["deletionTimestamp"] != nil
}

// surplus takes over what the step brings about without changing it, such as a
// deletion that had to wait for a mistake to be mended.
func (p *proposer) surplus(c plan.Change) {
	seen, _ := p.ObservedAfter.Get(c.Key)
	shown, hidden := hide(c, seen)
	if hidden {
		p.notes = append(p.notes, notOurs(c))
	}
	if c.Action == plan.Delete && p.MistakenBefore && !p.MistakenAfter {
		p.note(c, "was removed before, and waited for the repository's mistakes to be mended")
	}
	p.changes = append(p.changes, shown)
}

// hide takes live values out of a change of what is not ours, and reports whether there
// is something to report of it. That a deletion is about what we made, the target
// guarantees.
func hide(c plan.Change, seen state.Item) (shown plan.Change, hidden bool) {
	if c.Before == nil || ours(seen) {
		return c, false
	}
	was := state.Item{Key: c.Key, Version: c.Before.Version, Wave: c.Before.Wave, Terms: c.Before.Terms}
	c.Fields = nil
	if c.Action == plan.Delete {
		c.Before = &was
		c = withLosses(c, seen)
		return c, false
	}
	was.Object = c.After.Object
	c.Before = &was
	return c, true
}

// drift is a live plan without what must not be shown, and without what no target read:
// whether that differs is unknown.
func drift(was plan.Plan, seen state.Set) plan.Plan {
	out := was
	was.Changes = slices.DeleteFunc(slices.Clone(was.Changes), func(c plan.Change) bool {
		found, _ := seen.Get(c.Key)
		return found.Unasked
	})
	out.Changes = slices.Clone(was.Changes)
	out.Notes = tellable(was.Notes, seen)
	for i, c := range was.Changes {
		found, _ := seen.Get(c.Key)
		shown, hidden := hide(c, found)
		out.Changes[i] = shown
		if hidden {
			out.Notes = append(out.Notes, notOurs(c))
		}
	}
	slices.SortStableFunc(out.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	return out
}
