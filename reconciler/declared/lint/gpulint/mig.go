package gpulint

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/migprofile"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// MIG partitions a GPU. It is requested by labels of nodes and resources of pods.
const (
	migResource = "nvidia.com/mig-"
	migConfig   = "nvidia.com/mig.config"
	migStrategy = "nvidia.com/mig.strategy"
)

// withMIG are the types whose GPUs MIG can partition.
func withMIG(types []instanceType) []instanceType {
	return slices.DeleteFunc(slices.Clone(types), func(t instanceType) bool { return !migprofile.HasMIG(t.GPU.Name) })
}

// mig finds requests for partitions of GPUs that nothing makes, and for several of them.
func (c *linter) mig() {
	for _, p := range c.pools {
		for _, label := range []string{migConfig, migStrategy} {
			if value := p.labels()[label]; value != "" && value != "none" && value != "all-disabled" && len(p.gpus) > 0 {
				c.partitionLabel(p, "spec.template.metadata.labels["+label+"]")
			}
		}
	}
	for _, w := range c.workloads {
		for _, a := range w.amounts {
			if strings.HasPrefix(a.resource, migResource) && len(w.on) > 0 {
				c.partitionRequest(w, a)
			}
			c.severalPartitions(w, a)
		}
	}
}

// partitionLabel is a label by which a pool's GPUs are to be partitioned.
func (c *linter) partitionLabel(p *pool, path string) {
	switch {
	case len(withMIG(p.gpus)) == 0 && p.known:
		c.problem(p.item, path, codeMIGNotSupported, "MIG cannot partition the GPUs of this pool (%s): take the label out, or allow instance types with H100 or later", finding.NewFact("gpus", models(p.gpus)))
	case p.served && p.config.Strategy == gpu.StrategyMIG:
		c.problem(p.item, path, codeMIGNotAllocatable, "configuration %s of DevicePlugin %s partitions the pool's GPUs by mig.devices, and a MIG manager that reads the label would partition them otherwise: take the label out, or the pool out of the configuration",
			finding.NewFact("config", p.config.Name), finding.NewFact("devicePlugin", c.sharing.Name))
	case p.served && !c.classOf(p).bottlerocket:
		c.problem(p.item, path, codeMIGNotAllocatable, "configuration %s of DevicePlugin %s advertises the pool's GPUs whole or in shares, and no MIG devices: take the label out, or the pool out of the configuration",
			finding.NewFact("config", p.config.Name), finding.NewFact("devicePlugin", c.sharing.Name))
	default:
		c.notPartitioned(p.item, path, []compatiblePool{{pool: p}})
	}
}

// partitionRequest is a request for a partition of a GPU.
func (c *linter) partitionRequest(w workload, a gpuRequest) {
	if slices.ContainsFunc(w.on, func(l compatiblePool) bool { return l.served && l.config.Advertises(a.resource) }) {
		return
	}
	var types []instanceType
	for _, l := range w.on {
		types = append(types, l.on...)
	}
	switch {
	case len(withMIG(types)) == 0 && !c.partial && !slices.ContainsFunc(w.on, func(l compatiblePool) bool { return !l.known }):
		c.problem(w.item, a.path, codeMIGNotSupported, "MIG cannot partition the GPUs that these pods can run on (%s in NodePool %s), so that they stay pending: request %s, which a DevicePlugin can share by timeSlicing, or run them on H100 or later",
			finding.NewFact("gpus", models(types)), finding.NewFact("nodePools", names(w.on)), wholeGPU)
	case !slices.ContainsFunc(w.on, func(l compatiblePool) bool { return !l.served || c.classOf(l.pool).bottlerocket }):
		c.problem(w.item, a.path, codeMIGNotAllocatable, "the DevicePlugin advertises %s in NodePool %s, and no MIG devices of this profile, so that these pods stay pending: request that, or change mig.devices of the configuration",
			finding.NewFact("allocatable", w.on[0].config.ResourceNames()), finding.NewFact("nodePools", names(w.on)))
	default:
		c.notPartitioned(w.item, a.path, w.on)
	}
}

// severalPartitions finds a request for more than one partition: CUDA enumerates one MIG device.
func (c *linter) severalPartitions(w workload, a gpuRequest) {
	of := slices.DeleteFunc(slices.Clone(w.on), func(l compatiblePool) bool {
		return !l.served || l.config.Strategy != gpu.StrategyMIG || !l.config.Advertises(a.resource)
	})
	if a.amount < 2 || len(of) == 0 {
		return
	}
	c.warn(w.item, a.path, codeRequestAboveOneMIGDevice, "a container gets %d MIG devices in NodePool %s, and a process computes by CUDA on one of them: request 1, of a larger profile where it needs more, or have the container start a process for each device",
		finding.NewFact("requestedDevices", a.amount), finding.NewFact("nodePools", names(of)))
}

// notPartitioned reports where nothing in the repository partitions the GPUs.
func (c *linter) notPartitioned(item state.Item, path string, on []compatiblePool) {
	partitions := func(l compatiblePool) bool { return strings.Contains(c.classOf(l.pool).Spec.UserData, "mig") }
	if c.installs("gpu-operator", "mig-manager") || slices.ContainsFunc(on, partitions) {
		return
	}
	c.warn(item, path, codeMIGNotConfigured, "nothing in this repository partitions GPUs by MIG: add the NodePool to a configuration of the DevicePlugin with mig, or install NVIDIA's GPU operator or its MIG manager")
}

// models lists the GPUs of types.
func models(types []instanceType) string {
	var out []string
	for _, t := range types {
		out = append(out, t.GPU.Name)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
