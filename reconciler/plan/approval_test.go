package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// costing is a thing whose deletion takes so many nodes along, after a deletion of it
// was allowed.
func costing(name string, nodes int, allowed *loss.Approval) state.Item {
	item := thing(name, 0, nil)
	item.Allowed = allowed
	if nodes > 0 {
		item.Impact, item.Losses = "nodes", loss.Counts{"Node": nodes}
	}
	return item
}

// earlier is the digest of a token by which a deletion was allowed before, and quoting a
// confirmation that quotes it still.
const earlier = "1"

func quoting() string { return confirm.Binding{}.Token("deletions", earlier) }

func TestAnAllowanceIsWorthWhatItAllowed(t *testing.T) {
	some := func(nodes int, confirmed bool) *loss.Approval {
		out := &loss.Approval{Losses: loss.Counts{"Node": nodes}}
		if confirmed {
			out.Digest = earlier
		}
		return out
	}
	for _, tt := range []struct {
		name string
		item state.Item
		held bool
	}{
		{"a deletion with losses that nobody allowed waits", costing("x", 3, nil), true},
		{"one that was confirmed goes on", costing("x", 3, some(3, true)), false},
		{"with fewer nodes, too", costing("x", 1, some(3, true)), false},
		{"with more nodes it requires a token again", costing("x", 4, some(3, true)), true},
		{"one that was let pass when nothing went with it requires a token", costing("x", 1, some(0, false)), true},
		{"and so it does when that was confirmed, of many", costing("x", 1, some(0, true)), true},
		{"what was only let pass is not confirmed", costing("x", 3, some(3, false)), true},
		{"an ordinary one goes on", costing("x", 0, some(0, false)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := things("kept", 3)
			for how, policy := range map[string]plan.Policy{"guard": plan.Guard(50, quoting()), "losses": plan.ConfirmLosses(quoting())} {
				p := plan.Compute(state.NewSet(kept...), state.NewSet(append(kept, tt.item)...), policy)
				if got := heldCount(p) > 0; got != tt.held {
					t.Errorf("%s: held %v", how, got)
				}
			}
		})
	}
}

// Nine deletions a commit, refused again and again by what they need: each commit alone
// is below the guard.
func TestDeletionsThatGatherUnconfirmedAreConfirmedTogether(t *testing.T) {
	kept := things("kept", 5)
	var old []state.Item
	for _, item := range things("first", 9) {
		item.Allowed = &loss.Approval{}
		old = append(old, item)
	}
	p := plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, ""))
	if heldCount(p) != 0 {
		t.Fatalf("what was allowed is asked for: %v", holds(p))
	}
	old = append(old, things("second", 9)...)
	p = plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, ""))
	for _, c := range p.Changes {
		if second := strings.HasPrefix(c.Key.Name, "second"); second != (!c.Admitted()) {
			t.Errorf("%s: held %q", c.Key.Name, c.Hold)
		}
	}
	if len(holds(p)) != 1 || !strings.HasPrefix(holds(p)[0], "would delete 18 of 23 objects") {
		t.Errorf("reasons %v", holds(p))
	}
}

// A prune that the guard lets pass, cut off anywhere, never asks for the rest: what is
// left is a smaller share of less.
func TestAPruneThatIsCutOffNeedsNoNewConfirmation(t *testing.T) {
	for all := 2; all < 30; all++ {
		for deleted := 1; deleted < all; deleted++ {
			kept := things("kept", all-deleted)
			left := func(n int, allowed *loss.Approval) plan.Plan {
				old := things("old", n)
				for i := range old {
					old[i].Allowed = allowed
				}
				return plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, ""))
			}
			if heldCount(left(deleted, nil)) > 0 {
				continue
			}
			for n := range deleted {
				if p := left(n, &loss.Approval{}); heldCount(p) > 0 {
					t.Fatalf("%d of %d, %d are left: %v", deleted, all, n, holds(p))
				}
			}
		}
	}
}

