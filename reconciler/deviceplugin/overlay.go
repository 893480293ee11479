package deviceplugin

import (
	"maps"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/gpu"
)

// gpuCounts are the numbers of NVIDIA GPUs that an EC2 instance can have. A test
// compares them with the catalog. An overlay's capacity is absolute, so that each
// needs one of its own.
func gpuCounts() []int { return []int{1, 2, 4, 8, 16} }

// overlayWeight is the highest there is: what the plugin offers is a fact, and no
// overlay of somebody else's may hide it from the scheduler.
const overlayWeight = 10_000

// overlay tells Karpenter what a node with that many GPUs offers under a profile.
// Profiles of whole GPUs have theirs too: going to shares and back is then a change
// of numbers, whose order is known.
func overlay(p gpu.Profile, pools selection, gpus int) map[string]any {
	count := strconv.Itoa(gpus)
	object := named("karpenter.sh/v1alpha1", "NodeOverlay", "", "poolwright-gpu-"+p.Name+"-"+count, p.Name)
	offer := p.Offer(gpus)
	capacity := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(offer)) {
		capacity[string(name)] = strconv.FormatInt(offer[name], 10)
	}
	// Karpenter asks overlays about pools, which all have a name: nothing but
	// pools needs to be kept out.
	requirements := []any{}
	if !pools.allBut || len(pools.names) > 0 {
		requirements = pools.requirements(false)
	}
	object["spec"] = map[string]any{
		"weight":       int64(overlayWeight),
		"requirements": append(requirements, oneOf(manufacturerLabel, manufacturer), oneOf(countLabel, count)),
		"capacity":     capacity,
	}
	return object
}
