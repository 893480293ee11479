package e2e

import (
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

// TestSharedGPUsLive is one long suite in one environment, as those of the engine are:
// its steps change the one DevicePlugin, so they are run one after the other.
func TestSharedGPUsLive(t *testing.T) {
	t.Parallel()
	l := &gpuSteps{version: oldPlugin, all: []*gpu.PluginConfig{
		{Name: racePool, Pools: []string{racePool}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10},
		{Name: changedPool, Pools: []string{changedPool}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10},
		{Name: neverPool, Pools: []string{neverPool}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10, Renamed: true, ReadyTimeout: 90 * time.Second},
		{Name: otherPool, Pools: []string{otherPool}, Strategy: gpu.SharingStrategyMPS, Replicas: 10},
	}}
	files := map[string]string{"device-plugin.yaml": l.text()}
	for _, p := range l.all {
		files[p.Name+".yaml"] = gpuPoolText(p.Name, 3)
	}
	address := freeAddress(t)
	l.metrics = address
	g := newGPUFixture(t, "gpu-lives", files, "--metrics-addr="+address)
	run := func(name string, do func(gpuSuite)) step {
		return step{name, func(s engineSuite) { do(g.in(s)) }}
	}
	runSteps(g.engineSuite,
		run("pools and a DevicePlugin come through Git, and nothing flaps", l.comesThroughGit),
		run("no pod comes to a node before the numbers agree", l.podsCannotBeFirst),
		run("a configuration changes on a running pool, in order and one node at a time", l.configChanges),
		run("the plugin is upgraded one node at a time, and no pod waits for it", l.pluginIsUpgraded),
		run("a node that never advertises its GPUs is replaced, and at last the pool is held", l.nodesNeverOffer),
		run("a configuration that leaves takes what was made of it", l.configLeaves),
		run("pods that claim GPUs get nodes of the DRA driver", l.podsClaimGPUs),
		run("pods that request MIG devices get a node whose GPUs are partitioned", l.podsGetPartitions),
		step{"in the end nothing is left over", engineSuite.nothingLeaks},
	)
}
