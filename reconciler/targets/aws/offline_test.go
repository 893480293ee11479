package aws

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestOfflineDesiresWhatWouldBeRequestedOfAWS(t *testing.T) {
	declared := declareIn(t, sandboxaws.DefaultConfig(), queued(v1alpha1.ManagementPolicy{}))
	want, err := offline(t).Desired(t.Context(), declared)
	if err != nil || want.Len() == 0 {
		t.Fatalf("%v, %d things", err, want.Len())
	}
	got, err := Offline(nil).Desired(t.Context(), declared)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Items(), got.Items()); d != "" {
		t.Error(d)
	}
}

func TestOfflineAProblemLeavesWhatWasDeclaredBefore(t *testing.T) {
	from := Offline(func(item state.Item) []state.Problem {
		spec, _ := item.Object["spec"].(map[string]any)
		if spec["version"] != nil {
			return []state.Problem{{Message: "no version today"}}
		}
		return nil
	})
	before, err := from.Desired(t.Context(), declareIn(t, sandboxaws.DefaultConfig(), queued(v1alpha1.ManagementPolicy{})))
	if err != nil || before.Len() == 0 {
		t.Fatalf("%v, %d things", err, before.Len())
	}
	after, err := from.Desired(t.Context(), declareIn(t, sandboxaws.DefaultConfig(), func(s *v1alpha1.ClusterSpec) { s.Version = "1.35" }))
	var problems *targets.ProblemsError
	if !errors.As(err, &problems) || len(problems.Problems) != 1 {
		t.Fatalf("got %v", err)
	}
	if d := cmp.Diff(before.Items(), after.Items()); d != "" {
		t.Errorf("a problem changes what is desired: %s", d)
	}
}

func TestOfflineAWSIsNeitherObservedNorCorrected(t *testing.T) {
	if _, err := Offline(nil).Observe(t.Context(), state.Set{}); err == nil {
		t.Error("an observation without AWS")
	}
	if err := Offline(nil).Apply(t.Context(), plan.Change{}); err == nil {
		t.Error("a correction without AWS")
	}
}
