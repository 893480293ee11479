package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/poolwright/poolwright/reconciler/apply"
)

// Prometheus computes an increase from samples: without one of 0, the first change is in none.
func TestTheCountersOfChangesBeginAtZeroAndGoOn(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	series := func() int {
		t.Helper()
		n, err := testutil.GatherAndCount(registry, "poolwright_changes_total")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	counted := func() float64 {
		return testutil.ToFloat64(m.changes.WithLabelValues("dev", "update", "drift", "applied"))
	}
	m.Begin("dev")
	began := series()
	if began == 0 || counted() != 0 || series() != began {
		t.Fatalf("%d series begin, the first with %v, and then there are %d", began, counted(), series())
	}
	m.RecordChange("dev", "update", "drift", "applied")
	for _, result := range []apply.Status{apply.Applied, apply.Failed, apply.Conflict, apply.Held, apply.Skipped, apply.NotAttempted} {
		m.RecordChange("dev", "delete", "revision", string(result))
		if series() != began {
			t.Errorf("%s does not begin at 0", result)
		}
	}
	m.Begin("dev")
	m.Begin("prod")
	if counted() != 1 || series() != 2*began {
		t.Errorf("after a change it is %v, in %d series", counted(), series())
	}
	m.Drop("dev")
	if series() != began {
		t.Errorf("without the Sync there are %d series", series())
	}
}

func TestASecondRegistrationIsAnError(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := New(registry); err == nil {
		t.Error("it is none")
	}
}
