package reconciler_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// poolTarget is a target of pools, classes and ConfigMaps, each Kind/name, that remembers
// what it applied.
type poolTarget struct {
	live, applied map[string]string
	writes        []string
}

func newPoolTarget(live ...string) *poolTarget {
	f := &poolTarget{live: map[string]string{}, applied: map[string]string{}}
	for _, what := range live {
		name, value, _ := strings.Cut(what, "=")
		f.live[name], f.applied[name] = value, value
	}
	return f
}

func keyOf(what string) state.Key {
	kind, name, _ := strings.Cut(what, "/")
	group := map[string]string{"NodePool": "karpenter.sh", "NodeOverlay": "karpenter.sh", "EC2NodeClass": "karpenter.k8s.aws"}[kind]
	return state.Key{Target: "kubernetes", Group: group, Kind: kind, Name: name}
}

func valued(what, value string) state.Item {
	return state.Item{Key: keyOf(what), Object: map[string]any{"value": value}}
}

func nameOf(k state.Key) string { return k.Kind + "/" + k.Name }

// declaring is what a revision says: things as Kind/name=value.
func declaring(things ...string) declared.Declared {
	var items []state.Item
	for _, what := range things {
		name, value, _ := strings.Cut(what, "=")
		items = append(items, valued(name, value))
	}
	return declared.Declared{Set: state.NewSet(items...)}
}

func (f *poolTarget) Desired(_ context.Context, d state.Set) (state.Set, error) { return d, nil }

func (f *poolTarget) Observe(context.Context, state.Set) (state.Set, error) {
	var items []state.Item
	for name, value := range f.live {
		i := valued(name, value)
		if applied, ours := f.applied[name]; ours {
			i.Applied = state.Hash(map[string]any{"value": applied})
		}
		items = append(items, i)
	}
	return state.NewSet(items...), nil
}

func (f *poolTarget) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := f.Observe(ctx, desired)
	var keys []state.Key
	for _, i := range desired.Items() {
		keys = append(keys, i.Key)
	}
	return all.Only(keys), err
}

func (f *poolTarget) Apply(_ context.Context, c plan.Change) error {
	name := nameOf(c.Key)
	f.writes = append(f.writes, string(c.Action)+" "+name)
	if c.Action == plan.Delete {
		delete(f.live, name)
		return nil
	}
	f.live[name] = c.After.Object["value"].(string)
	f.applied[name] = f.live[name]
	return nil
}

// guard holds everything that costs nodes, four for each change, above its limit, and
// remembers what it was asked.
type guard struct {
	limit     int
	requested [][]string
	// desired is how many pools, classes and overlays it was given as desired.
	desired int
}

func (g *guard) hold(_ context.Context, p plan.Plan) plan.Plan {
	return p.GuardNodes(&g.limit, nil, "", func([]plan.Change) hold.Nodes {
		var names []string
		for _, c := range p.Guarded() {
			names = append(names, nameOf(c.Key))
		}
		g.requested, g.desired = append(g.requested, names), len(p.Desired)
		return hold.Nodes{Replaced: 4 * len(names)}
	})
}

// guarded is a loop over the target, and how a run of it is guarded.
func (f *poolTarget) guarded(source *source, revs revisions, g *guard) (*reconciler.Loop, reconciler.Options) {
	opts := one
	opts.Guard = g.hold
	return reconciler.NewLoop(source, revs.load, reconciler.NamedTarget{Name: "kubernetes", Target: f}), opts
}

func stillHeld(r reconciler.Result) []string {
	var out []string
	for _, c := range r.Plan.Changes {
		if c.Hold.Nodes() {
			out = append(out, nameOf(c.Key))
		}
	}
	return out
}

var rollout = revisions{"r2": declaring("NodePool/a=2", "NodePool/b=2", "NodePool/calm=1", "NodePool/new=1", "ConfigMap/m=2")}

