package gpulint

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// The weights of the overlays which a DevicePlugin makes: of pools that a configuration
// names, and of those that have the default configuration because none does. A test
// compares them with what is made.
const (
	namedWeight   = 10_000
	defaultWeight = 9_999
)

// overlays finds overlays that set for the same GPUs what a DevicePlugin sets.
func (c *linter) overlays() {
	for _, o := range c.overlay {
		for _, resource := range []string{wholeGPU, shared} {
			if _, names := o.Spec.Capacity[resource]; !names {
				continue
			}
			if p := c.overlaidPool(o); p != nil {
				c.problem(o.item, "spec.capacity["+resource+"]", codeNodeOverlayConflict, "configuration %s of DevicePlugin %s (%s) already declares how many GPUs nodes of NodePool %s offer, %s: remove the overlay, or keep the overlay off the pool",
					finding.Of("config", p.config.Name), finding.Of("devicePlugin", c.sharing.Name), finding.Of("declaredAt", c.plugin.item.Origin), finding.Of("nodePool", p.name), conflict(o.Spec.Weight, p))
				break
			}
		}
	}
}

// conflict is what becomes of an overlay beside a DevicePlugin's for a pool.
func conflict(weight int64, p *pool) string {
	theirs := int64(defaultWeight)
	if slices.Contains(p.config.Pools, p.name) {
		theirs = namedWeight
	}
	switch {
	case weight > theirs:
		return fmt.Sprintf("by overlays of weight %d, so that this number wins, nodes never agree with it, and are replaced again and again", theirs)
	case weight == theirs:
		return "by overlays of the same weight, so that Karpenter honours one of both and calls the other invalid"
	}
	return fmt.Sprintf("by overlays of weight %d, so that this number has no effect", theirs)
}

// overlaidPool is the first pool with a configuration that the overlay can apply to.
func (c *linter) overlaidPool(o overlay) *pool {
	for _, p := range c.pools {
		if p.served && o.canApply(p) {
			return p
		}
	}
	return nil
}
