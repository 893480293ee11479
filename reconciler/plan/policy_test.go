package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// pruning plans the deletion of so many things while others stay.
func pruning(deleted, kept int, policies ...plan.Policy) plan.Plan {
	stay := things("kept", kept)
	return plan.Compute(state.NewSet(stay...), state.NewSet(append(things("old", deleted), stay...)...), policies...)
}

func heldCount(p plan.Plan) int {
	n := 0
	for _, c := range p.Changes {
		if !c.Admitted() {
			n++
		}
	}
	return n
}

func TestGuardHoldsWhatWouldDeleteTooMuch(t *testing.T) {
	tests := []struct {
		name          string
		deleted, kept int
		percent       int
		held          int
		reason        string
	}{
		{name: "nothing is deleted", deleted: 0, kept: 5, percent: 50},
		{name: "few things, whatever their share", deleted: 9, kept: 1, percent: 50},
		{name: "ten things and more than the share", deleted: 10, kept: 9, percent: 50, held: 10, reason: "would delete 10 of 19 objects, more than 50% (guard.maxPrunePercent)"},
		{name: "ten things that are just the share", deleted: 10, kept: 10, percent: 50},
		{name: "many things of very many", deleted: 100, kept: 300, percent: 50},
		{name: "a guard of nought holds from ten things on", deleted: 10, kept: 1000, percent: 0, held: 10, reason: "would delete 10 of 1010 objects, more than 0% (guard.maxPrunePercent)"},
		{name: "everything, though it is little", deleted: 2, kept: 0, percent: 50, held: 2, reason: "would delete all 2 objects (guard.maxPrunePercent)"},
		{name: "everything, though the guard is open", deleted: 20, kept: 0, percent: 100, held: 20, reason: "would delete all 20 objects (guard.maxPrunePercent)"},
		{name: "the only thing there is", deleted: 1, kept: 0, percent: 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pruning(tt.deleted, tt.kept, plan.Guard(tt.percent, ""))
			if got := heldCount(p); got != tt.held {
				t.Fatalf("%d held, want %d: %v", got, tt.held, holds(p))
			}
			if tt.held == 0 {
				return
			}
			if d := cmp.Diff([]string{tt.reason}, holds(p)); d != "" || p.Confirmation() != deletionsOf(p) {
				t.Errorf("reasons (-want +got):\n%s", d)
			}
		})
	}
}

func TestGuardHoldsDeletionsOnly(t *testing.T) {
	edited := thing("kept-00", 0, object{"v": int64(2)})
	p := plan.Compute(state.NewSet(thing("new", 0, nil), edited), state.NewSet(append(things("old", 20), things("kept", 1)...)...), plan.Guard(50, ""))
	for _, c := range p.Changes {
		if held := !c.Admitted(); held != (c.Action == plan.Delete) {
			t.Errorf("%s %s: held %v", c.Action, c.Key, held)
		}
	}
}

func TestGuardHoldsDeletionsWithLossesInAnyNumber(t *testing.T) {
	impact := thing("pool", 0, nil)
	impact.Impact = "3 nodes, 7 pods"
	old := append(things("old", 2), impact)
	p := plan.Compute(state.NewSet(things("kept", 9)...), state.NewSet(append(old, things("kept", 9)...)...), plan.Guard(50, ""))
	if d := cmp.Diff([]string{"delete old-00", "delete old-01", "delete pool held"}, steps(p)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"deleting Thing/pool: 3 nodes, 7 pods"}, holds(p)); d != "" || p.Confirmation() != deletionsOf(p) || p.Confirmation() == "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
}

