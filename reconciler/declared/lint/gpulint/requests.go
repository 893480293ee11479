package gpulint

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// requests finds pods that no pool of the repository can serve, whatever its size:
// they wait for ever, or are refused by every node. It reports only where all pools
// that the pods can run in have a configuration: what others advertise is unknown.
func (c *linter) requests() {
	for _, w := range c.workloads {
		if c.partial || len(w.on) == 0 || slices.ContainsFunc(w.on, func(l compatiblePool) bool { return !l.served && !l.dra }) {
			continue
		}
		for _, a := range w.amounts {
			if a.resource == wholeGPU || a.resource == shared {
				c.request(w, a)
			}
		}
	}
}

func (c *linter) request(w workload, a gpuRequest) {
	advertising := slices.DeleteFunc(slices.Clone(w.on), func(l compatiblePool) bool { return l.dra || !l.config.Advertises(a.resource) })
	switch {
	case len(advertising) == 0 && w.on[0].dra:
		c.problem(w.item, a.path, codeResourceNotAllocatable, "no node that these pods can run on advertises %s, so that they stay pending: NodePool %s advertises its GPUs by NVIDIA's DRA driver; claim one of DeviceClass %s with resourceClaims, or run them in another pool",
			finding.NewFact("resource", a.resource), finding.NewFact("nodePools", names(w.on)), finding.NewFact("deviceClass", deviceplugin.DRADriver))
	case len(advertising) == 0:
		c.problem(w.item, a.path, codeResourceNotAllocatable, "no node that these pods can run on advertises %s, so that they stay pending: NodePool %s advertises %s; request that, or run them in another pool",
			finding.NewFact("resource", a.resource), finding.NewFact("nodePools", names(w.on)), finding.NewFact("allocatable", w.on[0].config.ResourceNames()))
	case a.amount > 1 && !slices.ContainsFunc(advertising, func(l compatiblePool) bool { return !l.config.OnePerRequest }):
		c.problem(w.item, a.path, codeRequestAboveOneShare, "the kubelet refuses these pods (UnexpectedAdmissionError): NodePool %s gives a container one share at most (%s), because %d shares are no more of a GPU than one; request 1, or run them in a pool with whole GPUs",
			finding.NewFact("nodePools", names(advertising)), rule(advertising[0].config), finding.NewFact("requestedShares", a.amount))
	}
}

// rule names what refuses requests for more than one share.
func rule(p gpu.PluginConfig) string {
	if p.Strategy == gpu.SharingStrategyMPS {
		return "MPS always does"
	}
	return "failRequestsGreaterThanOne"
}

// names lists pools with their configurations.
func names(on []compatiblePool) string {
	var out []string
	for _, l := range on {
		out = append(out, l.called())
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
