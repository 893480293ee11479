package gpulint

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// MIG cuts a GPU into parts. It is requested by labels of nodes and resources of pods.
const (
	migResource = "nvidia.com/mig-"
	migConfig   = "nvidia.com/mig.config"
	migStrategy = "nvidia.com/mig.strategy"
)

// withoutMIG are the models that cannot be cut; others may.
var withoutMIG = []string{"K80", "K520", "M60", "V100", "T4", "T4g", "A10", "A10G", "L4", "L40", "L40S"}

// cuttable are the types whose GPUs MIG can cut.
func cuttable(types []instanceType) []instanceType {
	return slices.DeleteFunc(slices.Clone(types), func(t instanceType) bool { return slices.Contains(withoutMIG, t.GPU.Name) })
}

// mig finds requests for parts of GPUs that nothing makes.
func (c *linter) mig() {
	for _, p := range c.pools {
		for _, label := range []string{migConfig, migStrategy} {
			if value := p.labels()[label]; value != "" && value != "none" && value != "all-disabled" && len(p.gpus) > 0 {
				c.cut(p, "spec.template.metadata.labels["+label+"]")
			}
		}
	}
	for _, w := range c.workloads {
		for _, a := range w.amounts {
			if strings.HasPrefix(a.resource, migResource) && len(w.on) > 0 {
				c.part(w, a)
			}
		}
	}
}

// cut is a label by which a pool's GPUs are to be cut.
func (c *linter) cut(p *pool, path string) {
	switch {
	case len(cuttable(p.gpus)) == 0 && p.known:
		c.problem(p.item, path, codeMIGNotSupported, "MIG cannot cut the GPUs of this pool (%s): take the label out, or allow instance types with A100, H100 or later", finding.Of("gpus", models(p.gpus)))
	case p.served && !c.classOf(p).bottlerocket:
		c.problem(p.item, path, codeMIGNotAllocatable, "configuration %s of DevicePlugin %s offers the pool's GPUs whole or in shares, and no MIG devices: take the label out, or the pool out of the configuration",
			finding.Of("config", p.config.Name), finding.Of("devicePlugin", c.sharing.Name))
	default:
		c.uncut(p.item, path, []compatiblePool{{pool: p}})
	}
}

// part is a request for a part of a GPU.
func (c *linter) part(w workload, a gpuRequest) {
	on := w.on
	var types []instanceType
	for _, l := range on {
		types = append(types, l.on...)
	}
	switch {
	case len(cuttable(types)) == 0 && !c.partial && !slices.ContainsFunc(on, func(l compatiblePool) bool { return !l.known }):
		c.problem(w.item, a.path, codeMIGNotSupported, "MIG cannot cut the GPUs that these pods can run on (%s in NodePool %s), so that they stay pending: request %s, which a DevicePlugin can share by timeSlicing, or run them on A100, H100 or later",
			finding.Of("gpus", models(types)), finding.Of("nodePools", names(on)), wholeGPU)
	case !slices.ContainsFunc(on, func(l compatiblePool) bool { return !l.served || c.classOf(l.pool).bottlerocket }):
		c.problem(w.item, a.path, codeMIGNotAllocatable, "the DevicePlugin offers whole GPUs or shares of them in NodePool %s, and no MIG devices, so that these pods stay pending: request %s",
			finding.Of("nodePools", names(on)), finding.Of("allocatable", on[0].config.Resource()))
	default:
		c.uncut(w.item, a.path, on)
	}
}

// uncut reports where nothing in the repository cuts the GPUs.
func (c *linter) uncut(item state.Item, path string, on []compatiblePool) {
	cuts := func(l compatiblePool) bool { return strings.Contains(c.classOf(l.pool).Spec.UserData, "mig") }
	if c.installs("gpu-operator", "mig-manager") || slices.ContainsFunc(on, cuts) {
		return
	}
	c.warn(item, path, codeMIGNotConfigured, "nothing in this repository cuts GPUs by MIG: it takes NVIDIA's GPU operator, or its MIG manager, on the nodes")
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