func TestAConfirmationIsGoodForExactlyTheDeletionsThatItNamed(t *testing.T) {
	pool, other := thing("pool", 0, nil), thing("other", 0, nil)
	pool.Impact, pool.Losses = "3 nodes", loss.Counts{"Node": 3}
	kept := things("kept", 9)
	target := append([]state.Item{pool}, kept...)
	hash := deletionsOf(plan.Compute(state.NewSet(kept...), state.NewSet(target...), plan.Guard(50, "")))
	impact := other
	impact.Impact = "1 node"
	reborn, grown, shrunk := pool, pool, pool
	grown.Losses, shrunk.Losses = loss.Counts{"Node": 4}, loss.Counts{"Node": 2}
	reborn.Live.UID = "another"
	edited := append([]state.Item{thing("kept-00", 0, object{"v": int64(2)})}, kept[1:]...)
	tests := []struct {
		name              string
		desired, observed []state.Item
		confirmation      string
		held              bool
	}{
		{name: "without confirmation", desired: kept, observed: target, held: true},
		{name: "with the hash", desired: kept, observed: target, confirmation: hash},
		{name: "with another hash", desired: kept, observed: target, confirmation: "000000000000", held: true},
		{name: "with the hash among other tokens", desired: kept, observed: target, confirmation: "000000000000 , " + hash + " "},
		{name: "with the hash as a part of a token", desired: kept, observed: target, confirmation: "x" + hash, held: true},
		{name: "unrelated updates and creations came", desired: append(edited, thing("new", 0, nil)), observed: target, confirmation: hash},
		{name: "one more requires a token", desired: kept, observed: append([]state.Item{impact}, target...), confirmation: hash, held: true},
		{name: "one more that nobody need allow is deleted as well", desired: kept, observed: append([]state.Item{other}, target...), confirmation: hash},
		{name: "so many more that the guard requires a token for all", desired: kept, observed: append(things("old", 30), target...), confirmation: hash, held: true},
		{name: "more goes with it by now", desired: kept, observed: append([]state.Item{grown}, kept...), confirmation: hash, held: true},
		{name: "less goes with it by now", desired: kept, observed: append([]state.Item{shrunk}, kept...), confirmation: hash},
		{name: "with what goes with it left out", desired: kept, observed: target, confirmation: strings.TrimSuffix(hash, "+3Node"), held: true},
		{name: "its successor of the same name would be deleted", desired: kept, observed: append([]state.Item{reborn}, kept...), confirmation: hash, held: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.Compute(state.NewSet(tt.desired...), state.NewSet(tt.observed...), plan.Guard(50, tt.confirmation))
			if got := heldCount(p) > 0; got != tt.held {
				t.Errorf("held %v, want %v: %v", got, tt.held, steps(p))
			}
		})
	}
}

func TestNoPruneDropsDeletionsAndKeepsTheRest(t *testing.T) {
	p := plan.Compute(state.NewSet(thing("new", 0, nil)), state.NewSet(things("old", 20)...), plan.NoPrune(), plan.Guard(50, ""))
	if d := cmp.Diff([]string{"create new"}, steps(p)); d != "" || len(holds(p)) != 0 {
		t.Errorf("changes (-want +got):\n%s, holds %v", d, holds(p))
	}
}

