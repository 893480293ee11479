package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

const gateNodeOverlay = "NodeOverlay"

// GateDRA is the feature gate by which Karpenter launches nodes for ResourceClaims of GPUs.
const GateDRA = "DRANVIDIAGPU"

// gates are those of Karpenter's core and of its provider for AWS.
type gates struct {
	core coreoptions.FeatureGates
	aws  awsoptions.FeatureGates
}

// featureGate ties a gate's name to its place in Karpenter's options.
type featureGate struct {
	name  string
	field func(*gates) *bool
}

// featureGates are all gates of the embedded version, sorted by name; a test
// compares them with the fields of Karpenter's own struct.
func featureGates() []featureGate {
	return []featureGate{
		{"CapacityBuffer", func(g *gates) *bool { return &g.core.CapacityBuffer }},
		{GateDRA, func(g *gates) *bool { return &g.aws.DRANVIDIAGPU }},
		{gateNodeOverlay, func(g *gates) *bool { return &g.core.NodeOverlay }},
		{"NodeRepair", func(g *gates) *bool { return &g.core.NodeRepair }},
		{"ReservedCapacity", func(g *gates) *bool { return &g.core.ReservedCapacity }},
		{"SpotToSpotConsolidation", func(g *gates) *bool { return &g.core.SpotToSpotConsolidation }},
		{"StaticCapacity", func(g *gates) *bool { return &g.core.StaticCapacity }},
		{"TerminateFirstDrift", func(g *gates) *bool { return &g.core.TerminateFirstDrift }},
		{"TerminateFirstRepair", func(g *gates) *bool { return &g.core.TerminateFirstRepair }},
	}
}

// refusedGates are the gates of the embedded version that stay off, with the reason; the same
// test has them.
func refusedGates() map[string]string {
	return map[string]string{
		"DRAEFA":                    "nothing here runs a DRA driver for network devices, and they are not part of the forecast",
		"NodeClassCEL":              "it is of alpha stage, and the drift and the capacity of nodes by expressions are not part of the forecast",
		"PodDeletionCostManagement": "its controller needs the permission to patch every pod",
		"RebootForRepair":           "it needs ec2:RebootInstances, which the engine's policy does not grant",
	}
}

// validateGates refuses names that Karpenter would silently ignore, and gates that stay off.
func validateGates(set map[string]bool) error {
	known := make([]string, 0, len(featureGates()))
	for _, g := range featureGates() {
		known = append(known, g.name)
	}
	var unknown []string
	for name := range set {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	var errs []error
	for _, name := range unknown {
		if because, ok := refusedGates()[name]; ok {
			errs = append(errs, fmt.Errorf("spec.engine.featureGates has %q, which the engine does not offer, because %s: leave it out", name, because))
			continue
		}
		errs = append(errs, fmt.Errorf("spec.engine.featureGates has %q, which Karpenter does not have: its feature gates are %s", name, strings.Join(known, ", ")))
	}
	return errors.Join(errs...)
}

// resolveGates is Karpenter's default for every gate, ours for NodeOverlay, and
// then what is set.
func resolveGates(set map[string]bool) gates {
	resolved := gates{core: coreoptions.DefaultFeatureGates(), aws: awsoptions.DefaultFeatureGates()}
	resolved.core.NodeOverlay = true
	for _, g := range featureGates() {
		if on, ok := set[g.name]; ok {
			*g.field(&resolved) = on
		}
	}
	return resolved
}

// EffectiveFeatureGates are all of Karpenter's feature gates by name, as they are on or off under
// these settings.
func (s Settings) EffectiveFeatureGates() map[string]bool { return effectiveGates(s.FeatureGates) }

// effectiveGates writes every gate out, so that a default spelled out and one
// left out are the same settings.
func effectiveGates(set map[string]bool) map[string]bool {
	resolved := resolveGates(set)
	all := make(map[string]bool, len(featureGates()))
	for _, g := range featureGates() {
		all[g.name] = *g.field(&resolved)
	}
	return all
}
