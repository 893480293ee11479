// Package budget has what the disruption budgets of a NodePool allow, and when, as Karpenter's own code counts. It disrupts
// nothing. Start reading at Count.
package budget

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// lookahead is how far schedules are followed.
const lookahead = 366 * 24 * time.Hour

// Count counts the nodes of a pool as Karpenter does for a budget: nodes are those that are initialized or reboot and whose instance
// does not terminate yet, disrupting those of them that go already or reboot, and for every reason but Unhealthy those that are
// not ready.
func Count(live *snapshot.Indexed, pool string, reason karpv1.DisruptionReason) (nodes, disrupting int) {
	for _, claim := range live.Claims[pool] {
		node := live.Node(claim)
		if node == nil {
			continue
		}
		reboots := snapshot.Condition(claim, karpv1.ConditionTypeRebooting).IsTrue()
		if node.Labels[karpv1.NodeInitializedLabelKey] != "true" && !reboots || snapshot.Condition(claim, karpv1.ConditionTypeInstanceTerminating).IsTrue() {
			continue
		}
		nodes++
		ready := nodeutils.GetCondition(node, corev1.NodeReady).Status == corev1.ConditionTrue
		if !claim.DeletionTimestamp.IsZero() || !node.DeletionTimestamp.IsZero() || reboots || !ready && reason != karpv1.DisruptionReasonUnhealthy {
			disrupting++
		}
	}
	return nodes, disrupting
}

// Narrowest is the budget that allows least now, of those that count for the reason.
func Narrowest(pool *karpv1.NodePool, at snapshot.FixedClock, nodes int, reason karpv1.DisruptionReason) *karpv1.Budget {
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

// AllowsNone reports whether a budget is of no nodes, other than one of which as many are on
// their way as it allows; false for nil.
func AllowsNone(b *karpv1.Budget, at snapshot.FixedClock) bool {
	if b == nil {
		return false
	}
	allowed, err := b.GetAllowedDisruptions(at, 100) // Of a percentage at least one.
	return err == nil && allowed == 0
}

func concerns(b karpv1.Budget, reason karpv1.DisruptionReason) bool {
	return b.Reasons == nil || slices.Contains(b.Reasons, reason)
}

// Written is a budget as people read it: its nodes, and its window.
func Written(b karpv1.Budget) string {
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

// NextWindow is when the pool's budgets allow a node for the first time from now; found is false where they do not within a year.
func NextWindow(pool *karpv1.NodePool, nodes int, now time.Time, reason karpv1.DisruptionReason) (time.Time, bool) {
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
