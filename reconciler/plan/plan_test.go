package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

type object = map[string]any

func thing(name string, wave int, content object) state.Item {
	if content == nil {
		content = object{"name": name}
	}
	return state.Item{
		Key: state.Key{Target: "kubernetes", Kind: "Thing", Name: name}, Wave: wave, Object: content,
		Live: state.Preconditions{UID: "uid-" + name, ResourceVersion: "1"},
	}
}

func things(prefix string, n int) []state.Item {
	var out []state.Item
	for i := range n {
		out = append(out, thing(fmt.Sprintf("%s-%02d", prefix, i), 0, nil))
	}
	return out
}

// steps writes a plan as one word per change.
func steps(p plan.Plan) []string {
	out := []string{}
	for _, c := range p.Changes {
		s := fmt.Sprintf("%s %s", c.Action, c.Key.Name)
		if c.Drift {
			s += " drift"
		}
		if !c.Admitted() {
			s += " held"
		}
		out = append(out, s)
	}
	return out
}

func TestComputeFindsWhatSeparatesDesiredFromObserved(t *testing.T) {
	applied := func(i state.Item, hashOf object) state.Item {
		i.Applied = state.Hash(hashOf)
		return i
	}
	gone := func(i state.Item) state.Item {
		i.Object = nil
		return i
	}
	a, edited := thing("a", 0, object{"v": int64(1)}), thing("a", 0, object{"v": int64(2)})
	tests := []struct {
		name              string
		desired, observed []state.Item
		want              []string
		managed           int
		unchanged         int
	}{
		{name: "nothing and nothing", want: []string{}},
		{name: "a new thing is created", desired: []state.Item{a}, want: []string{"create a"}},
		{name: "an equal thing needs nothing", desired: []state.Item{a}, observed: []state.Item{a}, want: []string{}, managed: 1, unchanged: 1},
		{name: "a different thing is updated", desired: []state.Item{a}, observed: []state.Item{edited}, want: []string{"update a"}, managed: 1},
		{name: "a thing that is no longer desired is deleted", observed: []state.Item{a}, want: []string{"delete a"}, managed: 1},
		{name: "what was edited by hand is drift", desired: []state.Item{a}, observed: []state.Item{applied(edited, a.Object)}, want: []string{"update a drift"}, managed: 1},
		{name: "what a new revision changes is none", desired: []state.Item{a}, observed: []state.Item{applied(edited, edited.Object)}, want: []string{"update a"}, managed: 1},
		{name: "what was deleted by hand is drift", desired: []state.Item{a}, observed: []state.Item{gone(applied(a, a.Object))}, want: []string{"create a drift"}},
		{name: "what was deleted by hand and is no longer declared is dropped", observed: []state.Item{gone(applied(a, a.Object))}, want: []string{}},
		{
			name:     "all at once",
			desired:  []state.Item{thing("new", 0, nil), thing("same", 0, nil), a},
			observed: []state.Item{thing("old", 0, nil), thing("same", 0, nil), edited},
			want:     []string{"update a", "create new", "delete old"}, managed: 3, unchanged: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.Compute(state.NewSet(tt.desired...), state.NewSet(tt.observed...))
			if d := cmp.Diff(tt.want, steps(p)); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if p.Managed != tt.managed || p.Unchanged != tt.unchanged {
				t.Errorf("%d managed and %d unchanged, want %d and %d", p.Managed, p.Unchanged, tt.managed, tt.unchanged)
			}
			if p.Empty() != (len(tt.want) == 0) {
				t.Errorf("Empty() = %v", p.Empty())
			}
			for _, c := range p.Changes {
				if (c.Before == nil) != (c.Action == plan.Create) || (c.After == nil) != (c.Action == plan.Delete) || (len(c.Fields) > 0) != (c.Action == plan.Update) {
					t.Errorf("%s %s has before %v, after %v, %d fields", c.Action, c.Key, c.Before != nil, c.After != nil, len(c.Fields))
				}
			}
		})
	}
}

