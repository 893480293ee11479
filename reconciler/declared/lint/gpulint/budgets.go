package gpulint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// budgets finds GPU pools whose budgets keep idle nodes: so small that a budget in percent is
// one node, or such that nodes that become empty together wait for each other.
func (c *linter) budgets() {
	round := c.disruptionRound()
	for _, p := range c.pools {
		if !p.forGPUs() {
			continue
		}
		most, bounded := p.mostNodes()
		if small := bounded && most >= 2 && c.small(p, most); !small {
			c.emptying(p, min(most, emptyTogether), round)
		}
	}
}

// small finds budgets in percent that are one node: a node that is not ready counts as
// disrupted, and the others then stay whatever they cost.
func (c *linter) small(p *pool, most int) (found bool) {
	given := p.Spec.Disruption.Budgets
	if len(given) == 0 {
		return c.budget(p, "spec.disruption.budgets", defaultBudgetText, most, 10)
	}
	for i, b := range given {
		percent, ok := strings.CutSuffix(b.Nodes, "%")
		n, err := strconv.Atoi(percent)
		if ok && err == nil && n > 0 && len(b.Reasons) == 0 && b.Schedule == "" {
			found = c.budget(p, budgetPath(i), b.Nodes, most, n) || found
		}
	}
	return found
}

// defaultBudgetText is what a pool without budgets has.
const defaultBudgetText = "there is none, and the default is 10%"

func budgetPath(i int) string { return "spec.disruption.budgets[" + strconv.Itoa(i) + "]" }

func (c *linter) budget(p *pool, path, text string, most, percent int) bool {
	if math.Ceil(float64(most*percent)/100) > 1 {
		return false
	}
	c.warn(p.item, path, codeBudgetTooSmall, "%s: of the %d nodes that the limits allow, that is 1, and a single node that is not ready uses it up, so that no idle one is removed meanwhile: "+
		"write e.g. budgets: [{nodes: \"100%%\", reasons: [Empty]}, {nodes: \"1\", reasons: [Drifted, Underutilized]}]", finding.As("budgetPercent", percent, text), finding.Of("maxNodes", most))
	return true
}

// mostNodes is how many nodes the pool's limits allow; false where they set no
// bound.
func (p *pool) mostNodes() (int, bool) {
	most := math.Inf(1)
	bound := func(limit, each float64) {
		if each > 0 {
			most = min(most, math.Floor(limit/each))
		}
	}
	smallest := func(of func(instanceType) float64) float64 {
		least := math.Inf(1)
		for _, t := range p.types {
			least = min(least, of(t))
		}
		return least
	}
	if n, ok := p.limit("nodes"); ok {
		bound(n, 1)
	}
	if n, ok := p.limit("cpu"); ok && len(p.types) > 0 {
		bound(n, smallest(func(t instanceType) float64 { return float64(t.VCPUs) }))
	}
	if n, ok := p.limit("memory"); ok && len(p.types) > 0 {
		bound(n, smallest(func(t instanceType) float64 { return float64(t.MemoryMiB) * (1 << 20) }))
	}
	if n, ok := p.gpuLimit(); ok {
		bound(n, smallest(func(t instanceType) float64 {
			if t.GPU.Manufacturer != "NVIDIA" {
				return 0
			}
			return float64(t.GPU.Count)
		}))
	}
	// Beyond this it is not small, and the number is near what an int holds.
	const many = 1 << 20
	return int(max(0, min(most, many))), most < many
}

// gpuLimit is the pool's limit in physical GPUs.
func (p *pool) gpuLimit() (float64, bool) {
	if text, ok := p.Metadata.Annotations[v1alpha1.GPULimitAnnotation]; ok {
		return amount(text)
	}
	least, found := math.Inf(1), false
	for _, name := range []string{wholeGPU, shared} {
		n, ok := p.limit(name)
		if offered, known := p.resource(); ok && (!known && name == wholeGPU || offered == name) {
			least, found = min(least, n/float64(max(1, p.config.Replicas))), true
		}
	}
	return least, found
}

// from is what a node of the cheapest of the types costs; without a value where no list has a price.
func from(types []instanceType) finding.Fact {
	usd := cheapest(types).OnDemandUSD
	if usd == 0 {
		return finding.As("hourlyUSD", nil, "at a price that no list has")
	}
	return finding.As("hourlyUSD", usd, fmt.Sprintf("at $%.2f an hour and more", usd))
}

// cheapest is the type with the lowest price; of none that has one, the zero type.
func cheapest(types []instanceType) instanceType {
	types = slices.DeleteFunc(slices.Clone(types), func(t instanceType) bool { return t.OnDemandUSD == 0 })
	if len(types) == 0 {
		return instanceType{InstanceType: &catalog.InstanceType{}}
	}
	return slices.MinFunc(types, func(a, b instanceType) int {
		switch {
		case a.OnDemandUSD < b.OnDemandUSD:
			return -1
		case a.OnDemandUSD > b.OnDemandUSD:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}
