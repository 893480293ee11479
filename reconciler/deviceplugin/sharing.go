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
	out := gpu.Sharing{Name: plugin.Name, Default: plugin.Spec.DefaultProfile}
	for _, p := range plugin.Spec.Profiles {
		profile := gpu.Profile{
			Name: p.Name, Pools: slices.Sorted(slices.Values(p.NodePools)),
			Strategy: gpu.SharingStrategyNone, Replicas: 1, ReadyTimeout: readyTimeout,
		}
		if p.ReadyTimeout != nil {
			profile.ReadyTimeout = p.ReadyTimeout.Duration
		}
		switch {
		case p.TimeSlicing != nil:
			profile.Strategy, profile.Replicas = gpu.SharingStrategyTimeSlicing, int(p.TimeSlicing.Replicas)
			profile.Renamed, profile.OnePerRequest = p.TimeSlicing.RenameByDefault, p.TimeSlicing.FailRequestsGreaterThanOne
		case p.MPS != nil:
			profile.Strategy, profile.Replicas = gpu.SharingStrategyMPS, int(p.MPS.Replicas)
			profile.Renamed, profile.OnePerRequest = p.MPS.RenameByDefault, true
		}
		out.Profiles = append(out.Profiles, profile)
	}
	return out
}
