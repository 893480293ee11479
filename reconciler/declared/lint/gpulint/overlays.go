package gpulint

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
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
				c.problem(o.item, "spec.capacity["+resource+"]", codeNodeOverlayConflict, "configuration %s of DevicePlugin %s (%s) already declares how many GPUs nodes of NodePool %s advertise, %s: remove the overlay, or keep the overlay off the pool",
					finding.NewFact("config", p.config.Name), finding.NewFact("devicePlugin", c.sharing.Name), finding.NewFact("declaredAt", c.plugin.item.Origin), finding.NewFact("nodePool", p.name), conflict(o.Spec.Weight, p))
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

// overlayGate is Karpenter's name for what honours NodeOverlays.
const overlayGate = "NodeOverlay"

// engine finds a Cluster whose provisioner does not count by the DevicePlugin.
func (c *linter) engine() {
	if c.plugin == nil {
		return
	}
	for _, item := range c.items {
		if item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster" {
			c.provisioner(item)
		}
	}
}

func (c *linter) provisioner(item state.Item) {
	var cluster v1alpha1.Cluster
	if !read(item.Object, &cluster) {
		return
	}
	engine := cluster.Spec.Engine
	on, set := engine.FeatureGates[overlayGate]
	switch {
	case engine.Mode == v1alpha1.EngineExternal:
		c.warn(item, "spec.engine.mode", codeNodeOverlayFeatureGateRequired, "the Karpenter that provisions nodes must run with the feature gate %s=true, or it counts GPUs and not the shares of DevicePlugin %s (%s); nodes take pods before the numbers agree there",
			finding.NewFact("featureGate", overlayGate), finding.NewFact("devicePlugin", c.plugin.Name), finding.NewFact("declaredAt", c.plugin.item.Origin))
	case engine.Mode != v1alpha1.EngineOff && set && !on:
		c.problem(item, "spec.engine.featureGates["+overlayGate+"]", codeNodeOverlayFeatureGateDisabled, "without it Karpenter counts GPUs and not the shares of DevicePlugin %s (%s): take it out",
			finding.NewFact("devicePlugin", c.plugin.Name), finding.NewFact("declaredAt", c.plugin.item.Origin))
	}
}
