package forecast

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/noderepair"
)

func TestRepairsOfUnhealthyNodes(t *testing.T) {
	of := noderepair.Repair{Node: "a", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: time.Date(2026, 12, 1, 11, 30, 0, 0, time.UTC)}
	blocked := func(by noderepair.BlockReason) noderepair.Repair {
		out := of
		if out.Blocked = by; by == noderepair.BlockedByBackoff {
			out.Until = of.From.Add(20 * time.Minute)
		}
		return out
	}
	for name, tt := range map[string]struct {
		of   noderepair.Repair
		want string
	}{
		"that nothing keeps":   {of, "a of pool gpu (AcceleratedHardwareReady, NvidiaXID79Error): replaced from 2026-12-01 11:30 UTC on"},
		"with an annotation":   {blocked(noderepair.BlockedByAnnotation), "a of pool gpu (AcceleratedHardwareReady, NvidiaXID79Error): not replaced, because of its annotation karpenter.sh/do-not-repair"},
		"of a backed-off pool": {blocked(noderepair.BlockedByBackoff), "a of pool gpu (AcceleratedHardwareReady, NvidiaXID79Error): not replaced before 2026-12-01 11:50 UTC, because nodes that replaced others of the pool became unhealthy soon, too"},
		"of an unhealthy pool": {blocked(noderepair.BlockedByThreshold), "a of pool gpu (AcceleratedHardwareReady, NvidiaXID79Error): not replaced while more than 20 % of the pool's nodes are unhealthy"},
		"beyond a budget":      {blocked(noderepair.BlockedByBudget), "a of pool gpu (AcceleratedHardwareReady, NvidiaXID79Error): not replaced while the pool's budgets allow no node for the reason Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &provision.Forecast{Repairs: []noderepair.Repair{tt.of}}
			if diff := cmp.Diff([]string{tt.want}, plainText().repairs(f).Lines); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
