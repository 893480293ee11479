package e2e

import (
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

// The longest story stands in the first file: tests begin in the order of their
// files, and one that takes so long must not be the last to begin.

// TestSharedGPUsLive is one long story in one world, as those of the engine are:
// its scenes change the one DevicePlugin, so they are played in turn.
func TestSharedGPUsLive(t *testing.T) {
	t.Parallel()
	l := &gpuLives{version: oldPlugin, all: []*gpu.Profile{
		{Name: racePool, Pools: []string{racePool}, Strategy: gpu.TimeSlicing, Replicas: 10},
		{Name: changedPool, Pools: []string{changedPool}, Strategy: gpu.TimeSlicing, Replicas: 10},
		{Name: neverPool, Pools: []string{neverPool}, Strategy: gpu.TimeSlicing, Replicas: 10, Renamed: true, ReadyTimeout: 90 * time.Second},
		{Name: otherPool, Pools: []string{otherPool}, Strategy: gpu.MPS, Replicas: 10},
	}}
	files := map[string]string{"device-plugin.yaml": l.text()}
	for _, p := range l.all {
		files[p.Name+".yaml"] = gpuPoolText(p.Name, 3)
	}
	address := freeAddress(t)
	l.metrics = address
	g := newGPUWorld(t, "gpu-lives", files, "--metrics-addr="+address)
	play := func(name string, do func(gpuScene)) part {
		return part{name, func(s scene) { do(g.in(s)) }}
	}
	inTurn(g.scene,
		play("pools and a DevicePlugin come through Git, and nothing flaps", l.comesThroughGit),
		play("no pod comes to a node before the numbers agree", l.podsCannotBeFirst),
		play("a profile changes on a running pool, in order and one node at a time", l.profileChanges),
		play("the plugin is upgraded one node at a time, and no pod waits for it", l.pluginIsUpgraded),
		play("a node that never offers its GPUs is replaced, and at last the pool is held", l.nodesNeverOffer),
		play("a profile that leaves takes what was made of it", l.profileLeaves),
		part{"in the end nothing is left over", scene.nothingLeaks},
	)
}