func TestReportDriftHoldsOnlyWhatWasChangedByHand(t *testing.T) {
	byHand, byCommit := thing("by-hand", 0, nil), thing("by-commit", 0, nil)
	liveHand, liveCommit := thing("by-hand", 0, object{"v": "x"}), thing("by-commit", 0, object{"v": "old"})
	liveHand.Applied, liveCommit.Applied = state.Hash(byHand.Object), state.Hash(liveCommit.Object)
	p := plan.Compute(state.NewSet(byHand, byCommit), state.NewSet(liveHand, liveCommit, thing("old", 0, nil)), plan.ReportDrift())
	if d := cmp.Diff([]string{"update by-commit", "update by-hand drift held", "delete old"}, steps(p)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestTheFirstReasonToHoldAChangeStays(t *testing.T) {
	later := func(p plan.Plan) plan.Plan { return plan.Guard(0, "")(p) }
	p := pruning(20, 0, plan.Guard(50, ""), later)
	if len(holds(p)) != 1 || !strings.HasPrefix(holds(p)[0], "would delete all 20") {
		t.Errorf("reasons %v", holds(p))
	}
}

func TestADeletionThatAPersonConfirmedGoesOnWithoutAnotherConfirmation(t *testing.T) {
	var observed []state.Item
	for i := range 20 {
		item := state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: fmt.Sprintf("n%02d", i)}, Object: map[string]any{}}
		item.Impact = "it matters"
		if i < 15 {
			item.Allowed = &loss.Approval{Losses: item.EffectiveLosses(), Digest: earlier}
		}
		observed = append(observed, item)
	}
	p := plan.Compute(state.Set{}, state.NewSet(observed...), plan.Guard(10, quoting()))
	held := 0
	for _, c := range p.Changes {
		if !c.Admitted() {
			held++
			if c.Before.Allowed != nil {
				t.Errorf("%s was confirmed and is held: %s", c.Key, c.Hold)
			}
		}
	}
	if held != 5 {
		t.Errorf("%d deletions are held, want the 5 that were not confirmed", held)
	}
}

func TestAHeldChangeNamesTheRulesThatHoldIt(t *testing.T) {
	const stays = "ConfigMap/a=1"
	pools := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("NodePool/p-%02d=1", i))
		}
		return append(out, stays)
	}
	limit := 0
	lost := func([]plan.Change) hold.Nodes {
		return hold.Nodes{Removed: 3, Pools: map[string]int{"gpu": 3}}
	}
	impact := rolling([]string{"NodePool/gpu=1", stays}, []string{stays}, plan.Guard(50, ""))
	for name, c := range map[string]struct {
		plan plan.Plan
		want []hold.Rule
	}{
		"nothing holds it":               {rolling([]string{"NodePool/gpu=1"}, []string{"NodePool/gpu=2"}), nil},
		"one deletion with losses":       {impact, []hold.Rule{hold.DeletionLosses}},
		"too many":                       {rolling(pools(20), []string{stays}, plan.Guard(50, "")), []hold.Rule{hold.MaxPrunePercent, hold.DeletionLosses}},
		"everything":                     {rolling(pools(2)[:2], nil, plan.Guard(50, "")), []hold.Rule{hold.MaxPrunePercent, hold.DeletionLosses}},
		"drift that is reported":         {rolling([]string{"ConfigMap/a=2!"}, []string{stays}, plan.ReportDrift()), []hold.Rule{hold.DriftReported}},
		"a target that is read-only":     {rolling([]string{"ConfigMap/a=2"}, []string{stays}, plan.ReportTarget("kubernetes")), []hold.Rule{hold.DriftReported}},
		"nodes":                          {rolling([]string{"NodePool/gpu=1"}, []string{"NodePool/gpu=2"}).GuardNodes(&limit, nil, "", lost), []hold.Rule{hold.MaxNodesReplaced}},
		"a deletion that also has nodes": {impact.GuardNodes(&limit, nil, "", lost), []hold.Rule{hold.DeletionLosses, hold.MaxNodesReplaced}},
		"more than were reviewed": {impact.GuardNodes(nil, []plan.Review{merged(reviewed(12, 0, []string{"NodePool/gpu=1"}, nil))}, "", lost),
			[]hold.Rule{hold.DeletionLosses, hold.ReviewExceeded}},
		"all of it": {impact.GuardNodes(&limit, []plan.Review{merged(reviewed(12, 0, []string{"NodePool/gpu=1"}, nil))}, "", lost),
			[]hold.Rule{hold.DeletionLosses, hold.MaxNodesReplaced, hold.ReviewExceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, change := range c.plan.Changes {
				if d := cmp.Diff(c.want, change.Hold.Rules()); d != "" {
					t.Errorf("%s: %q: rules (-want +got):\n%s", change.Key, change.Hold, d)
				}
			}
			if len(c.plan.Changes) == 0 {
				t.Error("nothing changes")
			}
		})
	}
}
