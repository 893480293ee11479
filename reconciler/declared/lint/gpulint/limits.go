package gpulint

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// limits finds limits that count something else than they seem to, or nothing.
func (c *linter) limits() {
	for _, p := range c.pools {
		for _, key := range slices.Sorted(maps.Keys(p.Spec.Limits)) {
			// 0 forbids, and does so in every unit.
			if n, ok := p.limit(key); ok && n != 0 {
				c.limit(p, key, n)
			}
		}
		c.annotated(p)
	}
}

// annotated finds a limit in GPUs that no node keeps within. What else may be wrong
// with it is refused elsewhere.
func (c *linter) annotated(p *pool) {
	n, err := strconv.Atoi(p.Metadata.Annotations[v1alpha1.GPULimitAnnotation])
	if err != nil || n < 1 || !p.known || len(p.gpus) == 0 {
		return
	}
	if least := p.fewestGPUs(); n < least {
		c.problem(p.item, "metadata.annotations["+v1alpha1.GPULimitAnnotation+"]", codeLimitBelowSmallestNode,
			"no node is ever launched: the smallest of this pool has %s; write %q, or allow smaller types",
			finding.As("smallestNodeGPUs", least, counted(float64(least), "GPU")), number(float64(least)))
	}
}

func (c *linter) limit(p *pool, key string, n float64) {
	_, annotated := p.Metadata.Annotations[v1alpha1.GPULimitAnnotation]
	serves, ofGPUs := p.served && len(p.gpus) > 0, slices.Contains([]string{wholeGPU, shared}, key)
	switch {
	case annotated && ofGPUs:
		// Two limits on the same GPUs: that is refused elsewhere.
	case ofGPUs && p.byDRADriver():
		c.report(p.item, limitPath(key), finding.Warning, finding.New(codeLimitWithoutEffect, "limits nothing: NVIDIA's DRA driver advertises the GPUs of this pool, and Karpenter does not count its devices against limits: limit nodes or cpu instead").With(finding.NewFact("resource", key)))
	case serves && p.lacksMIG(key):
		c.warn(p.item, limitPath(key), codeLimitWithoutEffect, "limits nothing: nodes of this pool advertise %s (configuration %s): write the limit in physical GPUs, as the annotation "+v1alpha1.GPULimitAnnotation,
			finding.NewFact("allocatable", p.config.ResourceNames()), finding.NewFact("config", p.config.Name))
	case serves && key == wholeGPU && p.config.Replicas > 1:
		c.shares(p, n)
	case serves && key == shared && !p.config.Renamed:
		c.warn(p.item, limitPath(key), codeLimitWithoutEffect, "limits nothing: nodes of this pool advertise %s (configuration %s)%s",
			finding.NewFact("allocatable", wholeGPU), finding.NewFact("config", p.config.Name), inGPUs(p, n/float64(p.config.Replicas)))
	default:
		c.nowhere(p, key)
	}
}

// byDRADriver reports whether NVIDIA's DRA driver serves the GPUs of the pool.
func (p *pool) byDRADriver() bool { return p.dra && len(p.gpus) > 0 }

// lacksMIG reports whether a resource is of GPUs, whole or partitioned, and the MIG devices of the pool are not advertised by it.
func (p *pool) lacksMIG(key string) bool {
	return p.config.Strategy == gpu.StrategyMIG && (key == wholeGPU || key == shared || strings.HasPrefix(key, migResource)) && !p.config.Advertises(key)
}

func limitPath(key string) string { return "spec.limits[" + key + "]" }

