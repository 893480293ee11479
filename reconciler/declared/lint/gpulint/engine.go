package gpulint

import (
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

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
			finding.Of("featureGate", overlayGate), finding.Of("devicePlugin", c.plugin.Name), finding.Of("declaredAt", c.plugin.item.Origin))
	case engine.Mode != v1alpha1.EngineOff && set && !on:
		c.problem(item, "spec.engine.featureGates["+overlayGate+"]", codeNodeOverlayFeatureGateDisabled, "without it Karpenter counts GPUs and not the shares of DevicePlugin %s (%s): take it out",
			finding.Of("devicePlugin", c.plugin.Name), finding.Of("declaredAt", c.plugin.item.Origin))
	}
}
