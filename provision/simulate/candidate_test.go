package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

func TestBudgetsOfACandidateAreByReason(t *testing.T) {
	budgets := `disruption: {consolidateAfter: 1m, budgets: [{nodes: "0", reasons: [Empty], schedule: "0 9 * * *", duration: 8h}, {nodes: "50%"}]}`
	snapshot := read(t, strings.Replace(pool, "disruption: {consolidateAfter: 1m}", budgets, 1), class)
	run(&snapshot, "gpu", "a", time.Hour)
	_, other := run(&snapshot, "gpu", "b", time.Hour)
	got, err := simulate.DisruptionCandidate(engine.Offline(t.Context(), settings()), snapshot, "a")
	if err != nil {
		t.Fatal(err)
	}
	want := map[karpv1.DisruptionReason]simulate.AllowedDisruptions{
		karpv1.DisruptionReasonEmpty:         {Budget: "0 (0 9 * * * for 8h)", NextWindow: time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)},
		karpv1.DisruptionReasonDrifted:       {Allowed: 1, Configured: 1, Budget: "50%"},
		karpv1.DisruptionReasonUnderutilized: {Allowed: 1, Configured: 1, Budget: "50%"},
	}
	if diff := cmp.Diff(want, got.Budgets); diff != "" || got.QueuePosition != 0 || got.Name != "node-a" {
		t.Errorf("turn %d of node %s (-want +got):\n%s", got.QueuePosition, got.Name, diff)
	}
	// One that is not ready counts as on its way.
	other.Status.Conditions = nil
	all, err := simulate.Budgets(snapshot)
	if allowed := all["gpu"][karpv1.DisruptionReasonDrifted]; err != nil || allowed.Allowed != 0 || allowed.Configured != 1 {
		t.Errorf("%+v, %v", allowed, err)
	}
}

func TestACandidateIsOfTheSnapshot(t *testing.T) {
	if _, err := simulate.DisruptionCandidate(t.Context(), read(t, pool, class), "other"); err == nil {
		t.Error("no error")
	}
}