// shares reports what a limit on GPUs means where they are shared.
func (c *linter) shares(p *pool, n float64) {
	path, replicas := limitPath(wholeGPU), float64(p.config.Replicas)
	if p.config.Renamed {
		c.warn(p.item, path, codeLimitWithoutEffect, "limits nothing: nodes of this pool advertise %s, %d for each GPU (configuration %s)%s",
			finding.NewFact("allocatable", shared), finding.NewFact("sharesPerGPU", p.config.Replicas), finding.NewFact("config", p.config.Name), inGPUs(p, n))
		return
	}
	text := fmt.Sprintf("counts shares, not GPUs, %d for each GPU (configuration %s): %s are %s%s",
		p.config.Replicas, p.config.Name, counted(n, "share"), counted(n/replicas, "GPU"), inGPUs(p, n))
	if gpus := n / replicas; gpus >= float64(p.fewestGPUs()) && gpus == math.Trunc(gpus) {
		text += fmt.Sprintf(", and for %s write %q there", counted(gpus, "GPU"), number(gpus))
	}
	facts := []finding.Fact{finding.NewFact("config", p.config.Name), finding.NewFact("sharesPerGPU", p.config.Replicas), finding.NewFact("limitShares", n)}
	if least := float64(p.fewestGPUs()) * replicas; n < least {
		c.report(p.item, path, finding.Error, finding.New(codeLimitBelowSmallestNode, "%s. As it is, no node is ever launched: the smallest of this pool advertises %s",
			text, finding.As("smallestNodeShares", least, counted(least, "share"))).With(facts...))
		return
	}
	c.report(p.item, path, finding.Warning, finding.New(codeLimitCountsShares, "%s", text).With(facts...))
}

// inGPUs is how a limit of so many physical GPUs is written.
func inGPUs(p *pool, gpus float64) string {
	if gpus < 1 || gpus != math.Trunc(gpus) {
		return fmt.Sprintf(": write the limit in physical GPUs, as the annotation %s", v1alpha1.GPULimitAnnotation)
	}
	return fmt.Sprintf(": for %s write the annotation %s: %q instead, which is written as %s: %q",
		counted(gpus, "physical GPU"), v1alpha1.GPULimitAnnotation, number(gpus), p.config.Resource(), number(gpus*float64(p.config.Replicas)))
}

// nowhere finds limits on what no node of the pool has.
func (c *linter) nowhere(p *pool, key string) {
	switch {
	case key == wholeGPU && p.withoutGPUs():
		c.report(p.item, limitPath(key), finding.Warning, finding.New(codeLimitWithoutEffect, "limits nothing: this pool allows no instance type with an NVIDIA GPU").With(finding.NewFact("resource", key)))
	case !knownResource(key) && !c.overlaid(key):
		if suspect(key) {
			c.report(p.item, limitPath(key), finding.Warning, finding.New(codeLimitWithoutEffect, "limits nothing: no node advertises a resource of that name%s", c.meant(p, key)).With(finding.NewFact("resource", key)))
		}
	}
}

// meant names the resource that a limit is probably about.
func (c *linter) meant(p *pool, key string) string {
	if s := manifest.Suggestion(key, knownResources()); s != "" && len(p.gpus) == 0 {
		return s
	}
	n, _ := p.limit(key)
	switch {
	case len(p.gpus) == 0:
		return "; take it out"
	case p.served && p.config.Replicas > 1:
		return inGPUs(p, n)
	}
	return fmt.Sprintf("; for %s write %s: %q", counted(n, "GPU"), wholeGPU, number(n))
}

// knownResources are those that nodes have by themselves or by well-known plugins.
func knownResources() []string {
	return []string{
		"cpu", "memory", "nodes", "pods", "ephemeral-storage", wholeGPU, shared, "amd.com/gpu",
		"habana.ai/gaudi", "vpc.amazonaws.com/efa", "aws.amazon.com/neuron",
	}
}

func knownResource(key string) bool {
	if slices.Contains(knownResources(), key) {
		return true
	}
	return slices.ContainsFunc([]string{"hugepages-", "aws.amazon.com/neuron", "vpc.amazonaws.com/", "habana.ai/", "attachable-volumes-", "nvidia.com/mig-"},
		func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// suspect reports whether a name that is not known cannot be that of some plugin
// outside the repository: those have the domain of their vendor in them.
func suspect(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	return !qualified || !strings.Contains(domain, ".") || domain == "nvidia.com" || manifest.Suggestion(key, knownResources()) != ""
}
