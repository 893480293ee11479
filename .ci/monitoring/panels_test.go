package monitoring

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// nodeMetrics are those of two spot nodes of one type and an on-demand one of another, each with GPUs of which some are idle, a node
// without GPUs, and one that is not Karpenter's. The demo has a single node at a time, by which a wrong join is not found.
const nodeMetrics = `
karpenter_nodes_allocatable{node_name="a",nodepool="gpu",instance_type="g4dn.xlarge",capacity_type="spot",zone="1a",resource_type="cpu",managed="true"} 4
karpenter_nodes_allocatable{node_name="b",nodepool="gpu",instance_type="g4dn.xlarge",capacity_type="spot",zone="1a",resource_type="cpu",managed="true"} 4
karpenter_nodes_allocatable{node_name="c",nodepool="gpu",instance_type="g4dn.12xlarge",capacity_type="on-demand",zone="1b",resource_type="cpu",managed="true"} 48
karpenter_nodes_allocatable{node_name="d",nodepool="general",instance_type="m5.large",capacity_type="on-demand",zone="1b",resource_type="cpu",managed="true"} 2
karpenter_nodes_allocatable{node_name="e",nodepool="",instance_type="m5.large",capacity_type="",zone="1b",resource_type="cpu",managed="false"} 2
karpenter_nodes_allocatable{node_name="a",nodepool="gpu",instance_type="g4dn.xlarge",capacity_type="spot",zone="1a",resource_type="nvidia.com/gpu",managed="true"} 1
karpenter_nodes_allocatable{node_name="b",nodepool="gpu",instance_type="g4dn.xlarge",capacity_type="spot",zone="1a",resource_type="nvidia.com/gpu",managed="true"} 1
karpenter_nodes_allocatable{node_name="c",nodepool="gpu",instance_type="g4dn.12xlarge",capacity_type="on-demand",zone="1b",resource_type="nvidia.com/gpu",managed="true"} 4
karpenter_nodes_allocatable{node_name="d",nodepool="general",instance_type="m5.large",capacity_type="on-demand",zone="1b",resource_type="nvidia.com/gpu",managed="true"} 0
karpenter_nodes_total_pod_requests{node_name="a",nodepool="gpu",instance_type="g4dn.xlarge",capacity_type="spot",zone="1a",resource_type="nvidia.com/gpu",managed="true"} 1
karpenter_nodes_total_pod_requests{node_name="c",nodepool="gpu",instance_type="g4dn.12xlarge",capacity_type="on-demand",zone="1b",resource_type="nvidia.com/gpu",managed="true"} 1
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g4dn.xlarge",capacity_type="spot",zone="1a"} 0.25
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g4dn.xlarge",capacity_type="spot",zone="1b"} 9
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g4dn.xlarge",capacity_type="on-demand",zone="1a"} 9
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g4dn.12xlarge",capacity_type="on-demand",zone="1b"} 4
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m5.large",capacity_type="on-demand",zone="1b"} 0.5
`

// Where the leader changes, its metrics are those of another instance.
var handover = strings.ReplaceAll(nodeMetrics, "{", `{instance="old",`) + strings.ReplaceAll(nodeMetrics, "{", `{instance="new",`)

func TestPanelsOfCostsAndGPUsComputeWhatTheNodesHave(t *testing.T) {
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]map[string]float64{
		"pools.json: Nodes by pool A":                  {`{capacity_type="spot", nodepool="gpu"}`: 2, `{capacity_type="on-demand", nodepool="gpu"}`: 1, `{capacity_type="on-demand", nodepool="general"}`: 1},
		"pools.json: Nodes on spot A":                  {`{}`: 0.5},
		"pools.json: Costs an hour by capacity type A": {`{capacity_type="spot", nodepool="gpu"}`: 0.5, `{capacity_type="on-demand", nodepool="gpu"}`: 4, `{capacity_type="on-demand", nodepool="general"}`: 0.5},
		"gpus.json: Costs of GPU nodes an hour A":      {`{capacity_type="spot", nodepool="gpu"}`: 0.5, `{capacity_type="on-demand", nodepool="gpu"}`: 4, `{capacity_type="on-demand", nodepool="general"}`: 0},
		"gpus.json: GPUs that nodes advertise A":       {`{nodepool="gpu", resource_type="nvidia.com/gpu"}`: 6, `{nodepool="general", resource_type="nvidia.com/gpu"}`: 0},
		"gpus.json: GPUs that pods request A":          {`{nodepool="gpu", resource_type="nvidia.com/gpu"}`: 2},
		"gpus.json: Idle GPUs A":                       {`{nodepool="gpu", resource_type="nvidia.com/gpu"}`: 4, `{nodepool="general", resource_type="nvidia.com/gpu"}`: 0},
		"gpus.json: Costs of idle GPUs by pool A":      {`{nodepool="gpu"}`: 3.25},
		"gpus.json: Costs of idle GPUs A":              {`{}`: 3.25},
		"gpus.json: Idle A":                            {`{}`: 4.0 / 6},
	} {
		found := false
		for _, query := range queries {
			if query.Place != place {
				continue
			}
			found = true
			for name, text := range map[string]string{"": nodeMetrics, ", while two instances are scraped": handover} {
				got := map[string]float64{}
				for _, one := range parseSeries(t, text, time.Minute).evaluate(t, query.Expr, time.Minute) {
					got[one.Metric.String()] = one.Floats[0].F
				}
				if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, math.Pow(10, -9))); d != "" {
					t.Errorf("%s%s (-want +got):\n%s", place, name, d)
				}
			}
		}
		if !found {
			t.Errorf("there is no panel %s", place)
		}
	}
}