func TestWhatIsRecordedOfADeletionIsWhatWasAllowed(t *testing.T) {
	three := &loss.Approval{Losses: loss.Counts{"Node": 3}, Digest: earlier}
	many := &loss.Approval{Losses: loss.Counts{"Node": 60}, Digest: earlier} // a fifth more than the 50 that were confirmed
	for _, tt := range []struct {
		name   string
		item   state.Item
		report bool // its token
		want   *loss.Approval
	}{
		{"no token required: nothing goes with it", costing("x", 0, nil), false, &loss.Approval{}},
		{"a token was required", costing("x", 3, nil), true, &loss.Approval{Losses: three.Losses, Number: 1, Quoted: three.Losses}},
		{"fewer are left: the first token counts", costing("x", 1, three), false, three},
		{"a few more than a person was shown add up to no more", costing("x", 58, many), false, many},
		{"many more, which the token names", costing("x", 90, many), true, &loss.Approval{Losses: loss.Counts{"Node": 108}, Number: 1, Quoted: loss.Counts{"Node": 90}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := things("kept", 3)
			compute := func(token string) plan.Plan {
				return plan.Compute(state.NewSet(kept...), state.NewSet(append(kept, tt.item)...), plan.Guard(50, token))
			}
			p := compute(quoting())
			if tt.report {
				tt.want.Digest = p.Changes[0].Hold.Tokens()[0].Digest
				p = compute(deletionsOf(p))
			}
			if !p.Changes[0].Admitted() {
				t.Fatal(holds(p))
			}
			if d := cmp.Diff(tt.want, p.Changes[0].Approval()); d != "" {
				t.Errorf("remembered (-want +got):\n%s", d)
			}
		})
	}
}

// What has come since a person read the token is not what is remembered as allowed: the
// fifth that a token is good for is added once, to what it says.
func TestATokenAllowsWhatItNames(t *testing.T) {
	kept := things("kept", 3)
	compute := func(nodes int, token string) plan.Plan {
		return plan.Compute(state.NewSet(kept...), state.NewSet(append(kept, costing("x", nodes, nil))...), plan.Guard(50, token))
	}
	requested := compute(50, "")
	token := deletionsOf(requested)
	p := compute(58, token)
	want := &loss.Approval{Losses: loss.Counts{"Node": 60}, Digest: requested.Changes[0].Hold.Tokens()[0].Digest, Number: 1, Quoted: loss.Counts{"Node": 58}}
	if d := cmp.Diff(want, p.Changes[0].Approval()); d != "" || heldCount(p) > 0 {
		t.Errorf("held %v, remembered (-want +got):\n%s", holds(p), d)
	}
	if heldCount(compute(61, token)) == 0 {
		t.Error("61 nodes go with the token of 50")
	}
}

// Each pool may have as many nodes more as its share of the fifth that is added to the
// sum of all, so that no number of pools adds up to more.
func TestManyDeletionsShareOneFifth(t *testing.T) {
	kept := things("kept", 40)
	compute := func(token string, nodes func(int) int) plan.Plan {
		all := kept
		for i := range 10 {
			all = append(all, costing(fmt.Sprintf("pool-%d", i), nodes(i), nil))
		}
		return plan.Compute(state.NewSet(kept...), state.NewSet(all...), plan.Guard(50, token))
	}
	for _, tt := range []struct {
		name      string
		then, now func(int) int
		requested int
	}{
		{"a few more by now", func(i int) int { return 4 + i/8 }, func(int) int { return 5 }, 42},
		{"the same", func(int) int { return 5 }, func(int) int { return 5 }, 50},
		{"fewer", func(int) int { return 9 }, func(i int) int { return 1 + i%2 }, 90},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := compute(deletionsOf(compute("", tt.then)), tt.now)
			most := 0
			for _, c := range p.Changes {
				if !c.Admitted() || !c.Approval().Covers(c.Before.EffectiveLosses()) {
					t.Fatalf("%s: held %q, allowed %v", c.Key, c.Hold, c.Approval())
				}
				n := 0
				for c.Approval().Covers(loss.Counts{"Node": n + 1}) {
					n++
				}
				most += n
			}
			if most > tt.requested+tt.requested/5 {
				t.Errorf("%d nodes were confirmed, and %d may go", tt.requested, most)
			}
		})
	}
}

// The token that a plan prints is still good when what nobody need allow is gone.
func TestATokenOutlivesTheDeletionsThatItIsNotFor(t *testing.T) {
	kept, pool := things("kept", 9), costing("pool", 3, nil)
	compute := func(token string, old ...state.Item) plan.Plan {
		return plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, token))
	}
	first := compute("", append(things("old", 4), pool)...)
	token := deletionsOf(first)
	if first.Confirmation() != token {
		t.Fatalf("it asks for %s, not %s", first.Confirmation(), token)
	}
	if later := compute("", pool); later.Confirmation() != token {
		t.Errorf("a second later it asks for %s", later.Confirmation())
	}
	if confirmed := compute(token, pool); heldCount(confirmed) > 0 || deletionsOf(confirmed) != token {
		t.Errorf("the token confirms nothing: %v", holds(confirmed))
	}
}

// queued is a Cluster with an interruption queue of that name, or without one.
func queued(name string) state.Item {
	spec := object{"region": "eu-west-1"}
	if name != "" {
		spec["interruptionQueue"] = object{"name": name}
	}
	return state.Item{Key: state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "c"}, Object: object{"spec": spec}}
}

