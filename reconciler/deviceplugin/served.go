package deviceplugin

import (
	"slices"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
)

// NVIDIASelector is the label selector of Nodes and NodeClaims of instance types with NVIDIA GPUs.
const NVIDIASelector = manufacturerLabel + "=" + manufacturer

// DRAAccount is the ServiceAccount of the DRA driver, which is made wherever a configuration has draDriver.
func DRAAccount() state.Key {
	return state.Key{Target: cluster, Kind: "ServiceAccount", Namespace: gpu.PluginNamespace, Name: draName}
}

// DeclaredSharing is what the one DevicePlugin among the items declares of GPUs. It is false where Expand refuses the
// DevicePlugin, or where there is none.
func DeclaredSharing(items []state.Item) (gpu.Sharing, bool) { return survey(items).declaredSharing() }

func (e *expander) declaredSharing() (gpu.Sharing, bool) {
	if len(e.plugins) != 1 {
		return gpu.Sharing{}, false
	}
	plugin := e.read(e.plugins[0])
	if len(e.problems) > 0 {
		return gpu.Sharing{}, false
	}
	return Sharing(plugin), true
}

// HasDRADriver reports whether a configuration advertises GPUs by the DRA driver.
func HasDRADriver(s gpu.Sharing) bool {
	return slices.ContainsFunc(s.Configs, func(p gpu.PluginConfig) bool { return p.Strategy == gpu.StrategyDRA })
}

// DRAChanges returns those of the pools that the DRA driver serves by one of two DevicePlugins and not by the other. What
// serves a pool otherwise makes no difference: the driver advertises again the GPUs that pods have from a device plugin, also
// from one that is not there any more or is somebody else's, and a device plugin those of claims.
func DRAChanges(live, declared gpu.Sharing, pools []string) []string {
	return slices.DeleteFunc(slices.Clone(pools), func(pool string) bool {
		_, was := live.DRAForPool(pool)
		_, is := declared.DRAForPool(pool)
		return was == is
	})
}

// HasMIG reports whether a configuration partitions GPUs by MIG.
func HasMIG(s gpu.Sharing) bool {
	return slices.ContainsFunc(s.Configs, func(p gpu.PluginConfig) bool { return p.Strategy == gpu.StrategyMIG })
}

// MIGChanges returns those of the pools whose GPUs are partitioned otherwise by one of two DevicePlugins than by the other. Partitions
// that pods use cannot be deleted, and whole GPUs that pods use cannot be partitioned.
func MIGChanges(live, declared gpu.Sharing, pools []string) []string {
	return slices.DeleteFunc(slices.Clone(pools), func(pool string) bool {
		was, _ := live.ConfigForPool(pool)
		is, _ := declared.ConfigForPool(pool)
		return was.Partitions() == is.Partitions()
	})
}