// history are the sums of an hour, of which one replica led the first half and another one the second, with 15 seconds between samples: a
// node of four GPUs, of which one is requested and three are idle, at $4 an hour; and a node without GPUs at $1. Each replica counts from 0.
const history = `
poolwright_gpu_seconds_total{instance="old",nodepool="gpu",state="paid"} 0+60x120 stale
poolwright_gpu_seconds_total{instance="new",nodepool="gpu",state="paid"} _x120 0+60x120
poolwright_gpu_seconds_total{instance="old",nodepool="gpu",state="requested"} 0+15x120 stale
poolwright_gpu_seconds_total{instance="new",nodepool="gpu",state="requested"} _x120 0+15x120
poolwright_gpu_seconds_total{instance="old",nodepool="gpu",state="idle"} 0+45x120 stale
poolwright_gpu_seconds_total{instance="new",nodepool="gpu",state="idle"} _x120 0+45x120
poolwright_gpu_seconds_total{instance="new",nodepool="general",state="paid"} 0x240
poolwright_gpu_seconds_total{instance="new",nodepool="general",state="idle"} 0x240
poolwright_cost_usd_total{instance="old",nodepool="gpu",capacity_type="spot",state="paid"} 0+0.01666666667x120 stale
poolwright_cost_usd_total{instance="new",nodepool="gpu",capacity_type="spot",state="paid"} _x120 0+0.01666666667x120
poolwright_cost_usd_total{instance="old",nodepool="gpu",capacity_type="spot",state="idle"} 0+0.0125x120 stale
poolwright_cost_usd_total{instance="new",nodepool="gpu",capacity_type="spot",state="idle"} _x120 0+0.0125x120
poolwright_cost_usd_total{instance="old",nodepool="gpu",capacity_type="spot",state="requested"} 0+0.00416666667x120 stale
poolwright_cost_usd_total{instance="new",nodepool="gpu",capacity_type="spot",state="requested"} _x120 0+0.00416666667x120
poolwright_cost_usd_total{instance="new",nodepool="general",capacity_type="on-demand",state="paid"} 0+0.00416666667x240
poolwright_cost_usd_total{instance="new",nodepool="general",capacity_type="on-demand",state="idle"} 0x240
`

func TestPanelsOfTheHistoryAddUpWhatEachReplicaCounted(t *testing.T) {
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	all := parseSeries(t, history, 15*time.Second)
	for place, want := range map[string]map[string]float64{
		"gpus.json: GPUs that are paid for, requested and idle A":               {`{state="paid"}`: 4, `{state="requested"}`: 1, `{state="idle"}`: 3},
		"gpus.json: Idle of the GPUs that are paid for, of the last 24 hours A": {`{nodepool="gpu"}`: 0.75},
		"gpus.json: Costs of idle GPUs of the last 24 hours A":                  {`{nodepool="gpu"}`: 3, `{nodepool="general"}`: 0},
		"pools.json: Costs of the last 24 hours by pool A":                      {`{capacity_type="spot", nodepool="gpu"}`: 4, `{capacity_type="on-demand", nodepool="general"}`: 1},
		"pools.json: Costs of GPUs of the last 24 hours, requested and idle A":  {`{state="requested"}`: 1, `{state="idle"}`: 3},
	} {
		found := false
		for _, query := range queries {
			if query.Place != place {
				continue
			}
			found = true
			got := map[string]float64{}
			for _, one := range all.evaluate(t, query.Expr, 15*time.Second) {
				if last := one.Floats[len(one.Floats)-1]; last.T == all.end().UnixMilli() {
					got[one.Metric.String()] = last.F
				}
			}
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(0.01, 0)); d != "" {
				t.Errorf("%s (-want +got):\n%s", place, d)
			}
		}
		if !found {
			t.Errorf("there is no panel %s", place)
		}
	}
}
