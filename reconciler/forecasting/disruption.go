package forecasting

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
)

// Nodes are those that a forecast replaces or removes. A node whose replacement is blocked, or
// waits for a budget, counts as well: it is replaced once it may be.
func Nodes(forecast *provision.Forecast, err error) hold.Nodes {
	switch {
	case err != nil:
		return hold.Nodes{Unknown: err.Error()}
	case forecast == nil:
		return hold.Nodes{Unknown: "no Cluster specifies the region of the nodes; apply an object of that kind"}
	}
	out := hold.Nodes{Replaced: len(forecast.Replaced), Pools: lostNodes(forecast)}
	for _, pool := range forecast.Removed {
		out.Removed += len(pool.Nodes)
	}
	// Of what is unknown to the forecast, only this makes it more nodes.
	var more []string
	for _, u := range forecast.Unknown {
		if u.MoreReplaced {
			more = append(more, u.Text)
		}
	}
	out.Uncertain = strings.TrimSuffix(strings.Join(more, " "), ".")
	return out
}

// Reviewed are the consequences for status.pullRequests, which the apply of the merge is
// compared with; nil where pools change and it is not known what becomes of their nodes.
func Reviewed(p plan.Plan, f *provision.Forecast, err error) *v1alpha1.ReviewedDisruption {
	switch {
	case err == nil && f != nil:
	case len(Pools(p.Changes)) > 0:
		return nil
	default:
		f = &provision.Forecast{} // Whatever became of pods, no node is replaced.
	}
	out := &v1alpha1.ReviewedDisruption{ // No cluster has more nodes than that holds.
		NodesReplaced: int32(len(f.Replaced)), MinMinutes: int32(f.Rollout.MinMinutes), MaxMinutes: int32(f.Rollout.MaxMinutes),
	}
	if err == nil && f.Cost.Now.Unpriced+f.Cost.After.Unpriced == 0 {
		least, most, _ := f.Cost.Difference()
		out.CostChange = HourlyCost(least, most)
	}
	for _, pool := range f.Removed {
		out.NodesRemoved += int32(len(pool.Nodes))
	}
	lost := lostNodes(f)
	for _, pool := range f.Pools {
		if pool.Action != "" || len(pool.Changes) > 0 {
			lost[pool.Name] += 0
		}
	}
	for _, c := range provisioning(p.Changes) {
		out.Objects = append(out.Objects, v1alpha1.ReviewedObject(c.Fingerprint()))
		if c.Key.Kind == "NodePool" {
			lost[c.Key.Name] += 0
		}
	}
	slices.SortFunc(out.Objects, func(a, b v1alpha1.ReviewedObject) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		out.Pools = append(out.Pools, v1alpha1.ReviewedPool{Name: name, Nodes: int32(lost[name])})
	}
	return out
}

// provisioning are the changes of what Karpenter provisions nodes by, but for those that Git cannot make.
func provisioning(changes []plan.Change) []plan.Change {
	var out []plan.Change
	for _, c := range changes {
		if c.IsNodeConfiguration() && !c.ReadOnly() {
			out = append(out, c)
		}
	}
	return out
}

// lostNodes counts by pool the nodes that are replaced or go with it.
func lostNodes(f *provision.Forecast) map[string]int {
	out := map[string]int{}
	for _, node := range f.Replaced {
		out[node.Pool]++
	}
	for _, pool := range f.Removed {
		out[pool.Pool] += len(pool.Nodes)
	}
	return out
}

// HourlyCost is an amount between the two for a status: rounded to a hundredth of a cent.
func HourlyCost(least, most float64) *v1alpha1.HourlyCost {
	write := func(usd float64) string {
		return strconv.FormatFloat(math.Round(usd*1e4)/1e4+0, 'f', -1, 64) // Plus 0 is never -0.
	}
	return &v1alpha1.HourlyCost{Min: write(least), Max: write(most)}
}

// ReadHourlyCost reads an amount of a status; false for none, and where somebody has written something else there.
func ReadHourlyCost(c *v1alpha1.HourlyCost) (least, most float64, ok bool) {
	if c == nil {
		return 0, 0, false
	}
	least, failedLeast := strconv.ParseFloat(c.Min, 64)
	most, failedMost := strconv.ParseFloat(c.Max, 64)
	return least, most, failedLeast == nil && failedMost == nil
}

// ActualCostChange is by how much nodes cost more an hour once a roll-out has ended; false where that is not known.
func ActualCostChange(r *v1alpha1.RolloutOutcome) (least, most float64, ok bool) {
	if r == nil {
		return 0, 0, false
	}
	leastBefore, mostBefore, before := ReadHourlyCost(r.CostBefore)
	leastAfter, mostAfter, after := ReadHourlyCost(r.CostAfter)
	switch {
	case !before || !after:
		return 0, 0, false
	case *r.CostBefore == *r.CostAfter:
		// Spot instances that cost the same, whatever that is.
		return 0, 0, true
	}
	return leastAfter - mostBefore, mostAfter - leastBefore, true
}