func twoPools() *poolTarget {
	return newPoolTarget("NodePool/a=1", "NodePool/b=1", "NodePool/calm=1", "ConfigMap/m=1", "ConfigMap/old=1")
}

func TestAWatchEventDoesNotApplyWhatIsHeldWithTheWhole(t *testing.T) {
	f, g := twoPools(), &guard{limit: 5}
	loop, opts := f.guarded(&source{revision: "r2"}, rollout, g)
	if _, err := loop.RunOnce(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	g.requested, f.writes, f.live["NodePool/a"] = nil, nil, "edited"
	// One pool alone would cost four nodes, and pass.
	result, err := loop.CorrectDrift(t.Context(), []state.Key{keyOf("NodePool/a")}, opts)
	if err != nil || len(f.writes) != 0 {
		t.Errorf("wrote %v, %v", f.writes, err)
	}
	if d := cmp.Diff([]string{"NodePool/a"}, stillHeld(result)); d != "" || len(g.requested) != 0 {
		t.Errorf("stillHeld (-want +got):\n%s, asked about %v", d, g.requested)
	}
	if !strings.HasPrefix(result.Plan.Reasons().String(), "would replace 8 nodes; ") {
		t.Errorf("reasons %q, want that of the whole", result.Plan.Reasons())
	}
}

func TestWhatCostsTooManyNodesWaitsAndNothingElse(t *testing.T) {
	f, g := twoPools(), &guard{limit: 5}
	loop, opts := f.guarded(&source{revision: "r2"}, rollout, g)
	got, err := loop.Plan(t.Context(), opts)
	if err != nil || len(f.writes) != 0 {
		t.Fatalf("Plan wrote %v, %v", f.writes, err)
	}
	result, err := loop.RunOnce(t.Context(), opts)
	if err != nil || result.Outcome.Err() != nil {
		t.Fatal(err, result.Outcome.Err())
	}
	if d := cmp.Diff([]string{"create NodePool/new", "update ConfigMap/m"}, slices.Sorted(slices.Values(f.writes))); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"NodePool/a", "NodePool/b"}, stillHeld(result)); d != "" {
		t.Errorf("stillHeld (-want +got):\n%s", d)
	}
	if d := cmp.Diff(got.Plan.Reasons(), result.Plan.Reasons()); d != "" || len(stillHeld(got)) != 2 {
		t.Errorf("held as shown (-shown +run):\n%s", d)
	}
	if f.live["ConfigMap/old"] == "" {
		t.Error("what a held pool may still need was deleted")
	}

	// Another life knows nothing of it, and comes to the same.
	again, same := f.guarded(&source{revision: "r2"}, rollout, &guard{limit: 5})
	f.writes = nil
	after, err := again.RunOnce(t.Context(), same)
	if err != nil || len(f.writes) != 0 {
		t.Errorf("after a restart: wrote %v, %v", f.writes, err)
	}
	if d := cmp.Diff(result.Plan.Reasons(), after.Plan.Reasons()); d != "" {
		t.Errorf("reasons after a restart (-before +after):\n%s", d)
	}

	// Once it passes, a watch may put it back like anything else.
	g.limit = 8
	if _, err := loop.RunOnce(t.Context(), opts); err != nil || f.live["NodePool/a"] != "2" || f.live["NodePool/b"] != "2" || f.live["ConfigMap/old"] != "" {
		t.Errorf("live %v, %v", f.live, err)
	}
	g.requested, f.live["NodePool/a"] = nil, "edited"
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{keyOf("NodePool/a")}, opts); err != nil || f.live["NodePool/a"] != "2" || len(g.requested) != 0 {
		t.Errorf("live %v, asked about %v, %v", f.live, g.requested, err)
	}
}

