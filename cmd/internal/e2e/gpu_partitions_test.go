package e2e

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/migprofile"
)

// partitionedPool is the pool of GPUs in partitions, of a p5.48xlarge with eight of them.
const partitionedPool = "partitioned"

// podsGetPartitions: more pods than a machine has GPUs are one node, on which nvidia-mig-parted makes seven MIG devices of each GPU
// before any pod comes. What Karpenter launches by is what the node advertises, and the status has it.
func (l *gpuSteps) podsGetPartitions(g gpuSuite) {
	const profile, gpus = "1g.10gb", 8
	config := gpu.PluginConfig{Strategy: gpu.StrategyMIG, Replicas: 7, MIGDevices: map[string]int{profile: 7}}
	want := config.Allocatable(gpus)
	g.gpuPods("sevenths", partitionedPool, migprofile.Resource(profile), 1, 3*gpus)
	if c := g.allRun(partitionedPool); c.refused > 0 {
		g.Errorf("a kubelet refused pods: %+v", c)
	}
	if n := g.provisioned(partitionedPool, migprofile.Resource(profile), want[migprofile.Resource(profile)]); n != 1 {
		g.Errorf("there are %d NodeClaims", n)
	}
	g.until("the node and the status have the MIG devices", func() error {
		nodes, err := g.gpuNodes(partitionedPool)
		if err != nil || len(nodes) != 1 {
			return fmt.Errorf("there are %d nodes, %w", len(nodes), err)
		}
		if differs := want.Differs(nodes[0].Status.Allocatable); differs != "" || nodes[0].Annotations[gpu.AllocatableAnnotation] != want.String() {
			return fmt.Errorf("node %s differs: %q", nodes[0].Name, differs)
		}
		return g.statusIs(partitionedPool, 1, want)
	})
	g.dropPods("sevenths")
}
