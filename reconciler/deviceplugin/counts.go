package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/migprofile"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// gpuCounts are the numbers of NVIDIA GPUs that an EC2 instance can have. A test
// compares them with the catalog. An overlay's capacity is absolute, so that each
// needs one of its own.
func gpuCounts() []int { return []int{1, 2, 4, 8, 16} }

// counts are the numbers of GPUs that nodes of a pool can have, as far as its
// declaration and the catalog determine; all there are for a pool that is not declared
// here, and for one of which the catalog has no type. Karpenter works through every
// overlay for every pool and type, and a person through every line of a plan, so that
// none is made that nothing uses.
func (e *expander) counts(pool string) []int {
	at := slices.IndexFunc(e.pools, func(item state.Item) bool { return item.Key.Name == pool })
	if at < 0 {
		if kept, known := e.kept[pool]; known {
			return kept
		}
		return gpuCounts()
	}
	var out []int
	for _, t := range e.gpuTypes(e.pools[at]) {
		if n := t.GPU.Count; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return gpuCounts()
	}
	slices.Sort(out)
	return out
}

// gpuTypes are the instance types with whole NVIDIA GPUs that a declared pool allows, as far as the catalog goes.
func (e *expander) gpuTypes(pool state.Item) []catalog.InstanceType {
	if e.types == nil {
		types, err := catalog.Load()
		if err != nil {
			return nil // the embedded table is broken, which its own tests detect
		}
		e.types = types.Types()
	}
	requirements := catalog.Requirements(pool.Object)
	var out []catalog.InstanceType
	for _, t := range e.types {
		if t.GPU.Manufacturer == "NVIDIA" && t.GPU.Count > 0 && satisfied(requirements, t.Labels()) {
			out = append(out, t)
		}
	}
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

// refusePartitions reports pools whose GPUs can not be partitioned as their configuration declares: their nodes would be replaced
// again and again.
func (e *expander) refusePartitions(plugin state.Item) {
	builtin := e.builtin()
	for _, pool := range e.pools {
		config, _ := e.sharing.ConfigForPool(pool.Key.Name)
		if config.Strategy != gpu.StrategyMIG {
			continue
		}
		object, named, nodePool := finding.NewFact("object", plugin.Key), finding.NewFact("config", config.Name), finding.NewFact("nodePool", pool.Key.Name)
		if slices.Contains(builtin, pool.Key.Name) {
			e.problem(plugin, codeMIGOnBottlerocket, "%s: configuration %s partitions the GPUs of NodePool %s by MIG, whose nodes run Bottlerocket, where no pod of NVIDIA's plugin comes to do so: use an EC2NodeClass of AL2023, or take the pool out of the configuration and write Bottlerocket's own settings and a NodeOverlay",
				object, named, nodePool)
			continue
		}
		if types, model := e.unpartitioned(pool, config); len(types) > 0 {
			e.problem(plugin, codeMIGDevicesNotSupported, "%s: configuration %s partitions each GPU of NodePool %s into %s, and the pool allows %s, with %s: %s; change mig.devices, or the pool's instance types (%s)",
				object, named, nodePool, finding.NewFact("migDevices", devices(config)), finding.As("instanceTypes", types, plural.FirstOf(types, 3, ", ")), finding.NewFact("gpu", model.GPU),
				model.Reason, finding.NewFact("declaredAt", pool.Origin))
		}
	}
}

// unpartitioned are the instance types of a pool whose GPUs can not have the configuration's MIG devices, with why the first
// can not. A GPU of which nothing is known is none of them.
func (e *expander) unpartitioned(pool state.Item, config gpu.PluginConfig) (types []string, why migprofile.Unsupported) {
	for _, t := range e.gpuTypes(pool) {
		unsupported := migprofile.Check(t.GPU.Name, config.MIGDevices)
		if unsupported.Reason == "" {
			continue
		}
		if len(types) == 0 {
			why = unsupported
		}
		types = append(types, t.Name)
	}
	return types, why
}

// devices are a configuration's MIG devices, as "1g.10gb: 7".
func devices(p gpu.PluginConfig) string {
	var out []string
	for _, profile := range slices.Sorted(maps.Keys(p.MIGDevices)) {
		out = append(out, fmt.Sprintf("%s: %d", profile, p.MIGDevices[profile]))
	}
	return strings.Join(out, ", ")
}
