package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Proposal is what a step from one revision to another would do.
type Proposal struct {
	plan.Proposal
	// Problems are all mistakes of the revision after the step, those that only a
	// target observes included. While there are any, nothing is deleted.
	Problems []state.Problem
	// Old are those of the Problems that the revision before has as well (state.Problem.Identity):
	// the step is not to blame for them.
	Old []state.Problem
}

// Propose computes with the targets what the step from before to after would do; it
// changes nothing. Offline, only their Desired is called, and the result is the difference
// of the two revisions.
//
// A target keeps of its last Desired and Observe what the next verbs need: give Propose
// targets that no Loop works with, and those for one call at a time.
func Propose(ctx context.Context, before, after declared.Declared, offline bool, targets []NamedTarget, policies ...plan.Policy) (Proposal, error) {
	was, err := survey(ctx, before, offline, targets)
	if err != nil {
		return Proposal{}, fmt.Errorf("reading the revision before the step: %w", err)
	}
	is, err := survey(ctx, after, offline, targets)
	if err != nil {
		return Proposal{}, fmt.Errorf("reading the revision after the step: %w", err)
	}
	out := Proposal{Problems: is.problems}
	known := map[state.Problem]bool{}
	for _, p := range was.problems {
		known[p.Identity()] = true
	}
	for _, p := range is.problems {
		if known[p.Identity()] {
			out.Old = append(out.Old, p)
		}
	}
	out.Proposal = proposal.Propose(proposal.Sides{
		Before: was.wanted, After: is.wanted, ObservedBefore: was.observed, ObservedAfter: is.observed, Offline: offline,
		MistakenBefore: len(was.problems) > 0, MistakenAfter: len(is.problems) > 0,
		Refused: refused(was.wanted, is.wanted, after.Set),
	}, policies...)
	return out, nil
}

// surveyed is a revision as the targets take it.
type surveyed struct {
	wanted, observed state.Set
	problems         []state.Problem
}

// survey leads one revision through all targets. Each is observed right after it was
// asked what it wants, as it observes by what it was asked last.
func survey(ctx context.Context, d declared.Declared, offline bool, targets []NamedTarget) (surveyed, error) {
	out := surveyed{problems: slices.Clip(d.Problems)}
	if d.BeforeDesired != nil {
		d.BeforeDesired()
	}
	for _, w := range targets {
		wanted, more, err := want(ctx, w.Target, d.Set)
		if err != nil {
			return out, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
		out.wanted, out.problems = union(out.wanted, wanted), append(out.problems, more...)
		if offline {
			continue
		}
		seen, err := w.Target.Observe(ctx, wanted)
		if err != nil {
			return out, fmt.Errorf("observing %s: %w", w.Name, err)
		}
		out.observed = union(out.observed, seen)
	}
	return out, nil
}

// refused finds the things that were wanted and are declared still, in a way that
// their target does not take: they are mistaken and not removed. What a DevicePlugin
// stands for shares its fate.
func refused(before, after, declared state.Set) []state.Key {
	still := map[state.Key]bool{}
	for _, item := range declared.Items() {
		k := item.Key
		still[k] = true
		// Worlds put things into namespaces, and take them out.
		if k.Namespace == "" {
			k.Namespace = "default"
		} else {
			k.Namespace = ""
		}
		still[k] = true
	}
	var out []state.Key
	from := map[state.Origin]bool{}
	gone := slices.DeleteFunc(before.Items(), func(i state.Item) bool { _, wanted := after.Get(i.Key); return wanted })
	for _, item := range gone {
		if still[item.Key] {
			out = append(out, item.Key)
			if item.Key.Kind == "DevicePlugin" && item.Origin != (state.Origin{}) {
				from[item.Origin] = true
			}
		}
	}
	for _, item := range gone {
		if from[item.Origin] && !still[item.Key] {
			out = append(out, item.Key)
		}
	}
	return out
}
