package gpulint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const resourceGroup = "resource.k8s.io"

// unprovisioned are DeviceClasses of NVIDIA's chart and of dranet for devices that Karpenter does not expect of any
// instance type, with what to do.
var unprovisioned = map[string]string{
	"mig.nvidia.com":                            "it expects whole GPUs, and the driver partitions none here. Claim one of " + deviceplugin.DRADriver + ", or share GPUs by timeSlicing or mps in a pool of the device plugin",
	"vfio.gpu.nvidia.com":                       "it expects GPUs of the NVIDIA driver. Claim one of " + deviceplugin.DRADriver,
	"compute-domain-daemon.nvidia.com":          "it expects no ComputeDomains, and nothing here installs their controller. Run these pods on nodes that are not Karpenter's",
	"compute-domain-default-channel.nvidia.com": "it expects no ComputeDomains, and nothing here installs their controller. Run these pods on nodes that are not Karpenter's",
}

// deviceRequest is what a claim requests, at the path of its class.
type deviceRequest struct{ path, class string }

// claims finds claims of devices that nothing provides: of a DeviceClass or by a template that is not declared, and of
// GPUs in pools that have no DRA driver.
func (c *linter) claims() {
	for _, item := range c.items {
		if item.Key.Group != resourceGroup {
			continue
		}
		spec, path, ok := claimSpec(item)
		if !ok {
			continue
		}
		for _, r := range deviceRequests(spec, path) {
			c.deviceClass(item, r)
		}
		for i, constraint := range spec.Devices.Constraints {
			if constraint.DistinctAttribute != nil {
				c.warn(item, fmt.Sprintf("%s.devices.constraints[%d].distinctAttribute", path, i), codeClaimNotProvisioned,
					"Karpenter 1.15 does not support it and launches no node for pods with this claim: take it out, or request the devices in pods of their own")
			}
		}
	}
	for _, w := range c.workloads {
		for i, claim := range w.pod.ResourceClaims {
			c.podClaim(w, fmt.Sprintf("%s.resourceClaims[%d]", w.path, i), claim)
		}
	}
}

// claimSpec is the claim that an object is or is a template of, with its path.
func claimSpec(item state.Item) (resourcev1.ResourceClaimSpec, string, bool) {
	switch item.Key.Kind {
	case "ResourceClaim":
		var claim resourcev1.ResourceClaim
		ok := read(item.Object, &claim)
		return claim.Spec, "spec", ok
	case "ResourceClaimTemplate":
		var template resourcev1.ResourceClaimTemplate
		ok := read(item.Object, &template)
		return template.Spec.Spec, "spec.spec", ok
	}
	return resourcev1.ResourceClaimSpec{}, "", false
}

// deviceRequests are the requests of a claim, alternatives among them.
func deviceRequests(spec resourcev1.ResourceClaimSpec, path string) []deviceRequest {
	var out []deviceRequest
	for i, r := range spec.Devices.Requests {
		at := fmt.Sprintf("%s.devices.requests[%d]", path, i)
		if r.Exactly != nil {
			out = append(out, deviceRequest{at + ".exactly.deviceClassName", r.Exactly.DeviceClassName})
		}
		for j, alternative := range r.FirstAvailable {
			out = append(out, deviceRequest{fmt.Sprintf("%s.firstAvailable[%d].deviceClassName", at, j), alternative.DeviceClassName})
		}
	}
	return out
}

// hasDRADriver reports whether a configuration advertises GPUs by the DRA driver.
func (c *linter) hasDRADriver() bool {
	return c.plugin != nil && slices.ContainsFunc(c.plugin.Spec.Configs, func(p v1alpha1.DevicePluginConfig) bool { return p.DRADriver != nil })
}

func (c *linter) deviceClass(item state.Item, r deviceRequest) {
	switch why, never := unprovisioned[r.class]; {
	case never:
		c.warn(item, r.path, codeClaimNotProvisioned, "Karpenter 1.15 launches no node for DeviceClass %s: %s", finding.NewFact("deviceClass", r.class), why)
	case c.partial || c.declares("DeviceClass", "", r.class):
	case r.class == deviceplugin.DRADriver && c.hasDRADriver():
	case r.class == deviceplugin.DRADriver && c.plugin != nil:
		c.problem(item, r.path, codeDRADriverMissing, "no configuration of DevicePlugin %s (%s) has draDriver, so that there are no such devices and pods with this claim stay pending: add a configuration with draDriver: {} for a NodePool, or request nvidia.com/gpu",
			finding.NewFact("devicePlugin", c.plugin.Name), finding.NewFact("declaredAt", c.plugin.item.Origin))
	default:
		c.warn(item, r.path, codeDeviceClassUndeclared, "DeviceClass %q is not declared here: where the cluster has none of that name, pods with this claim stay pending",
			finding.NewFact("deviceClass", r.class))
	}
}

// podClaim checks a pod's claim: that it is declared, and that a pool can provide its GPUs.
func (c *linter) podClaim(w workload, path string, claim corev1.PodResourceClaim) {
	kind, field, name := "ResourceClaimTemplate", "resourceClaimTemplateName", claim.ResourceClaimTemplateName
	if name == nil {
		kind, field, name = "ResourceClaim", "resourceClaimName", claim.ResourceClaimName
	}
	if name == nil || c.partial {
		return
	}
	at := slices.IndexFunc(c.items, func(item state.Item) bool { return isClaim(item, kind, w.item.Key.Namespace, *name) })
	if at < 0 {
		c.warn(w.item, path+"."+field, codeResourceClaimUndeclared, "%s %s is not declared here: where the cluster has none of that name in namespace %s, these pods stay pending",
			finding.NewFact("kind", kind), finding.NewFact("name", *name), finding.NewFact("namespace", w.item.Key.Namespace))
		return
	}
	spec, _, ok := claimSpec(c.items[at])
	requests := deviceRequests(spec, "")
	if !ok || len(requests) == 0 || slices.ContainsFunc(requests, func(r deviceRequest) bool { return r.class != deviceplugin.DRADriver }) {
		return
	}
	on := c.compatiblePools(w)
	// What serves a pool without a configuration is not known here.
	if len(on) == 0 || slices.ContainsFunc(on, func(l compatiblePool) bool { return l.dra || !l.served }) {
		return
	}
	c.problem(w.item, path, codeDRADriverMissing, "these pods claim GPUs, and NodePool %s advertises its GPUs by the device plugin, so that they stay pending: request %s, or run them in a pool of a configuration with draDriver",
		finding.NewFact("nodePools", names(on)), finding.NewFact("allocatable", on[0].config.ResourceNames()))
}

func isClaim(item state.Item, kind, namespace, name string) bool {
	return item.Key.Group == resourceGroup && item.Key.Kind == kind && item.Key.Namespace == namespace && item.Key.Name == name
}

// declares reports whether the repository declares an object of the group of claims.
func (c *linter) declares(kind, namespace, name string) bool {
	return slices.ContainsFunc(c.items, func(item state.Item) bool { return isClaim(item, kind, namespace, name) })
}
