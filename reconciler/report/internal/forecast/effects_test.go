package forecast

import (
	"testing"

	"github.com/poolwright/poolwright/provision"
)

func TestAForecastRequiresActionOrCostsOrIsEmpty(t *testing.T) {
	node := provision.Node{Pool: "gpu"}
	kept := provision.Node{Pool: "gpu", Blockers: []provision.Blocker{{Kind: "node"}}}
	tests := []struct {
		name                 string
		f                    provision.Forecast
		offline              bool
		action, costs, empty bool
	}{
		{name: "nothing", empty: true},
		{name: "a node is replaced", f: provision.Forecast{Replaced: []provision.Node{node}}, costs: true},
		{name: "a node is never replaced", f: provision.Forecast{Replaced: []provision.Node{kept}}, action: true, costs: true},
		{name: "a pod of it has no controller", f: provision.Forecast{Replaced: []provision.Node{{Pods: []provision.Pod{{WithoutController: true}}}}}, action: true, costs: true},
		{name: "a pool goes with its nodes", f: provision.Forecast{Removed: []provision.RemovedPool{{Pool: "gpu", Nodes: []provision.Node{node}}}}, action: true, costs: true},
		{name: "a pool goes that has none", f: provision.Forecast{Removed: []provision.RemovedPool{{Pool: "gpu"}}}, costs: true},
		{name: "a pool goes whose nodes nobody has counted", f: provision.Forecast{Removed: []provision.RemovedPool{{Pool: "gpu"}}}, offline: true, action: true, costs: true},
		{name: "a pod no longer finds a node", f: provision.Forecast{PodScheduling: provision.PodScheduling{NewlyUnschedulable: []provision.Placement{{}}}}, action: true},
		{name: "a pod finds one", f: provision.Forecast{PodScheduling: provision.PodScheduling{NewlySchedulable: []provision.Placement{{}}}}},
		{name: "a new pod finds none", f: provision.Forecast{PodScheduling: provision.PodScheduling{Unschedulable: []provision.Placement{{New: true}}}}, costs: true},
		{name: "a pod waits as before", f: provision.Forecast{PodScheduling: provision.PodScheduling{Unschedulable: []provision.Placement{{}}}}, empty: true},
		{name: "more is paid", f: provision.Forecast{Cost: provision.Cost{After: provision.Amount{OnDemand: 1}}}, costs: true},
		{name: "less is paid", f: provision.Forecast{Cost: provision.Cost{Now: provision.Amount{OnDemand: 1}}}},
		{name: "nodes without a known price come", f: provision.Forecast{Cost: provision.Cost{Now: provision.Amount{Unpriced: 1}, After: provision.Amount{Unpriced: 3}, UnpricedUnchanged: 1}}, costs: true},
		{name: "nodes without a known price go", f: provision.Forecast{Cost: provision.Cost{Now: provision.Amount{Unpriced: 3}, After: provision.Amount{Unpriced: 1}, UnpricedUnchanged: 1}}},
		{name: "a limit is lower than what is in use", f: provision.Forecast{Pools: []provision.Pool{{OverLimit: []provision.ExceededLimit{{Resource: "cpu"}}}}}, costs: true, empty: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := plainText()
			v.Offline = tt.offline
			if v.RequiresAction(&tt.f) != tt.action || v.Costs(&tt.f) != tt.costs || Empty(&tt.f) != tt.empty {
				t.Errorf("requires action %v, costs %v, empty %v", v.RequiresAction(&tt.f), v.Costs(&tt.f), Empty(&tt.f))
			}
		})
	}
}
