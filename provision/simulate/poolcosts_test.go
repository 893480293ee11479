package simulate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

func TestWhatTheNodesOfEachPoolCost(t *testing.T) {
	snapshot := read(t, pool, class)
	run(&snapshot, "gpu", "a", time.Hour)
	run(&snapshot, "gpu", "b", time.Hour)
	claim, _ := run(&snapshot, "gpu", "other", time.Hour)
	claim.Labels["karpenter.sh/nodepool"], claim.Labels["karpenter.sh/capacity-type"] = "spot", "spot"
	unpriced, _ := run(&snapshot, "gpu", "unpriced", time.Hour)
	unpriced.Labels["karpenter.sh/nodepool"], unpriced.Labels["node.kubernetes.io/instance-type"] = "new", "x99.large"
	launching, _ := run(&snapshot, "gpu", "launching", 0)
	delete(launching.Labels, "node.kubernetes.io/instance-type")
	ctx := engine.Offline(t.Context(), settings())
	got, err := simulate.PoolCosts(ctx, snapshot, prices(t, "g4dn"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]provision.Amount{"gpu": {OnDemand: 2 * 0.526}, "spot": {SpotAtMost: 0.526}, "new": {Unpriced: 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	empty, err := catalog.New("2026-01-01", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate.PoolCosts(ctx, snapshot, empty); err == nil {
		t.Error("a catalog without types has prices")
	}
}