func TestAPartIsNotTakenAwayWhileTheDeletionOfWhatItUsesWaits(t *testing.T) {
	part := loss.FieldRef{Group: "poolwright.dev", Kind: "Cluster", Field: "spec.interruptionQueue"}
	queue := inAWS("queue", nil)
	queue.Impact, queue.Losses, queue.UsedBy = "nodes", loss.Counts{"Node": 3}, part
	ordinary, lost := queue, unknown(queue, "denied")
	ordinary.Impact, ordinary.Losses, lost.UsedBy = "", nil, part
	stays := thing("kept", 0, nil)
	for _, tt := range []struct {
		name     string
		is, was  state.Item
		observed state.Item
		policies []plan.Policy
		held     bool
	}{
		{name: "the part is taken away", was: queued("a"), is: queued(""), observed: queue, held: true},
		{name: "the part is made null", was: queued("a"), is: state.Item{Key: queued("").Key, Object: object{"spec": object{"region": "eu-west-1", "interruptionQueue": nil}}}, observed: queue, held: true},
		{name: "with the whole Cluster", was: queued("a"), is: stays, observed: queue, held: true},
		{name: "it is unknown whether it is there", was: queued("a"), is: queued(""), observed: lost, held: true},
		{name: "another takes its place", was: queued("a"), is: queued("b"), observed: queue},
		{name: "its deletion waits for nobody", was: queued("a"), is: queued(""), observed: ordinary},
		{name: "nothing of it is deleted", was: queued("a"), is: queued(""), observed: queue, policies: []plan.Policy{plan.NoPrune()}},
		{name: "it is read-only", was: queued("a"), is: queued(""), observed: queue, policies: []plan.Policy{plan.ReportTarget("aws")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			compute := func(token string) (plan.Change, plan.Plan) {
				p := plan.Compute(state.NewSet(tt.is, stays), state.NewSet(tt.was, stays, tt.observed), append(tt.policies, plan.Guard(50, token))...)
				for _, c := range p.Changes {
					if c.Key.Kind == "Cluster" {
						return c, p
					}
				}
				t.Fatal("the Cluster does not change")
				return plan.Change{}, p
			}
			c, p := compute("")
			if c.HeldForDependent() != tt.held || (!c.Admitted()) != tt.held {
				t.Errorf("held by %v: %q", c.Hold.Rules(), c.Hold)
			}
			if tt.observed.Unknown != "" {
				return
			}
			if c, _ := compute(deletionsOf(p)); !c.Admitted() {
				t.Errorf("confirmed, it is held: %q", c.Hold)
			}
			if !tt.held {
				return
			}
			why := c.Hold
			c.Hold = nil
			alone := plan.Plan{Changes: []plan.Change{c}}
			if again := alone.KeepDependentHolds(map[state.Key]hold.Reasons{c.Key: why}); !again.Changes[0].HeldForDependent() {
				t.Error("looked at by itself, it is let pass")
			}
		})
	}
}

// Three deletions that take the same node along lose one node: that is what a person is
// asked for, and each of them may go.
func TestWhatSeveralDeletionsTakeAlongIsConfirmedOnce(t *testing.T) {
	kept, names := things("kept", 9), loss.Names{}
	names.Add("Node", "a")
	var old []state.Item
	for i := range 3 {
		item := thing(fmt.Sprintf("part-%d", i), 0, nil)
		item.DeletionImpact = names.DeletionImpact("1 node goes with it")
		old = append(old, item)
	}
	compute := func(confirmation string) plan.Plan {
		return plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, confirmation))
	}
	requested := compute("")
	if token := requested.Confirmation(); !strings.HasSuffix(token, "+1Node") {
		t.Fatalf("it asks for %s", token)
	}
	p := compute(requested.Confirmation())
	for _, c := range p.Changes {
		if !c.Admitted() || !c.Approval().Covers(c.Before.EffectiveLosses()) {
			t.Errorf("confirmed, %s is held: %v, allowed %v", c.Key, c.Hold, c.Approval())
		}
	}
	// Another node that one of them takes along is asked for.
	more := loss.Names{}
	more.Add("Node", "a")
	more.Add("Node", "b")
	old[1].DeletionImpact = more.DeletionImpact("2 nodes go with it")
	if p := compute(requested.Confirmation()); heldCount(p) != 3 || !strings.HasSuffix(p.Confirmation(), "+2Node") {
		t.Errorf("with another node %d are held, and it asks for %s", heldCount(p), p.Confirmation())
	}
}

