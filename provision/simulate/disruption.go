package simulate

import (
	"fmt"
	"math"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/budget"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// How long things take, in minutes: the least and the most that is usual.
const (
	minCome, maxCome, maxComeGPU = 1, 5, 10
	minDrain, maxDrain           = 1, 5
	// Karpenter reconciles each NodeClaim anew within this time.
	maxUntilDrifted = 5
)

// disruption is what the pool's budgets allow after the change.
func (c *comparison) disruption(name string) provision.PoolDisruption {
	pool := c.after.Pools[name]
	if pool == nil {
		return provision.PoolDisruption{}
	}
	nodes, busy := budget.Count(c.before.Resolved.Indexed, name, karpv1.DisruptionReasonDrifted)
	allowed := pool.MustGetAllowedDisruptions(c.before.Clock, nodes, karpv1.DisruptionReasonDrifted)
	out := provision.PoolDisruption{AllowedDisruptions: max(0, min(allowed, nodes)-busy)}
	least := budget.Narrowest(pool, c.before.Clock, nodes, karpv1.DisruptionReasonDrifted)
	if least != nil {
		out.Budget = budget.Written(*least)
	}
	if allowed == 0 && nodes > 0 {
		if opens, ok := budget.NextWindow(pool, nodes, c.before.Now, karpv1.DisruptionReasonDrifted); ok {
			out.NextWindow = opens.UTC()
		}
	}
	out.Blocking = out.AllowedDisruptions == 0 && out.NextWindow.IsZero() && budget.AllowsNone(least, c.before.Clock)
	out.LimitMessage = c.fullPools[name]
	return out
}

// rollout adds up how long the replacing takes: pools work side by side, each in
// rounds of as many nodes as its budgets allow.
func (c *comparison) rollout() provision.Rollout {
	out := provision.Rollout{Nodes: len(c.replaced), Assumptions: []string{}}
	free := map[string][]provision.Node{}
	for _, node := range c.replaced {
		out.Pods += len(node.Pods)
		if node.Blocked() {
			out.Blocked++
			continue
		}
		free[node.Pool] = append(free[node.Pool], node)
	}
	out.Incomplete = out.Blocked > 0
	// Those that are to go anyway may be before them.
	queue := map[string]int{}
	for _, node := range c.drifted {
		if !node.Blocked() {
			queue[node.Pool]++
		}
	}
	for name, nodes := range free {
		atOnce, wait, _ := c.replacementBatch(name)
		if atOnce == 0 {
			out.Incomplete = true
			continue
		}
		least, most := rounds(len(nodes), atOnce), rounds(len(nodes)+queue[name], atOnce)
		out.MinMinutes = max(out.MinMinutes, wait+least*(minCome+minDrain))
		out.MaxMinutes = max(out.MaxMinutes, wait+maxUntilDrifted+most*(c.longestCome(nodes)+c.longestDrain(nodes)))
	}
	if out.Nodes > 0 {
		out.Assumptions = assumptions()
	}
	return out
}

// replacementBatch is how many nodes of a pool are replaced at once and after how many minutes
// of waiting for a budget to open; never is that budgets allow none within a year.
func (c *comparison) replacementBatch(name string) (atOnce, wait int, never bool) {
	pool, pace := c.after.Pools[name], c.disruption(name)
	if pool == nil || pace.AllowedDisruptions > 0 {
		return pace.AllowedDisruptions, 0, false
	}
	at := pace.NextWindow
	if at.IsZero() {
		at = c.before.Now
	}
	total, _ := budget.Count(c.before.Resolved.Indexed, name, karpv1.DisruptionReasonDrifted)
	atOnce = min(total, pool.MustGetAllowedDisruptions(snapshot.FixedClock{At: at}, total, karpv1.DisruptionReasonDrifted))
	return atOnce, int(math.Ceil(at.Sub(c.before.Now).Minutes())), atOnce == 0 && total > 0
}

func rounds(nodes, atOnce int) int { return (nodes + atOnce - 1) / atOnce }

func assumptions() []string {
	return []string{
		fmt.Sprintf("Karpenter marks a node as Drifted within %d minutes.", maxUntilDrifted),
		fmt.Sprintf("A replacement is initialized within %d to %d minutes, one with GPUs within %d, and AWS has capacity for it.", minCome, maxCome, maxComeGPU),
		fmt.Sprintf("A node is drained within %d to %d minutes, or within the longest termination grace period of its pods.", minDrain, maxDrain),
		"Nodes of several pools are replaced in parallel; no other disruption counts against their budgets, and no scheduled budget opens or closes meanwhile.",
		"Which zones the volumes of pods are in is not known: a pod with a volume of one zone is taken to run in any zone that its node selectors and affinities allow.",
	}
}

func (c *comparison) longestCome(nodes []provision.Node) int {
	for _, n := range nodes {
		if t, ok := c.catalog.Types.Lookup(n.InstanceType); ok && t.HasGPU() {
			return maxComeGPU
		}
	}
	return maxCome
}

// longestDrain is how long the slowest pod may take, whole minutes.
func (c *comparison) longestDrain(nodes []provision.Node) int {
	longest := maxDrain * time.Minute
	for _, n := range nodes {
		for _, pod := range c.before.Bound[n.Name] {
			if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
				longest = max(longest, time.Duration(min(*s, 1<<30))*time.Second)
			}
		}
		for _, b := range n.Blockers {
			longest = max(longest, time.Duration(b.ForcedAfterSeconds)*time.Second)
		}
	}
	return int(math.Ceil(longest.Minutes()))
}
