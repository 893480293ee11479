package deviceplugin

import (
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/state"
)

// gpuCounts are the numbers of NVIDIA GPUs that an EC2 instance can have. A test
// compares them with the catalog. An overlay's capacity is absolute, so that each
// needs one of its own.
func gpuCounts() []int { return []int{1, 2, 4, 8, 16} }

// counts are the numbers of GPUs that nodes of a pool can have, as far as its
// declaration and the catalog determine; all there are for a pool that is not declared
// here, and for one of which the catalog has no type. Karpenter works through every
// overlay for every pool and type, and a person through every line of a plan, so that
// none is made in vain.
func (e *expander) counts(pool string) []int {
	at := slices.IndexFunc(e.pools, func(item state.Item) bool { return item.Key.Name == pool })
	if at < 0 {
		if kept, known := e.kept[pool]; known {
			return kept
		}
		return gpuCounts()
	}
	if e.types == nil {
		types, err := catalog.Load()
		if err != nil {
			return gpuCounts() // the embedded table is broken, which its own tests detect
		}
		e.types = types.Types()
	}
	requirements := catalog.Requirements(e.pools[at].Object)
	var out []int
	for _, t := range e.types {
		if n := t.GPU.Count; t.GPU.Manufacturer == "NVIDIA" && n > 0 && !slices.Contains(out, n) && satisfied(requirements, t.Labels()) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return gpuCounts()
	}
	slices.Sort(out)
	return out
}

// Undeclared are the pools that configurations name and that are not among the items, sorted.
func Undeclared(items []state.Item) []string {
	e := survey(items)
	sharing, _ := e.declaredSharing()
	var out []string
	for _, p := range sharing.Configs {
		for _, pool := range p.Pools {
			if !slices.ContainsFunc(e.pools, func(item state.Item) bool { return item.Key.Name == pool }) {
				out = append(out, pool)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Overlaid are the numbers of GPUs for which a pool has overlays of its own; exists
// reports whether there is a thing.
func Overlaid(pool string, exists func(state.Key) bool) []int {
	return slices.DeleteFunc(gpuCounts(), func(count int) bool {
		return !exists(state.Key{Target: cluster, Group: "karpenter.sh", Kind: "NodeOverlay", Name: overlayName(strconv.Itoa(count), "-"+pool)})
	})
}

func satisfied(requirements []catalog.Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool { return r.ByType() && !r.Met(labels) })
}