// What a person confirmed and is not sent yet can be taken back as it was confirmed.
func TestADeletionWhoseConfirmationIsTakenBackNeedsAnother(t *testing.T) {
	used := confirm.Binding{}.Use(quoting())
	many := func(allowed *loss.Approval) (out []state.Item) {
		for _, item := range things("old", 12) {
			item.Allowed = allowed
			out = append(out, item)
		}
		return out
	}
	by := func(nodes int) *loss.Approval {
		return &loss.Approval{Losses: loss.Counts{"Node": nodes}, Digest: earlier, Quoted: loss.Counts{"Node": nodes}}
	}
	for _, tt := range []struct {
		name         string
		old          []state.Item
		confirmation string
		in           confirm.Binding
		held, tokens int
	}{
		{name: "the token is quoted", old: []state.Item{costing("x", 3, by(3))}, confirmation: quoting() + "+3Node", tokens: 1},
		{name: "the token for the engine is quoted", old: []state.Item{costing("x", 3, by(3))}, confirmation: confirm.Binding{}.Token(confirm.Engine, earlier) + "+3Node", tokens: 1},
		{name: "a token for nodes of that digest is quoted", old: []state.Item{costing("x", 3, by(3))}, confirmation: confirm.Binding{}.Token("nodes", earlier) + "+3Node", held: 1},
		{name: "the annotation is gone", old: []state.Item{costing("x", 3, by(3))}, held: 1},
		{name: "it quotes another token", old: []state.Item{costing("x", 3, by(3))}, confirmation: confirm.Binding{}.Token("deletions", "2") + "+3Node", held: 1},
		{name: "it quotes fewer nodes", old: []state.Item{costing("x", 3, by(3))}, confirmation: quoting() + "+2Node", held: 1},
		{name: "the token is used up", old: []state.Item{costing("x", 3, by(3))}, confirmation: quoting() + "+3Node", in: used, held: 1},
		{name: "nothing goes with it any more", old: []state.Item{costing("x", 0, by(3))}, held: 1},
		{name: "a few that are left of many", old: many(by(0))[:3], held: 3},
		{name: "of many, the token is quoted", old: many(by(0))[:3], confirmation: quoting(), tokens: 3},
		{name: "no guard required a token", old: []state.Item{costing("x", 0, &loss.Approval{})}},
		{name: "nor for many", old: many(&loss.Approval{})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := things("kept", 5)
			for how, policy := range map[string]plan.Policy{"guard": plan.Guard(50, tt.confirmation), "losses": plan.ConfirmLosses(tt.confirmation)} {
				in := func(p plan.Plan) plan.Plan { p.Binding = tt.in; return p }
				compute := func(more ...plan.Policy) plan.Plan {
					return plan.Compute(state.NewSet(kept...), state.NewSet(append(slices.Clone(kept), tt.old...)...), append([]plan.Policy{in}, more...)...)
				}
				p := compute(policy)
				tokens := 0
				for _, c := range p.Changes {
					tokens += len(c.Tokens)
				}
				if heldCount(p) != tt.held || tokens != tt.tokens {
					t.Errorf("%s: %d held, %d with a token: %v", how, heldCount(p), tokens, holds(p))
				}
				if tt.held == 0 {
					continue
				}
				if again := compute(plan.Guard(50, p.Confirmation())); heldCount(again) > 0 {
					t.Errorf("%s: confirmed by %s, it waits: %v", how, p.Confirmation(), holds(again))
				}
			}
		})
	}
}

// What could not be compared may still be there to be deleted, and what is read-only is not deleted.
func TestTheApprovalOfWhatIsNoLongerDeletedIsRevoked(t *testing.T) {
	allowed := costing("x", 3, &loss.Approval{Losses: loss.Counts{"Node": 3}, Digest: earlier, Quoted: loss.Counts{"Node": 3}})
	unknown, compared := allowed, allowed
	unknown.Unknown = "the list was denied"
	compared.ReadOnly = "it is not to be pruned"
	kept := things("kept", 5)
	for _, tt := range []struct {
		name   string
		item   state.Item
		policy plan.Policy
		want   int
	}{
		{"it is deleted", allowed, plan.Guard(50, quoting()+"+3Node"), 0},
		{"its confirmation is gone", allowed, plan.Guard(50, ""), 0},
		{"nothing is pruned", allowed, plan.NoPrune(), 1},
		{"it is unknown", unknown, plan.Guard(50, quoting()+"+3Node"), 0},
		{"it is unknown and nothing is pruned", unknown, plan.NoPrune(), 0},
		{"it is read-only", compared, plan.Guard(50, quoting()+"+3Node"), 1},
	} {
		observed := state.NewSet(append(slices.Clone(kept), tt.item)...)
		p := plan.Compute(state.NewSet(kept...), observed, tt.policy)
		if got := p.RevokedApprovals(observed); len(got) != tt.want {
			t.Errorf("%s: revoked %v", tt.name, got)
		}
		for _, c := range p.Changes {
			if c.ReadOnly() && len(c.Tokens) > 0 {
				t.Errorf("%s: %s, which is read-only, has a token", tt.name, c.Key)
			}
		}
	}
}
