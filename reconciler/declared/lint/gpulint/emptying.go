package gpulint

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

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
		finding.As("budget", given[narrowest].Nodes, text), finding.Of("nodes", nodes), finding.Of("rounds", rounds),
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
