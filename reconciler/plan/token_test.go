package plan_test

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// Whoever writes the repository chooses the contents and has them confirmed: what the
// tokens are bound to beside is chosen by others.
func TestATokenIsGoodInOneScopeOnly(t *testing.T) {
	kept, pool := things("kept", 5), costing("gpu", 3, nil)
	here := confirm.Binding{UID: "a"}
	compute := func(in confirm.Binding, confirmation string) plan.Plan {
		return plan.Compute(state.NewSet(kept...), state.NewSet(append(kept, pool)...), func(p plan.Plan) plan.Plan { p.Binding = in; return p }, plan.Guard(50, confirmation))
	}
	token := deletionsOf(compute(here, ""))
	for name, tt := range map[string]struct {
		in   confirm.Binding
		held bool
	}{
		"where it was required":            {here, false},
		"in another Sync":                  {confirm.Binding{UID: "b"}, true},
		"when it has served":               {confirm.Binding{UID: "a", Handled: token}, true},
		"when it has served among others":  {confirm.Binding{UID: "a", Handled: "x," + token}, true},
		"nor where one runs into the next": {confirm.Binding{Handled: "a"}, true},
	} {
		if got := heldCount(compute(tt.in, token)) > 0; got != tt.held {
			t.Errorf("%s: held %v", name, got)
		}
	}
}

// A token has 160 bits, and all of the content goes into it: half of a hash inside would
// let an author find two contents with one token in 2^64 steps, and the twelve digits that
// tokens once had in a minute.
func TestATokenHas160BitsOfTheWholeContent(t *testing.T) {
	binding := confirm.Binding{UID: "a"}
	observed := map[string]bool{}
	for n := range 1000 {
		token := binding.Hash("x", n)
		if len(token) != 40 || binding.Token("x", n) != "x-1-"+token || observed[token[:12]] || observed[token[28:]] {
			t.Fatalf("of %d: %s", n, token)
		}
		observed[token[:12]], observed[token[28:]] = true, true
	}
	if binding.Token("x", 1) == binding.Token("y", 1) {
		t.Error("a token for one purpose serves another")
	}
}

func TestATokenForARelaxedGuardIsBoundToWhatIsLive(t *testing.T) {
	spec := func(uid string, percent int64) state.Item {
		it := thing("sync", 0, object{"spec": object{"percent": percent}})
		it.Live.UID = uid
		return it
	}
	compute := func(live, desired state.Item, confirmation string) plan.Change {
		p := plan.Compute(state.NewSet(desired), state.NewSet(live), func(p plan.Plan) plan.Plan {
			return p.HoldSyncChanges(confirmation, func(plan.Change) []string { return []string{"percent"} })
		})
		return p.Changes[0]
	}
	held := compute(spec("a", 50), spec("a", 90), "")
	token := hold.Join(held.Hold.Tokens(), confirm.Binding{})
	if !held.Hold.NeedsConfirmation() || len(held.Tokens) > 0 {
		t.Fatalf("it is not held: %+v", held)
	}
	for name, tt := range map[string]struct {
		live, desired state.Item
		held          bool
	}{
		"as it was required":                {spec("a", 50), spec("a", 90), false},
		"a person has made it stricter":     {spec("a", 0), spec("a", 90), true},
		"the repository has another number": {spec("a", 50), spec("a", 91), true},
		"it was made anew":                  {spec("b", 50), spec("b", 90), true},
	} {
		c := compute(tt.live, tt.desired, token)
		if c.Hold.NeedsConfirmation() != tt.held || (len(c.Tokens) > 0) == tt.held {
			t.Errorf("%s: held %q, by tokens %v", name, c.Hold, c.Tokens)
		}
	}
}
