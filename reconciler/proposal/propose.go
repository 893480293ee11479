package proposal

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// RevisionState is a revision, and the targets as far as they were read for it.
type RevisionState struct {
	// Desired is the desired state of the targets for it.
	Desired state.Set
	// Observed is what was observed of them; left aside when Offline.
	Observed state.Set
	// Problems are its own, those that only a target finds included. Nothing is
	// deleted while there are any: they may hide what seems to go.
	Problems []state.Problem
}

func (s RevisionState) hasProblems() bool { return len(s.Problems) > 0 }

// RevisionStates are the revisions before and after a merge.
type RevisionStates struct {
	Before, After RevisionState
	// Declared is what the revision after the merge declares. What it declares with a
	// problem is not in After.Desired, and is not removed by it either.
	Declared state.Set
	// Offline is true when no target was read: they count as being as in Before.Desired.
	Offline bool
}

// Propose reports what the merge does, apart from what the targets differ in without it.
//
// Proposed.Changes are the differences of After from Before. Each has what the live plan
// after the merge has of it: why it is held, what dies with it, who else manages the
// thing. Where the live target makes something else of it (it is so already, it is gone,
// it is not ours) a note reports that in one sentence. What the live plan after the merge
// changes, and neither the revisions nor the one before it do, is among them as well.
//
// The policies run on the two live plans as a whole, so that a guard counts everything
// that will be deleted and not the merge's part alone. A deletion that they drop is shown
// with the reason, as it is what the revision declares.
func Propose(s RevisionStates, policies ...plan.Policy) plan.Proposal {
	out := plan.Proposal{Problems: s.After.Problems, ExistingProblems: shared(s.After.Problems, s.Before.Problems)}
	misdeclared := refused(s.Before.Desired, s.After.Desired, s.Declared)
	before, after := comparableItems(s.Before.Desired, misdeclared), comparableItems(s.After.Desired, misdeclared)
	if s.Offline {
		s.Before.Desired, s.After.Desired = before, after
		s.Before.Observed = asObserved(before, after)
		s.After.Observed = s.Before.Observed
		policies = append([]plan.Policy{plan.MarkPartial()}, policies...)
	}
	if s.Offline {
		before, after = withLiveValues(before, s.Before.Observed), withLiveValues(after, s.After.Observed)
	} else {
		before = declaredInBoth(before, after, s.Before.Observed, s.After.Observed)
	}
	was := plan.Compute(s.Before.Desired, s.Before.Observed, cautious(policies, s.Before)...)
	live := plan.Compute(s.After.Desired, s.After.Observed, cautious(policies, s.After)...)

	p := &proposer{RevisionStates: s, was: byKey(was), live: byKey(live), changed: map[state.Key]bool{}}
	for _, c := range plan.Compute(after, undecided(before)).Changes {
		p.changed[c.Key] = true
		p.add(c)
	}
	for _, c := range live.Changes {
		if _, without := p.was[c.Key]; !without && !p.changed[c.Key] {
			p.addUndeclared(c)
		}
	}
	out.Proposed = p.proposedPlan(live, was)
	if !s.Offline {
		out.Drift = drift(was, s.Before)
	}
	return out
}

// shared are the problems of a list that another one has as well.
func shared(list, other []state.Problem) []state.Problem {
	known := map[state.Problem]bool{}
	for _, p := range other {
		known[p.Identity()] = true
	}
	var out []state.Problem
	for _, p := range list {
		if known[p.Identity()] {
			out = append(out, p)
		}
	}
	return out
}

// refused finds the things that were desired and are declared still, in a way that
// their target does not take: they are mistaken and not removed. What a DevicePlugin
// stands for shares its fate.
func refused(before, after, declared state.Set) map[state.Key]bool {
	still := map[state.Key]bool{}
	for item := range declared.All() {
		k := item.Key
		still[k] = true
		// Targets put things into namespaces, and take them out.
		if k.Namespace == "" {
			k.Namespace = "default"
		} else {
			k.Namespace = ""
		}
		still[k] = true
	}
	out := map[state.Key]bool{}
	from := map[state.Origin]bool{}
	gone := slices.DeleteFunc(before.Items(), func(i state.Item) bool { _, desired := after.Get(i.Key); return desired })
	for _, item := range gone {
		if still[item.Key] {
			out[item.Key] = true
			if item.Key.Kind == "DevicePlugin" && item.Origin != (state.Origin{}) {
				from[item.Origin] = true
			}
		}
	}
	for _, item := range gone {
		if from[item.Origin] && !still[item.Key] {
			out[item.Key] = true
		}
	}
	return out
}

// cautious are the policies for a revision that may have problems.
func cautious(policies []plan.Policy, of RevisionState) []plan.Policy {
	if !of.hasProblems() {
		return policies
	}
	return append([]plan.Policy{plan.NoPrune()}, policies...)
}

// comparableItems are the items that the revisions determine by themselves: not those that
// declare nothing and are only read, nor those whose meaning is unknown.
func comparableItems(set state.Set, refused map[state.Key]bool) state.Set {
	return state.NewSet(slices.DeleteFunc(set.Items(), func(i state.Item) bool {
		onlyRead := i.Object != nil && len(i.Object) == 0 && i.ReadOnly == ""
		return onlyRead || refused[i.Key]
	})...)
}

func byKey(p plan.Plan) map[state.Key]plan.Change {
	out := make(map[state.Key]plan.Change, len(p.Changes))
	for _, c := range p.Changes {
		out[c.Key] = c
	}
	return out
}