func TestNodesAreCountedOnlyWhereARevisionCostsAny(t *testing.T) {
	for name, c := range map[string]struct {
		to        []string
		edit      func(f *poolTarget)
		requested [][]string
	}{
		"nothing changed":                  {to: []string{"NodePool/a=1", "ConfigMap/m=1"}},
		"other objects change":             {to: []string{"NodePool/a=1", "ConfigMap/m=2"}},
		"a pool was changed by hand":       {to: []string{"NodePool/a=1", "ConfigMap/m=1"}, edit: func(f *poolTarget) { f.live["NodePool/a"] = "edited" }},
		"a pool was deleted by hand":       {to: []string{"NodePool/a=1", "ConfigMap/m=1"}, edit: func(f *poolTarget) { delete(f.live, "NodePool/a") }},
		"a pool comes":                     {to: []string{"NodePool/a=1", "NodePool/b=1", "EC2NodeClass/b=1", "ConfigMap/m=1"}},
		"a pool changes":                   {to: []string{"NodePool/a=2", "ConfigMap/m=1"}, requested: [][]string{{"NodePool/a"}}},
		"a pool goes":                      {to: []string{"ConfigMap/m=1"}, requested: [][]string{{"NodePool/a"}}},
		"a class and an overlay beside it": {to: []string{"NodePool/a=1", "NodeOverlay/o=1", "ConfigMap/m=2"}, requested: [][]string{{"NodeOverlay/o"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := newPoolTarget("NodePool/a=1", "ConfigMap/m=1"), &guard{limit: 100}
			if c.edit != nil {
				c.edit(f)
			}
			loop, opts := f.guarded(&source{revision: "r"}, revisions{"r": declaring(c.to...)}, g)
			if _, err := loop.RunOnce(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.requested, g.requested); d != "" {
				t.Errorf("asked about (-want +got):\n%s", d)
			}
			requested := len(g.requested)
			for range 3 {
				if result, err := loop.RunOnce(t.Context(), opts); err != nil || !result.Plan.Empty() || len(g.requested) != requested {
					t.Errorf("a run without change: %v, asked about %v", err, g.requested[requested:])
				}
			}
		})
	}
}

func TestCorrectGuardsWhatIsNoDriftAndWasNotPlanned(t *testing.T) {
	for name, c := range map[string]struct {
		limit     int
		requested [][]string
		live      string
	}{
		"it passes":  {limit: 4, requested: [][]string{{"NodePool/a"}}, live: "1"},
		"it is held": {limit: 3, requested: [][]string{{"NodePool/a"}}, live: "edited"},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := newPoolTarget("NodePool/a=1", "NodePool/b=1", "ConfigMap/m=1"), &guard{limit: c.limit}
			loop, opts := f.guarded(&source{revision: "r"}, revisions{"r": declaring("NodePool/a=1", "NodePool/b=1", "ConfigMap/m=1")}, g)
			if _, err := loop.RunOnce(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			// Nobody knows any more what we applied.
			f.live["NodePool/a"], f.live["ConfigMap/m"] = "edited", "edited"
			delete(f.applied, "NodePool/a")
			if _, err := loop.CorrectDrift(t.Context(), []state.Key{keyOf("NodePool/a"), keyOf("ConfigMap/m")}, opts); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.requested, g.requested); d != "" {
				t.Errorf("asked about (-want +got):\n%s", d)
			}
			if g.desired != 2 {
				t.Errorf("%d pools are said to be desired, of two", g.desired)
			}
			if f.live["NodePool/a"] != c.live || f.live["ConfigMap/m"] != "1" {
				t.Errorf("live %v", f.live)
			}
		})
	}
}

func TestGivingUpASourceNeedsNoGuardOfNodes(t *testing.T) {
	f, g := newPoolTarget("NodePool/a=1"), &guard{}
	loop, opts := f.guarded(&source{}, nil, g)
	if _, err := loop.Finalize(t.Context(), opts); err != nil || len(g.requested) != 0 || len(f.live) != 0 {
		t.Errorf("live %v, asked about %v, %v", f.live, g.requested, err)
	}
}
