package monitoring

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fleet are two spot nodes of one type and an on-demand one of another, each with GPUs of which some are idle, a node
// without GPUs, and one that is not Karpenter's. The demo has a single node at a time, by which a wrong join is not found.
const fleet = `
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
var handover = strings.ReplaceAll(fleet, "{", `{instance="old",`) + strings.ReplaceAll(fleet, "{", `{instance="new",`)

func TestPanelsOfCostsAndGPUsComputeWhatTheFleetHas(t *testing.T) {
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
		"gpus.json: Costs of idle GPUs an hour A":      {`{}`: 3.25},
		"gpus.json: Idle A":                            {`{}`: 4.0 / 6},
	} {
		found := false
		for _, query := range queries {
			if query.Place != place {
				continue
			}
			found = true
			for name, text := range map[string]string{"": fleet, ", while two instances are scraped": handover} {
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
