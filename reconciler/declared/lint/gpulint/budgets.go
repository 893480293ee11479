package gpulint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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
		"write e.g. budgets: [{nodes: \"100%%\", reasons: [Empty]}, {nodes: \"1\", reasons: [Drifted, Underutilized]}]", finding.As("budgetPercent", percent, text), finding.NewFact("maxNodes", most))
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
	if !p.served {
		return p.limit(wholeGPU)
	}
	least, found := math.Inf(1), false
	for name, each := range p.config.Allocatable(1) {
		if n, ok := p.limit(string(name)); ok && each > 0 {
			least, found = min(least, n/float64(each)), true
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

const (
	// emptyTogether is for how many nodes that become empty together the time is given.
	emptyTogether = 20
	// longestEmptying is up to which time nothing is reported.
	longestEmptying = time.Minute
	// fastRound and stockRound are about how long it takes from the end of consolidateAfter to the
	// termination of a node at either pace, which frees its place in the budgets: the goal of the
	// pace Fast, and the median that was measured of Karpenter's own controllers.
	fastRound, stockRound = 7 * time.Second, 26 * time.Second
)

// disruptionRound is how long Karpenter takes to disrupt as many empty nodes as the budgets allow.
func (c *linter) disruptionRound() time.Duration {
	for _, item := range c.items {
		var cluster v1alpha1.Cluster
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" || !read(item.Object, &cluster) {
			continue
		}
		if e := cluster.Spec.Engine; e.Pace == v1alpha1.EnginePaceStock || e.Mode == v1alpha1.EngineExternal {
			return stockRound
		}
	}
	return fastRound
}

// emptying finds budgets by which that many nodes that become empty together take long: each
// round disrupts as many as the budgets allow of those that are left. A budget that names the
// reason Empty was decided, and is not reported.
func (c *linter) emptying(p *pool, nodes int, round time.Duration) {
	d := p.Spec.Disruption
	if p.Spec.Replicas != nil || d.ConsolidateAfter == "Never" {
		return
	}
	given := d.Budgets
	if len(given) == 0 {
		given = []budget{{Nodes: "10%"}}
	}
	narrowest, sizes := -1, []string{}
	for i, b := range given {
		if !b.forEmpty() {
			continue
		}
		sizes = append(sizes, b.Nodes)
		if narrowest < 0 || allowed(b.Nodes, nodes) < allowed(given[narrowest].Nodes, nodes) {
			narrowest = i
		}
	}
	rounds, waited, ends := emptyingRounds(sizes, nodes)
	if narrowest < 0 || given[narrowest].Reasons != nil || !ends || time.Duration(rounds)*round <= longestEmptying {
		return
	}
	path, text, remedy := "spec.disruption.budgets", defaultBudgetText, "add budgets: [%s]"
	if len(d.Budgets) > 0 {
		path, text, remedy = budgetPath(narrowest), "nodes: "+given[narrowest].Nodes, "write in its place %s"
	}
	lines := fmt.Sprintf("{nodes: \"100%%\", reasons: [Empty]}, {nodes: %q, reasons: [Drifted, Underutilized]}", given[narrowest].Nodes)
	duration := time.Duration(rounds) * round
	c.warn(p.item, path, codeBudgetDelaysEmptyNodes, "%s: %d nodes that become empty together go in %d rounds, which takes %s%s: "+remedy,
		finding.As("budget", given[narrowest].Nodes, text), finding.NewFact("nodes", nodes), finding.NewFact("rounds", rounds),
		finding.As("durationSeconds", duration.Seconds(), duration), idleCost(p, time.Duration(waited)*round), lines)
}

// idleCost is what nodes cost that wait as long in all for their round; without a value where no list
// has a price.
func idleCost(p *pool, waited time.Duration) finding.Fact {
	usd := cheapest(p.gpus).OnDemandUSD * waited.Hours()
	if usd == 0 {
		return finding.As("idleCostUSD", nil, "")
	}
	return finding.As("idleCostUSD", usd, fmt.Sprintf(" and costs $%.2f or more for nodes that wait", usd))
}

// emptyingRounds is in how many rounds nodes that become empty together go by budgets of these
// sizes, and how many rounds they wait for theirs, all nodes together; false where some never go.
func emptyingRounds(sizes []string, nodes int) (rounds, waited int, ends bool) {
	for left := nodes; left > 0; rounds++ {
		now := left
		for _, size := range sizes {
			now = min(now, allowed(size, left))
		}
		if now <= 0 {
			return 0, 0, false
		}
		left -= now
		waited += left
	}
	return rounds, waited, true
}

// allowed is how many of a pool's nodes a budget of the size allows, rounded up as Karpenter does;
// 0 where the size is none, since Karpenter allows nothing then.
func allowed(size string, nodes int) int {
	percent, ok := strings.CutSuffix(size, "%")
	n, err := strconv.Atoi(percent)
	switch {
	case err != nil:
		return 0
	case ok:
		return int(math.Ceil(float64(n*nodes) / 100))
	}
	return n
}
