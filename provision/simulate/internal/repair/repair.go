// Package repair finds the unhealthy nodes of a snapshot that Karpenter repairs under its feature gate NodeRepair, by
// Karpenter's own code. Start reading at Of.
package repair

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	awscloudprovider "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"

	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/provision/simulate/internal/budget"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// unhealthyThreshold is the part of a NodePool's nodes beyond which Karpenter repairs none of them, rounded up. Karpenter does
// not export it.
const unhealthyThreshold = "20%"

// longestToleration is more than the toleration of any condition.
const longestToleration = 24 * time.Hour

// provider has the repair policies of Karpenter's AWS provider, and nothing else.
type provider struct{ cloudprovider.CloudProvider }

// RepairPolicies are those of the AWS provider.
func (provider) RepairPolicies() []cloudprovider.RepairPolicy {
	return (&awscloudprovider.CloudProvider{}).RepairPolicies()
}

// Of are the unhealthy nodes of a snapshot, by when they may be repaired, with what NodePools as they will be keep from that.
// There are none where the context has the feature gate off.
func Of(ctx context.Context, live *snapshot.Indexed, pools map[string]*karpv1.NodePool) ([]noderepair.Repair, error) {
	matcher, err := health.NewRepairPolicyMatcher(ctx, provider{})
	if err != nil {
		return nil, fmt.Errorf("reading Karpenter's repair policies: %w", err)
	}
	if matcher == nil {
		return nil, nil
	}
	var out []noderepair.Repair
	for name, pool := range pools {
		found := ofPool(matcher, live, name)
		found.block(pool, live)
		found.backOff(live, name)
		out = append(out, found.repairs...)
	}
	slices.SortFunc(out, func(a, b noderepair.Repair) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Node, b.Node))
	})
	return out, nil
}

// poolRepairs are the repairs of a NodePool.
type poolRepairs struct {
	repairs []noderepair.Repair
	// claims are the NodeClaims of repairs, in their order.
	claims []*karpv1.NodeClaim
	// nodes and unhealthy count Nodes, those that go already included.
	nodes, unhealthy int
	// uninitialized are the names of unhealthy Nodes for which no budget counts.
	uninitialized map[string]bool
}

func ofPool(matcher *health.RepairPolicyMatcher, live *snapshot.Indexed, name string) poolRepairs {
	out := poolRepairs{uninitialized: map[string]bool{}}
	for _, claim := range live.Claims[name] {
		node := live.Node(claim)
		if node == nil {
			continue
		}
		out.nodes++
		one, found := repair(matcher, claim, node, live.Now)
		if !found {
			continue
		}
		out.unhealthy++
		if !claim.DeletionTimestamp.IsZero() || !node.DeletionTimestamp.IsZero() {
			continue
		}
		out.repairs, out.claims = append(out.repairs, one), append(out.claims, claim)
		out.uninitialized[one.Node] = node.Labels[karpv1.NodeInitializedLabelKey] != "true"
	}
	return out
}

// repair is that of an unhealthy node.
func repair(matcher *health.RepairPolicyMatcher, claim *karpv1.NodeClaim, node *corev1.Node, now time.Time) (noderepair.Repair, bool) {
	matches := matcher.Match(node)
	result := health.Resolve(matches, now, rebooted(claim))
	if result.Action == "" {
		result = health.Resolve(matches, now.Add(longestToleration), rebooted(claim))
	}
	if result.Action == "" {
		return noderepair.Repair{}, false
	}
	out := noderepair.Repair{
		Node: node.Name, Pool: claim.Labels[karpv1.NodePoolLabelKey], Condition: string(result.Condition), Reason: result.Reason, From: result.SelectedEligibleAt.UTC(),
	}
	if node.Annotations[karpv1.DoNotRepairAnnotationKey] == "true" || claim.Annotations[karpv1.DoNotRepairAnnotationKey] == "true" {
		out.Blocked = noderepair.BlockedByAnnotation
	}
	return out, true
}

// rebooted is when the last reboot of a node ended, from which on tolerations are counted; zero without one.
func rebooted(claim *karpv1.NodeClaim) time.Time {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeRebooting && c.Status == metav1.ConditionFalse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// backOff records which repairs the engine's back-off of the pool keeps, and nothing else does, each at the time at which it
// may be: that a back-off which begins now ends before is known, but not which nodes are repaired until then.
func (p poolRepairs) backOff(live *snapshot.Indexed, name string) {
	pool := live.Pools[name]
	if pool == nil {
		return
	}
	// The engine takes one that it cannot read for none, too.
	b, _ := noderepair.BackoffOf(pool, live.Now)
	for i, r := range p.repairs {
		// The threshold and the budgets keep no node from being a candidate, by which the engine begins a back-off.
		if !r.From.After(live.Now) && r.Blocked != noderepair.BlockedByAnnotation {
			b = b.Observe(p.claims[i], live.Node(p.claims[i]), live.Now)
		}
	}
	for i, r := range p.repairs {
		at := r.From
		if at.Before(live.Now) {
			at = live.Now
		}
		if then := b.Observe(p.claims[i], live.Node(p.claims[i]), at); then.Active(at) && r.Blocked == "" {
			p.repairs[i].Blocked, p.repairs[i].Until = noderepair.BlockedByBackoff, then.Until.UTC()
		}
	}
}

// block records what keeps repairs: more unhealthy nodes than the threshold, or budgets of which nodes that go already have
// taken what they allow. Unhealthy nodes take nothing of them before they go.
func (p poolRepairs) block(pool *karpv1.NodePool, live *snapshot.Indexed) {
	threshold := intstr.FromString(unhealthyThreshold)
	most, _ := intstr.GetScaledValueFromIntOrPercent(&threshold, p.nodes, true) // A constant, which is always read.
	counted, disrupting := budget.Count(live, pool.Name, karpv1.DisruptionReasonUnhealthy)
	none := pool.MustGetAllowedDisruptions(live.Clock, counted, karpv1.DisruptionReasonUnhealthy) <= disrupting
	for i, r := range p.repairs {
		switch {
		case r.Blocked != "":
		case p.unhealthy > most:
			p.repairs[i].Blocked = noderepair.BlockedByThreshold
		case none && !p.uninitialized[r.Node]:
			p.repairs[i].Blocked = noderepair.BlockedByBudget
		}
	}
}
