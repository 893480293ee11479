package deviceplugin

import (
	"maps"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/gpu"
)

// The weights of overlays. They are the highest there are: what the plugin advertises is
// a fact, and no overlay of somebody else's may hide it from the scheduler. They
// differ, because Karpenter takes two overlays of one weight over one resource of one
// pool for a conflict, and then drops one of them in all pools: a pool that is just
// moving to or from the default configuration may have both, and its own must win.
const (
	poolWeight = 10_000
	restWeight = poolWeight - 1
)

// overlays give Karpenter what nodes advertise under a configuration: those of each pool that it
// names by overlays of the pool's own, and those of pools that nobody names by the
// default configuration's.
//
// A pool that moves between two configurations that name it keeps its overlays, which have
// other numbers then. So there is no moment in which it has none or two, and whether
// its numbers change before the plugin or after it is known from the numbers. Configs
// of whole GPUs have overlays too: going to shares and back is then such a change. To
// or from the default configuration, a pool's overlays come or go as a whole; who needs that
// order there too names the pool in the default configuration.
func (e *expander) overlays(p gpu.PluginConfig) []map[string]any {
	var out []map[string]any
	for _, pool := range p.Pools {
		for _, count := range e.counts(pool) {
			out = append(out, overlay(p, count, "-"+pool, poolWeight, []any{oneOf(poolLabel, pool)}))
		}
	}
	if p.Name != e.sharing.Default {
		return out
	}
	for _, count := range gpuCounts() {
		// Karpenter evaluates overlays for pools, which all have a name: nothing but pools
		// needs to be kept out.
		var named []any
		if pools := e.sharing.Others(""); len(pools) > 0 {
			named = append(named, noneOf(poolLabel, pools...))
		}
		out = append(out, overlay(p, count, "", restWeight, named))
	}
	return out
}

func overlayName(count, suffix string) string { return "poolwright-gpu-" + count + suffix }

// overlay is that of nodes with a number of GPUs in some pools.
func overlay(p gpu.PluginConfig, gpus int, suffix string, weight int64, pools []any) map[string]any {
	count := strconv.Itoa(gpus)
	object := named("karpenter.sh/v1alpha1", "NodeOverlay", "", overlayName(count, suffix), p.Name)
	allocatable := p.Allocatable(gpus)
	capacity := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		capacity[string(name)] = strconv.FormatInt(allocatable[name], 10)
	}
	object["spec"] = map[string]any{
		"weight":       weight,
		"requirements": append(slices.Clone(pools), oneOf(manufacturerLabel, manufacturer), oneOf(countLabel, count)),
		"capacity":     capacity,
	}
	return object
}
