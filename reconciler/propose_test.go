package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// recordingTarget is a target that refuses what has the value "wrong", puts what has no
// namespace into "default", and is only to be observed by what it was asked last.
type recordingTarget struct {
	name      string
	live      []state.Item
	requested *[]string
	last      state.Set
	fail      map[string]error
}

func (w *recordingTarget) record(verb string) error {
	*w.requested = append(*w.requested, verb+" "+w.name)
	return w.fail[verb]
}

func (w *recordingTarget) Desired(_ context.Context, d state.Set) (state.Set, error) {
	if err := w.record("want"); err != nil {
		return state.Set{}, err
	}
	var items []state.Item
	var problems []state.Problem
	for _, i := range d.Items() {
		if i.Key.Target != w.name {
			continue
		}
		if i.Object["value"] == "wrong" {
			problems = append(problems, state.Problem{Origin: i.Origin, Message: i.Key.Name + " is wrong"})
			continue
		}
		if i.Key.Namespace == "" {
			i.Key.Namespace = "default"
		}
		items = append(items, i)
		if i.Key.Kind == "DevicePlugin" {
			i.Key.Kind = "DaemonSet"
			items = append(items, i)
		}
	}
	w.last = state.NewSet(items...)
	if len(problems) > 0 {
		return w.last, &targets.ProblemsError{Problems: problems}
	}
	return w.last, nil
}

func (w *recordingTarget) Observe(_ context.Context, desired state.Set) (state.Set, error) {
	if err := w.record("observe"); err != nil {
		return state.Set{}, err
	}
	if d := cmp.Diff(w.last.Items(), desired.Items()); d != "" {
		return state.Set{}, fmt.Errorf("asked for something else: %s", d)
	}
	return state.NewSet(w.live...), nil
}

func (w *recordingTarget) Apply(context.Context, plan.Change) error { return w.record("correct") }

func (w *recordingTarget) key(kind, name string) state.Key {
	return state.Key{Target: w.name, Kind: kind, Name: name}
}

// declare declares things of this target, by names and values.
func (w *recordingTarget) declare(kind string, pairs ...string) []state.Item {
	var out []state.Item
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, state.Item{
			Key: w.key(kind, pairs[i]), Object: map[string]any{"value": pairs[i+1]}, Origin: state.Origin{File: pairs[i] + ".yaml", Line: 1},
		})
	}
	return out
}

// has makes the things live, as they were applied.
func (w *recordingTarget) has(items ...state.Item) {
	for _, i := range items {
		i.Key.Namespace, i.Origin = "default", state.Origin{}
		i.Applied, i.Live = state.Hash(i.Object), state.Preconditions{UID: i.Key.Name}
		w.live = append(w.live, i)
	}
}

// recordingTargets are two targets with one journal.
func recordingTargets() (aws, cluster *recordingTarget, requested *[]string) {
	requested = &[]string{}
	return &recordingTarget{name: "aws", requested: requested}, &recordingTarget{name: "kubernetes", requested: requested}, requested
}

func namedTargets(all ...*recordingTarget) []reconciler.NamedTarget {
	var out []reconciler.NamedTarget
	for _, w := range all {
		out = append(out, reconciler.NamedTarget{Name: w.name, Target: w})
	}
	return out
}

func lines(p plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s %s", c.Action, c.Key.Target, c.Key.Name)
		if !c.Admitted() {
			line += ": held"
		}
		out = append(out, line)
	}
	return out
}

func TestAProposalReadsEachTargetForBothRevisionsAndChangesNothing(t *testing.T) {
	aws, cluster, requested := recordingTargets()
	before := of(aws.declare("Role", "role", "1"), cluster.declare("Pool", "pool", "1", "drifted", "1", "old", "1"))
	after := of(aws.declare("Role", "role", "2"), cluster.declare("Pool", "pool", "1", "drifted", "1", "new", "1"))
	aws.has(aws.declare("Role", "role", "1")...)
	cluster.has(cluster.declare("Pool", "pool", "1", "drifted", "9", "old", "1")...)
	got, err := reconciler.Propose(t.Context(), before, after, false, namedTargets(aws, cluster))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"update aws role", "create kubernetes new", "delete kubernetes old"}, lines(got.Proposed)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"update kubernetes drifted"}, lines(got.Drift)); d != "" {
		t.Error(d)
	}
	want := []string{
		"want aws", "observe aws", "want kubernetes", "observe kubernetes",
		"want aws", "observe aws", "want kubernetes", "observe kubernetes",
	}
	if d := cmp.Diff(want, *requested); d != "" {
		t.Error(d)
	}
	if got.Problems != nil || got.ExistingProblems != nil {
		t.Errorf("problems %v, old %v", got.Problems, got.ExistingProblems)
	}
}

