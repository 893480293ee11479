package plan_test

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// An update that loses what a deletion would waits for the same confirmation as one.
func TestAnUpdateThatLosesNodesWaitsAsADeletionDoes(t *testing.T) {
	key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "cluster"}
	off := state.Item{Key: key, Object: map[string]any{"mode": "Off"}}
	on := state.Item{Key: key, Object: map[string]any{"mode": "Embedded"}, Live: state.Preconditions{UID: "1"}, DeletionImpact: loss.DeletionImpact{
		Impact: "the engine stops", Losses: loss.Counts{"NodeClaim": 3},
	}}
	other := state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: "a"}, Object: map[string]any{"a": "b"}}
	compute := func(confirmation string, was state.Item) plan.Change {
		p := plan.Compute(state.NewSet(off, other), state.NewSet(was, other), plan.Guard(50, confirmation))
		if len(p.Changes) != 1 {
			t.Fatalf("%d changes", len(p.Changes))
		}
		return p.Changes[0]
	}
	held := plan.Compute(state.NewSet(off, other), state.NewSet(on, other), plan.Guard(50, ""))
	token := held.Confirmation()
	again, more, drifted, reversible := on, on, on, on
	again.Live.UID = "2"
	more.Losses = loss.Counts{"NodeClaim": 4}
	drifted.Applied = state.Hash(off.Object)
	reversible.DeletionImpact = loss.DeletionImpact{}
	for _, tt := range []struct {
		name, confirmation string
		was                state.Item
		held               bool
	}{
		{"without confirmation", "", on, true},
		{"confirmed", token, on, false},
		{"confirmed for another incarnation", token, again, true},
		{"confirmed for fewer", token, more, true},
		{"it only puts back what a hand has changed", "", drifted, false},
		{"it loses nothing", "", reversible, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := compute(tt.confirmation, tt.was)
			if got := !c.Admitted(); got != tt.held {
				t.Errorf("held: %v", c.Hold)
			}
			if c.HasLosses() != (tt.name != "it loses nothing" && tt.was.Applied == "") {
				t.Errorf("loses: %v", c.HasLosses())
			}
			if allowed := c.Approval().Losses["NodeClaim"]; tt.confirmation != "" && !tt.held && allowed != 3 {
				t.Errorf("%d are allowed", allowed)
			}
		})
	}
}

// A look at one of several updates asks for what all of them ask for: its own token would
// not fit when everything is planned again.
func TestARunOfOneUpdateNeedsTheTokenOfAll(t *testing.T) {
	of := func(name string) (desired, live state.Item) {
		key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: name}
		live = state.Item{Key: key, Object: map[string]any{"mode": "Embedded"}, Live: state.Preconditions{UID: name}, DeletionImpact: loss.DeletionImpact{Impact: "nodes", Losses: loss.Counts{"Node": 3}}}
		return state.Item{Key: key, Object: map[string]any{"mode": "Off"}}, live
	}
	a, liveA := of("a")
	b, liveB := of("b")
	all := plan.Compute(state.NewSet(a, b), state.NewSet(liveA, liveB), plan.Guard(50, ""))
	reasons := map[state.Key]hold.Reasons{}
	for _, c := range all.Changes {
		reasons[c.Key] = c.Hold
	}
	alone := plan.Compute(state.NewSet(a), state.NewSet(liveA), plan.Guard(50, ""))
	if alone.Confirmation() == all.Confirmation() {
		t.Fatal("the control: by itself it asks for the same token")
	}
	if got := alone.KeepHolds(reasons).Confirmation(); got != all.Confirmation() {
		t.Errorf("it asks for %s, all for %s", got, all.Confirmation())
	}
}

// What ends the engine has a token of its own, which stays good once the deletions beside it are made,
// and with fewer losses; and lets nothing else pass.
func TestWhatEndsTheEngineHasATokenOfItsOwn(t *testing.T) {
	key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "cluster"}
	off := func(region string) state.Item {
		return state.Item{Key: key, Object: map[string]any{"mode": "Off", "region": region}}
	}
	on := func(uid string, claims int) state.Item {
		return state.Item{Key: key, Object: map[string]any{"mode": "Embedded"}, Live: state.Preconditions{UID: uid}, DeletionImpact: loss.DeletionImpact{
			Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": claims}, AfterNodes: true, EndsEngine: true,
		}}
	}
	pool, kept := costing("pool", 3, nil), things("kept", 5)
	compute := func(confirmation string, desired []state.Item, live ...state.Item) plan.Plan {
		return plan.Compute(state.NewSet(append(desired, kept...)...), state.NewSet(append(live, kept...)...), plan.Guard(50, confirmation))
	}
	both := compute("", []state.Item{off("a")}, on("1", 5), pool)
	engine := tokenOf(both, "engine")
	for _, tt := range []struct {
		name, confirmation string
		desired, live      []state.Item
		held               int
	}{
		{"both, without confirmation", "", []state.Item{off("a")}, []state.Item{on("1", 5), pool}, 2},
		{"both, with both tokens", both.Confirmation(), []state.Item{off("a")}, []state.Item{on("1", 5), pool}, 0},
		{"both, with that of the engine", engine, []state.Item{off("a")}, []state.Item{on("1", 5), pool}, 1},
		{"both, with that of the deletion", deletionsOf(both), []state.Item{off("a")}, []state.Item{on("1", 5), pool}, 1},
		{"once the pool is deleted", engine, []state.Item{off("a")}, []state.Item{on("1", 5)}, 0},
		{"with fewer losses", engine, []state.Item{off("a")}, []state.Item{on("1", 1)}, 0},
		{"with a fifth more", engine, []state.Item{off("a")}, []state.Item{on("1", 6)}, 0},
		{"with yet more", engine, []state.Item{off("a")}, []state.Item{on("1", 7)}, 1},
		{"with another content", engine, []state.Item{off("b")}, []state.Item{on("1", 5)}, 1},
		{"of another incarnation", engine, []state.Item{off("a")}, []state.Item{on("2", 5)}, 1},
		{"with the deletion of the Cluster", engine, nil, []state.Item{on("1", 5)}, 1},
	} {
		p := compute(tt.confirmation, tt.desired, tt.live...)
		if got := heldCount(p); got != tt.held {
			t.Errorf("%s: %d are held, want %d: %s", tt.name, got, tt.held, p.Reasons())
		}
		for _, c := range p.Changes {
			if c.Admitted() && !c.Approval().Covers(c.Before.EffectiveLosses()) {
				t.Errorf("%s: %s was let pass with less than goes with it", tt.name, c.Key)
			}
		}
	}
	// A deletion of the Cluster is recorded as confirmed by that token, so that it can be taken back.
	requested := compute("", nil, on("1", 5))
	for _, c := range compute(requested.Confirmation(), nil, on("1", 5)).Changes {
		if c.Action == plan.Delete && (!c.Admitted() || !c.Approval().Confirmed()) {
			t.Errorf("held %v, recorded %+v", !c.Admitted(), c.Approval())
		}
	}
}
