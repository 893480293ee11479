package deviceplugin

import (
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// readyTimeout is the CRD's default, for objects that no API server has defaulted.
const readyTimeout = 10 * time.Minute

// Sharing is what a DevicePlugin declares of GPUs, as the engine's side reads it.
func Sharing(plugin *v1alpha1.DevicePlugin) gpu.Sharing {
	out := gpu.Sharing{Name: plugin.Name, Default: plugin.Spec.DefaultConfig}
	for _, p := range plugin.Spec.Configs {
		pluginConfig := gpu.PluginConfig{
			Name: p.Name, Pools: slices.Sorted(slices.Values(p.NodePools)),
			Strategy: gpu.SharingStrategyNone, Replicas: 1, ReadyTimeout: readyTimeout,
		}
		if p.ReadyTimeout != nil {
			pluginConfig.ReadyTimeout = p.ReadyTimeout.Duration
		}
		switch {
		case p.TimeSlicing != nil:
			pluginConfig.Strategy, pluginConfig.Replicas = gpu.SharingStrategyTimeSlicing, int(p.TimeSlicing.Replicas)
			pluginConfig.Renamed, pluginConfig.OnePerRequest = p.TimeSlicing.RenameByDefault, p.TimeSlicing.FailRequestsGreaterThanOne
		case p.MPS != nil:
			pluginConfig.Strategy, pluginConfig.Replicas = gpu.SharingStrategyMPS, int(p.MPS.Replicas)
			pluginConfig.Renamed, pluginConfig.OnePerRequest = p.MPS.RenameByDefault, true
		case p.MIG != nil:
			pluginConfig.Strategy, pluginConfig.MIGSingle = gpu.StrategyMIG, p.MIG.Strategy == migSingle
			pluginConfig.Replicas, pluginConfig.MIGDevices = 0, map[string]int{}
			for profile, n := range p.MIG.Devices {
				pluginConfig.MIGDevices[profile] = int(n)
				pluginConfig.Replicas += int(n)
			}
		case p.DRADriver != nil:
			pluginConfig.Strategy = gpu.StrategyDRA
		}
		out.Configs = append(out.Configs, pluginConfig)
	}
	return out
}