func TestOfflineAProposalNeedsOnlyWhatIsDesired(t *testing.T) {
	aws, cluster, requested := recordingTargets()
	before, after := of(cluster.declare("Pool", "pool", "1", "old", "1")), of(aws.declare("Role", "role", "1"), cluster.declare("Pool", "pool", "2"))
	got, err := reconciler.Propose(t.Context(), before, after, true, namedTargets(aws, cluster), plan.NoPrune())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"create aws role", "update kubernetes pool", "delete kubernetes old: held"}, lines(got.Proposed)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"want aws", "want kubernetes", "want aws", "want kubernetes"}, *requested); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(plan.Plan{}, got.Drift); d != "" {
		t.Error(d)
	}
}

func TestAProposalNamesWhichProblemsAreOld(t *testing.T) {
	_, cluster, _ := recordingTargets()
	problem := func(file string, line int, message string) state.Problem {
		return state.Problem{Origin: state.Origin{File: file, Line: line}, Message: message}
	}
	before := declared.Declared{
		Set:      state.NewSet(cluster.declare("Pool", "kept", "1", "gone", "1", "worse", "1", "always", "wrong")...),
		Problems: []state.Problem{problem("a.yaml", 3, "not YAML"), problem("b.yaml", 1, "mended")},
	}
	after := declared.Declared{
		Set:      state.NewSet(cluster.declare("Pool", "kept", "1", "worse", "wrong", "always", "wrong")...),
		Problems: []state.Problem{problem("a.yaml", 9, "not YAML"), problem("c.yaml", 3, "not YAML")},
	}
	cluster.has(cluster.declare("Pool", "kept", "1", "gone", "1", "worse", "1")...)
	for _, offline := range []bool{false, true} {
		got, err := reconciler.Propose(t.Context(), before, after, offline, namedTargets(cluster))
		if err != nil {
			t.Fatal(err)
		}
		all := []state.Problem{
			problem("a.yaml", 9, "not YAML"), problem("c.yaml", 3, "not YAML"),
			problem("always.yaml", 1, "always is wrong"), problem("worse.yaml", 1, "worse is wrong"),
		}
		if d := cmp.Diff(all, got.Problems); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]state.Problem{all[0], all[2]}, got.ExistingProblems); d != "" {
			t.Error(d)
		}
		// What is declared with a problem is not removed, and what is removed waits.
		if d := cmp.Diff([]string{"delete kubernetes gone: held"}, lines(got.Proposed)); d != "" {
			t.Error(d)
		}
	}
	if len(before.Problems) != 2 || len(after.Problems) != 2 {
		t.Error("the revisions were changed")
	}
}

func TestWhatADevicePluginStandsForSharesItsProblem(t *testing.T) {
	_, cluster, _ := recordingTargets()
	before := of(cluster.declare("DevicePlugin", "gpus", "1"), cluster.declare("Pool", "gone", "1"))
	after := of(cluster.declare("DevicePlugin", "gpus", "wrong"))
	got, err := reconciler.Propose(t.Context(), before, after, true, namedTargets(cluster))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"delete kubernetes gone: held"}, lines(got.Proposed)); d != "" {
		t.Error(d)
	}
}

func TestATargetThatFailsIsNamedWithTheSideThatWasRead(t *testing.T) {
	down := errors.New("connection refused")
	for _, verb := range []string{"want", "observe"} {
		aws, cluster, _ := recordingTargets()
		cluster.fail = map[string]error{verb: down}
		_, err := reconciler.Propose(t.Context(), declared.Declared{}, declared.Declared{}, false, namedTargets(aws, cluster))
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "before the change") || !strings.Contains(err.Error(), "kubernetes") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
