package validation

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestOfSeveralClustersNoneIsAdmitted(t *testing.T) {
	pass := func(state.Item) []state.Problem { return nil }
	declares := func(name string) state.Item {
		return state.Item{
			Key:     state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: name},
			Version: "v1alpha1", Object: map[string]any{"spec": map[string]any{}}, Origin: state.Origin{File: name + ".yaml", Line: 1},
		}
	}
	if got := admit(state.NewSet(declares("a")), pass).Len(); got != 1 {
		t.Errorf("of one, %d", got)
	}
	if got := admit(state.NewSet(declares("a"), declares("b")), pass).Len(); got != 0 {
		t.Errorf("of two, %d", got)
	}
}

// allTarget wants what it is given, and reports a problem of its own where it has one.
type allTarget struct {
	targets.Target
	problem *state.Problem
}

func (a allTarget) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	if a.problem != nil {
		return declared, &targets.ProblemsError{Problems: []state.Problem{*a.problem}}
	}
	return declared, nil
}

func TestATargetIsNotGivenWhatIsRefused(t *testing.T) {
	item := func(kind, name string) state.Item {
		return state.Item{Key: state.Key{Target: "kubernetes", Group: "example.com", Kind: kind, Name: name}, Version: "v1", Object: map[string]any{"spec": map[string]any{"siez": int64(1)}}}
	}
	fine, wrong, misspelled := item("Widget", "fine"), item("Widget", "wrong"), item("Widget", "misspelled")
	of := func(i state.Item, unknown string) map[state.Key][]state.Problem {
		return map[state.Key][]state.Problem{i.Key: {{Origin: state.Origin{File: "a.yaml"}, Message: i.Key.String() + ": refused", UnknownField: unknown}}}
	}
	own := state.Problem{Origin: state.Origin{File: "z.yaml"}, Message: "a problem that only the target finds"}
	for name, c := range map[string]struct {
		refused, unknown map[state.Key][]state.Problem
		problem          *state.Problem
		want, problems   []string
	}{
		"nothing is refused":                     {want: []string{"fine", "misspelled", "wrong"}},
		"an object of which the schema is known": {refused: of(wrong, ""), want: []string{"fine", "misspelled"}},
		"an object with an unknown field":        {unknown: of(misspelled, "spec.siez"), want: []string{"fine", "wrong"}, problems: []string{"a.yaml"}},
		"beside a problem of the target's own": {
			unknown: of(misspelled, "spec.siez"), problem: &own, want: []string{"fine", "wrong"}, problems: []string{"a.yaml", "z.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refusals := &Errors{}
			refusals.Set(c.refused, c.unknown)
			none := func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return nil, nil }
			set, err := refusals.Desired(t.Context(), allTarget{problem: c.problem}, none, state.NewSet(fine, wrong, misspelled))
			var want, problems []string
			for _, i := range set.Items() {
				want = append(want, i.Key.Name)
			}
			if found, ok := errors.AsType[*targets.ProblemsError](err); ok {
				for _, p := range found.Problems {
					problems = append(problems, p.Origin.File)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{c.want, c.problems}, [][]string{want, problems}); diff != "" {
				t.Errorf("desired and problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADefinitionThatCannotBeReadStopsTheRun(t *testing.T) {
	away, key := errors.New("the API server is away"), state.Key{Group: "example.com", Kind: "Widget", Name: "w"}
	refusals := &Errors{}
	refusals.Set(nil, map[state.Key][]state.Problem{key: {{UnknownField: "spec.siez"}}})
	_, err := refusals.Desired(t.Context(), allTarget{}, func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return nil, away }, state.NewSet(state.Item{Key: key, Version: "v1"}))
	if !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