func TestChangesAreInTheOrderOfWork(t *testing.T) {
	desired := []state.Item{thing("z", 0, nil), thing("pool", 2, nil), thing("class", 1, nil), thing("a", 2, nil), thing("edited", -1, object{"v": int64(1)})}
	observed := []state.Item{thing("edited", 5, object{"v": int64(2)}), thing("old-class", 1, nil), thing("old-pool", 2, nil), thing("old-ns", 0, nil), thing("old-a", 2, nil)}
	want := []string{
		"update edited", "create z", "create class", "create a", "create pool",
		"delete old-a", "delete old-pool", "delete old-class", "delete old-ns",
	}
	if d := cmp.Diff(want, steps(plan.Compute(state.NewSet(desired...), state.NewSet(observed...)))); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestAChangeHasTheOriginOfItsDeclaration(t *testing.T) {
	i := thing("a", 0, nil)
	i.Origin = state.Origin{File: "a.yaml", Line: 3}
	create, del := plan.Compute(state.NewSet(i), state.Set{}), plan.Compute(state.Set{}, state.NewSet(i))
	if got := create.Changes[0].Origin(); got != i.Origin {
		t.Errorf("creation: %v", got)
	}
	if got := del.Changes[0].Origin(); got != (state.Origin{}) {
		t.Errorf("deletion: %v", got)
	}
}

// scattered are two sets with a bit of everything.
func scattered(r *rand.Rand) (desired, observed []state.Item) {
	for n := range 200 {
		content := object{"n": int64(n), "list": []any{object{"name": "x", "v": int64(n)}}, "labels": object{}}
		for k := range 10 {
			content["labels"].(object)[fmt.Sprintf("k%d", k)] = fmt.Sprint(k * n)
		}
		i := thing(fmt.Sprintf("t-%03d", n), n%4, content)
		i.Key.Namespace = fmt.Sprint("ns", n%3)
		if n%5 != 0 {
			desired = append(desired, i)
		}
		if n%3 != 0 {
			if n%2 == 0 {
				i.Object = object{"n": int64(n), "labels": object{"k1": "edited"}}
			}
			i.Impact = map[bool]string{true: "a node"}[n%7 == 0]
			observed = append(observed, i)
		}
	}
	for _, s := range [][]state.Item{desired, observed} {
		r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	}
	return desired, observed
}

func TestComputeGivesTheSamePlanHoweverItsInputWasFilled(t *testing.T) {
	var first plan.Plan
	for n := range 50 {
		desired, observed := scattered(rand.New(rand.NewPCG(uint64(n), 7)))
		p := plan.Compute(state.NewSet(desired...), state.NewSet(observed...), plan.ReportDrift(), plan.Guard(10, ""))
		if n == 0 {
			first = p
			if len(p.Changes) < 50 || len(holds(p)) == 0 {
				t.Fatalf("%d changes, %d holds: too few to prove anything", len(p.Changes), len(holds(p)))
			}
			continue
		}
		if d := cmp.Diff(first, p); d != "" {
			t.Fatalf("run %d differs:\n%s", n, d)
		}
		if first.Hash() != p.Hash() {
			t.Fatalf("run %d has another hash", n)
		}
	}
}

func TestComputeChangesNeitherItsInputNorAnotherPlan(t *testing.T) {
	desired, observed := scattered(rand.New(rand.NewPCG(1, 1)))
	before := state.Hash([]any{fmt.Sprintf("%+v", desired), fmt.Sprintf("%+v", observed)})
	bare := plan.Compute(state.NewSet(desired...), state.NewSet(observed...))
	unheld := steps(bare)
	for _, policy := range []plan.Policy{plan.Guard(0, ""), plan.NoPrune(), plan.ReportDrift()} {
		policy(bare)
	}
	if d := cmp.Diff(unheld, steps(bare)); d != "" {
		t.Errorf("a policy changed the plan that it was given:\n%s", d)
	}
	if after := state.Hash([]any{fmt.Sprintf("%+v", desired), fmt.Sprintf("%+v", observed)}); before != after {
		t.Error("the input was changed")
	}
}

func TestAPlanFollowedIsAnEmptyPlan(t *testing.T) {
	desired, observed := scattered(rand.New(rand.NewPCG(2, 2)))
	target := map[state.Key]state.Item{}
	for _, o := range observed {
		target[o.Key] = o
	}
	for _, c := range plan.Compute(state.NewSet(desired...), state.NewSet(observed...)).Changes {
		if c.Action == plan.Delete {
			delete(target, c.Key)
			continue
		}
		target[c.Key] = *c.After
	}
	var now []state.Item
	for _, i := range target {
		now = append(now, i)
	}
	if p := plan.Compute(state.NewSet(desired...), state.NewSet(now...)); !p.Empty() || p.Unchanged != len(desired) {
		t.Errorf("left: %v", steps(p))
	}
}

func TestHashChangesWithWhatThePlanWouldDo(t *testing.T) {
	a, b := thing("a", 0, nil), thing("b", 0, nil)
	base := plan.Compute(state.NewSet(a), state.NewSet(b)).Hash()
	edited, reborn := thing("a", 0, object{"v": int64(2)}), b
	reborn.Live.UID = "another"
	newer := b
	newer.Live.ResourceVersion, newer.Object = "2", object{"status": "moved"}
	tests := []struct {
		name   string
		p      plan.Plan
		differ bool
	}{
		{"the same again", plan.Compute(state.NewSet(a), state.NewSet(b)), false},
		{"the deleted thing's status moved", plan.Compute(state.NewSet(a), state.NewSet(newer)), false},
		{"other content", plan.Compute(state.NewSet(edited), state.NewSet(b)), true},
		{"another incarnation would be deleted", plan.Compute(state.NewSet(a), state.NewSet(reborn)), true},
		{"less", plan.Compute(state.NewSet(a), state.Set{}), true},
		{"nothing", plan.Plan{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Hash(); (got != base) != tt.differ || len(got) != 40 || strings.Trim(got, "0123456789abcdef") != "" {
				t.Errorf("hash %q, base %q", got, base)
			}
		})
	}
}

func TestCountCountsHeldChangesToo(t *testing.T) {
	p := plan.Compute(state.NewSet(things("new", 3)...), state.NewSet(things("old", 12)...), plan.Guard(50, ""))
	if p.Count(plan.Create) != 3 || p.Count(plan.Update) != 0 || p.Count(plan.Delete) != 12 || !slices.Contains(steps(p), "delete old-00 held") {
		t.Errorf("plan %v", steps(p))
	}
}

func TestIgnoredFieldsKeepTheirLiveValues(t *testing.T) {
	key := state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}
	object := func(limit, weight string) map[string]any {
		return map[string]any{"spec": map[string]any{"limit": limit, "weight": weight}}
	}
	desired := state.Item{Key: key, Object: object("declared", "1"), CorrectionPolicy: state.CorrectionPolicy{Ignore: []string{"/spec/limit"}}}
	observed := func(object map[string]any, value any, present bool) state.Item {
		return state.Item{Key: key, Object: object, Applied: desired.Hash(), Observation: state.Observation{Ignored: []state.IgnoredValue{{Pointer: "/spec/limit", Value: value, Present: present, Declared: true}}}}
	}
	ignored := []plan.FieldChange{{Path: "spec.limit", Before: "live", After: "declared"}}
	tests := []struct {
		name     string
		observed []state.Item
		changes  []plan.FieldChange // nil for no change
		ignored  []plan.FieldChange
		limit    any // that of the pool as it is planned
	}{
		{"only they differ", []state.Item{observed(object("live", "1"), "live", true)}, nil, ignored, "live"},
		{"another differs as well", []state.Item{observed(object("live", "2"), "live", true)}, []plan.FieldChange{{Path: "spec.weight", Before: "2", After: "1"}}, ignored, "live"},
		{"nothing differs", []state.Item{observed(object("declared", "1"), "declared", true)}, nil, nil, "declared"},
		{"it is missing live", []state.Item{observed(map[string]any{"spec": map[string]any{"weight": "1"}}, nil, false)}, nil, []plan.FieldChange{{Path: "spec.limit", After: "declared"}}, nil},
		{"it is to be created", nil, []plan.FieldChange{}, nil, "declared"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.Compute(state.NewSet(desired), state.NewSet(tt.observed...))
			var changes, fields []plan.FieldChange
			for _, c := range p.Changes {
				changes = append([]plan.FieldChange{}, c.Fields...)
				if c.Drift != (tt.observed != nil) {
					t.Errorf("drift %v", c.Drift)
				}
				if c.Fingerprint().Hash != desired.Hash() {
					t.Error("the change is another by what is live")
				}
			}
			for _, i := range p.Ignored {
				fields = append(fields, i.Fields()...)
			}
			if d := cmp.Diff(tt.changes, changes); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.ignored, fields); d != "" {
				t.Errorf("ignored (-want +got):\n%s", d)
			}
			if got := p.Pools[0].Object["spec"].(map[string]any)["limit"]; got != tt.limit {
				t.Errorf("quotas are computed for a limit of %v", got)
			}
			if _, changed := desired.Object["spec"].(map[string]any)["limit"]; !changed || len(desired.Object["spec"].(map[string]any)) != 2 {
				t.Error("what is desired is changed")
			}
		})
	}
}
