package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// How long things take, in minutes: the least and the most that is usual.
const (
	minCome, maxCome, maxComeGPU = 1, 5, 10
	minDrain, maxDrain           = 1, 5
	// Karpenter reconciles each NodeClaim anew within this time.
	maxUntilDrifted = 5
	// lookahead is how far schedules are followed.
	lookahead = 366 * 24 * time.Hour
)

// rolloutRate is what the pool's budgets allow after the change.
func (c *comparison) rolloutRate(name string) provision.RolloutRate {
	pool := c.after.Pools[name]
	if pool == nil {
		return provision.RolloutRate{}
	}
	nodes, busy := c.count(name)
	allowed := pool.MustGetAllowedDisruptions(c.before.Clock, nodes, karpv1.DisruptionReasonDrifted)
	out := provision.RolloutRate{AllowedDisruptions: max(0, min(allowed, nodes)-busy)}
	budget := narrowest(pool, c.before.Clock, nodes, karpv1.DisruptionReasonDrifted)
	if budget != nil {
		out.Budget = written(*budget)
	}
	if allowed == 0 && nodes > 0 {
		if opens, ok := opening(pool, nodes, c.before.Now, karpv1.DisruptionReasonDrifted); ok {
			out.NextWindow = opens.UTC()
		}
	}
	out.Blocking = out.AllowedDisruptions == 0 && out.NextWindow.IsZero() && allowsNone(budget, c.before.Clock)
	out.LimitReached = c.fullPools[name]
	return out
}

// count counts as Karpenter does for a budget: initialized nodes, and those of
// them that are not ready or go already.
func (c *comparison) count(name string) (nodes, busy int) {
	for _, claim := range c.before.Claims[name] {
		node := c.before.Node(claim)
		if node == nil || node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			continue
		}
		nodes++
		ready := slices.ContainsFunc(node.Status.Conditions, func(cond corev1.NodeCondition) bool {
			return cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue
		})
		if !ready || !claim.DeletionTimestamp.IsZero() || !node.DeletionTimestamp.IsZero() {
			busy++
		}
	}
	return nodes, busy
}

// narrowest is the budget that allows least now, of those that count for the reason.
func narrowest(pool *karpv1.NodePool, at snapshot.FixedClock, nodes int, reason karpv1.DisruptionReason) *karpv1.Budget {
	var least *karpv1.Budget
	fewest := math.MaxInt32
	for i, budget := range pool.Spec.Disruption.Budgets {
		allowed, err := budget.GetAllowedDisruptions(at, nodes)
		if err != nil {
			allowed = 0
		}
		if concerns(budget, reason) && allowed < fewest {
			least, fewest = &pool.Spec.Disruption.Budgets[i], allowed
		}
	}
	return least
}

// allowsNone reports whether a budget is of no nodes, other than one of which as many are on
// their way as it allows; false for nil.
func allowsNone(b *karpv1.Budget, at snapshot.FixedClock) bool {
	if b == nil {
		return false
	}
	allowed, err := b.GetAllowedDisruptions(at, 100) // Of a percentage at least one.
	return err == nil && allowed == 0
}

func concerns(b karpv1.Budget, reason karpv1.DisruptionReason) bool {
	return b.Reasons == nil || slices.Contains(b.Reasons, reason)
}

func written(b karpv1.Budget) string {
	if b.Schedule == nil || b.Duration == nil {
		return b.Nodes
	}
	long := b.Duration.Duration.String()
	if short, ok := strings.CutSuffix(long, "m0s"); ok {
		long = short + "m"
	}
	if short, ok := strings.CutSuffix(long, "h0m"); ok {
		long = short + "h"
	}
	return fmt.Sprintf("%s (%s for %s)", b.Nodes, *b.Schedule, long)
}

// opening is when the pool's budgets allow a node for the first time from now.
func opening(pool *karpv1.NodePool, nodes int, now time.Time, reason karpv1.DisruptionReason) (time.Time, bool) {
	for t := now; t.Sub(now) < lookahead; {
		if pool.MustGetAllowedDisruptions(snapshot.FixedClock{At: t}, nodes, reason) > 0 {
			return t, true
		}
		next := t
		for _, budget := range pool.Spec.Disruption.Budgets {
			allowed, err := budget.GetAllowedDisruptions(snapshot.FixedClock{At: t}, nodes)
			if !concerns(budget, reason) || err == nil && allowed > 0 {
				continue
			}
			end, ok := windowEnd(budget, t)
			if !ok {
				return time.Time{}, false
			}
			if end.After(next) {
				next = end
			}
		}
		if !next.After(t) {
			return time.Time{}, false
		}
		t = next
	}
	return time.Time{}, false
}

// windowEnd is when the budget's window around t ends; windows that overlap are
// one. A budget without a schedule never ends.
func windowEnd(b karpv1.Budget, t time.Time) (time.Time, bool) {
	if b.Schedule == nil || b.Duration == nil {
		return time.Time{}, false
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + *b.Schedule)
	if err != nil {
		return time.Time{}, false
	}
	hit := schedule.Next(t.UTC().Add(-b.Duration.Duration))
	for range 100_000 {
		next := schedule.Next(hit)
		if hit.Sub(t) > lookahead {
			return time.Time{}, false
		}
		if next.IsZero() || next.After(hit.Add(b.Duration.Duration)) {
			return hit.Add(b.Duration.Duration), true
		}
		hit = next
	}
	return time.Time{}, false
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
	pool, pace := c.after.Pools[name], c.rolloutRate(name)
	if pool == nil || pace.AllowedDisruptions > 0 {
		return pace.AllowedDisruptions, 0, false
	}
	at := pace.NextWindow
	if at.IsZero() {
		at = c.before.Now
	}
	total, _ := c.count(name)
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
