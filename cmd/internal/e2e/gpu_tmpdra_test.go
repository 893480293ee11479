package e2e

import (
	"testing"

	"github.com/poolwright/poolwright/provision/gpu"
)

func TestTmpDRA(t *testing.T) {
	l := &gpuSteps{version: oldPlugin, all: []*gpu.PluginConfig{
		{Name: changedPool, Pools: []string{changedPool}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10},
	}}
	files := map[string]string{"device-plugin.yaml": l.text(), changedPool + ".yaml": gpuPoolText(changedPool, 3)}
	g := newGPUFixture(t, "gpu-claims", files)
	l.podsClaimGPUs(g)
}
