package gpulint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// minCostRatio is how much more one large node must cost than small ones to be worth a
// warning.
const minCostRatio = 1.5

// packing finds pods with one GPU each that come together: Karpenter puts as many
// of them on a node as some instance type can hold, and buys the cheapest that
// holds them all, which may cost far more than several small ones. It compares the
// number of nodes, not their price, and consolidation never splits a node.
func (c *linter) packing() {
	worst := map[string]packed{}
	for _, w := range c.workloads {
		if p, found := c.pack(w); found {
			if before, ok := worst[p.pool.name]; !ok || p.extra() > before.extra() {
				worst[p.pool.name] = p
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(worst)) {
		p := worst[name]
		c.warn(p.pool.item, "spec.template.spec.requirements", codeFewerNodesCostMore,
			"Karpenter buys the fewest nodes, not the cheapest: the %d pods of %s (%s), a GPU each, get %s at $%.2f an hour, where %d × %s cost $%.2f (on-demand prices of %s, %s), and it never splits a node later; "+
				"add {key: %s, operator: In, values: [\"1\"]}, or the counts that are meant",
			finding.NewFact("pods", p.by.atOnce), finding.NewFact("workload", p.by.item.Key), finding.NewFact("declaredAt", p.by.item.Origin),
			finding.NewFact("nodes", p.nodes), finding.NewFact("hourlyUSD", p.price), p.by.atOnce,
			finding.NewFact("smallestType", p.small.Name), finding.NewFact("smallestHourlyUSD", p.small.price*float64(p.by.atOnce)),
			finding.NewFact("region", c.priceRegion()), finding.NewFact("pricesOf", c.types.PriceDate()), gpuCount)
	}
}

const gpuCount = "karpenter.k8s.aws/instance-gpu-count"

// packed is what becomes of a workload in a pool.
type packed struct {
	pool *pool
	by   workload
	// nodes names what is bought, price is what it costs an hour.
	nodes string
	price float64
	small priced
}

func (p packed) extra() float64 { return p.price - p.small.price*float64(p.by.atOnce) }

// priced is a type with its price an hour and how many of the pods it holds.
type priced struct {
	instanceType
	price float64
	pods  int
}

// pack works out what a workload's pods get. False where there is nothing to report.
func (c *linter) pack(w workload) (packed, bool) {
	if w.atOnce < 2 || len(w.amounts) != 1 || w.amounts[0].resource != wholeGPU || w.amounts[0].amount != 1 || spread(w.pod) {
		return packed{}, false
	}
	on := w.on
	// A pool that names counts of GPUs has chosen, and of shares one node is
	// what is desired.
	if len(on) == 0 || on[0].config.Replicas > 1 || c.recounted(on[0].pool) || slices.ContainsFunc(on[0].Spec.Template.Spec.Requirements, func(r catalog.Requirement) bool { return r.Key == gpuCount }) {
		return packed{}, false
	}
	types := c.holding(w, on[0])
	if len(types) == 0 {
		return packed{}, false
	}
	out := packed{pool: on[0].pool, by: w, small: cheapestOf(types, 1)}
	most := slices.MaxFunc(types, func(a, b priced) int { return cmp.Compare(a.pods, b.pods) }).pods
	var names []string
	for left := w.atOnce; left > 0; {
		each := min(most, left)
		t, n := cheapestOf(types, each), left/each
		out.price += t.price * float64(n)
		names = append(names, fmt.Sprintf("%d × %s", n, t.Name))
		left -= n * each
	}
	out.nodes = strings.Join(names, " and ")
	return out, most > 1 && out.price > minCostRatio*out.small.price*float64(w.atOnce)
}

// spread reports whether something keeps the pods apart.
func spread(pod corev1.PodSpec) bool {
	if pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil && len(pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return true
	}
	return slices.ContainsFunc(pod.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool {
		return t.WhenUnsatisfiable != corev1.ScheduleAnyway && t.TopologyKey == corev1.LabelHostname
	})
}

// holding are the types that the pool's limits leave and that hold at least one of
// the pods, with their prices.
func (c *linter) holding(w workload, on compatiblePool) []priced {
	var out []priced
	cpu, memory := needs(w.pod)
	region := c.priceRegion()
	for _, t := range on.on {
		price, err := c.types.OnDemand(region, t.Name)
		if err != nil || on.exceeded(t) {
			continue
		}
		if n := min(podsThatFit(t, cpu, memory), w.atOnce); n > 0 {
			out = append(out, priced{t, price.USDPerHour, n})
		}
	}
	return out
}

// cheapestOf is the cheapest type that holds so many pods. There must be one.
func cheapestOf(types []priced, pods int) priced {
	var best priced
	for _, t := range types {
		if t.pods >= pods && (best.InstanceType == nil || t.price < best.price || t.price == best.price && t.Name < best.Name) {
			best = t
		}
	}
	return best
}

// priceRegion is the Cluster's region if the catalog has its prices.
func (c *linter) priceRegion() string {
	for _, item := range c.items {
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" || len(c.instanceTypes) == 0 {
			continue
		}
		spec, _ := item.Object["spec"].(map[string]any)
		region, _ := spec["region"].(string)
		if price, err := c.types.OnDemand(region, c.instanceTypes[0].Name); err == nil && price.Basis == catalog.HomeRegion {
			return region
		}
	}
	return "us-east-1"
}

// exceeded reports whether one node of the type is beyond the pool's limits.
func (p *pool) exceeded(t instanceType) bool {
	beyond := func(name string, has float64) bool { n, ok := p.limit(name); return ok && has > n }
	gpus, limited := p.gpuLimit()
	return beyond("cpu", float64(t.VCPUs)) || beyond("memory", float64(t.MemoryMiB)*(1<<20)) || limited && float64(t.GPU.Count) > gpus
}

// needs are the CPUs and bytes that one pod requests.
func needs(pod corev1.PodSpec) (cpu, memory float64) {
	for _, o := range pod.Containers {
		list := o.Resources.Requests
		cpu += requestOf(list, o.Resources.Limits, corev1.ResourceCPU)
		memory += requestOf(list, o.Resources.Limits, corev1.ResourceMemory)
	}
	return cpu, memory
}

// podsThatFit is how many of the pods fit on a node, by the rough share of it that is
// left beside the system and the kubelet.
func podsThatFit(t instanceType, cpu, memory float64) int {
	out := float64(t.GPU.Count)
	if cpu > 0 {
		out = min(out, math.Floor((float64(t.VCPUs)-0.25)/cpu))
	}
	if memory > 0 {
		out = min(out, math.Floor((float64(t.MemoryMiB)*0.92-1024)*(1<<20)/memory))
	}
	return int(max(0, out))
}
