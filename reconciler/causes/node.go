package causes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate"
)

// Node is why the node of a NodeClaim is still there. Candidate is what Karpenter's budgets and checks give for it. There is
// always a cause, if only that none was found.
func Node(o Objects, claim *karpv1.NodeClaim, candidate simulate.Candidate) []Cause {
	n := nodeCauses{Objects: o, claim: claim, candidate: candidate}
	if i := slices.IndexFunc(o.Pools, func(p *karpv1.NodePool) bool { return p.Name == candidate.Pool }); i >= 0 {
		n.pool = o.Pools[i]
	}
	if !claim.DeletionTimestamp.IsZero() {
		return append([]Cause{n.terminating()}, n.pods()...)
	}
	if c, is := o.starting(claim); is {
		return append([]Cause{c}, n.annotated()...)
	}
	notDisrupted := n.notDisrupted()
	if n.whenEmpty() {
		// Without a turn for the node, what protects its pods is no reason yet.
		return slices.Concat(n.annotated(), notDisrupted, n.pods())
	}
	blocked := append(n.annotated(), n.pods()...)
	if len(blocked) > 0 {
		notDisrupted = slices.DeleteFunc(notDisrupted, func(c Cause) bool {
			return slices.Contains([]Reason{reasonDisruptable, reasonNotEmpty, reasonAwaitingDisruption, reasonUnconsolidatable}, c.Reason)
		})
	}
	return append(blocked, notDisrupted...)
}

// nodeCauses finds the causes of one node.
type nodeCauses struct {
	Objects
	claim     *karpv1.NodeClaim
	candidate simulate.Candidate
	// pool is nil where it is gone.
	pool *karpv1.NodePool
}

// whenEmpty reports whether only pods keep the node, and no disruption of a node with pods is to come.
func (n nodeCauses) whenEmpty() bool {
	return n.pool != nil && n.candidate.Reason == "" && len(n.candidate.Pods) > 0 &&
		(n.pool.Spec.Replicas != nil || n.pool.Spec.Disruption.ConsolidateAfter.Duration == nil || n.pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty)
}

// terminating is what a node that is being deleted waits for.
func (n nodeCauses) terminating() Cause {
	out := Cause{Reason: reasonTerminating, NodePool: n.candidate.Pool, Object: "NodeClaim/" + n.claim.Name}
	if c := n.claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); c != nil {
		out.Disruption = &Disruption{Reason: c.Reason}
	}
	for _, kind := range []string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating} {
		if c := n.claim.StatusConditions().Get(kind); c != nil && !c.IsTrue() {
			out.ConditionReason, out.Message = c.Reason, c.Message
			break
		}
	}
	return out
}

// annotated is the cause of a node that must not be disrupted itself.
func (n nodeCauses) annotated() []Cause {
	if !slices.ContainsFunc(n.candidate.Blockers, func(b provision.Blocker) bool { return b.Kind == "node" }) {
		return nil
	}
	c := Cause{Reason: reasonDoNotDisrupt, NodePool: n.candidate.Pool, Disruption: &Disruption{Annotation: karpv1.DoNotDisruptAnnotationKey}}
	kind, name := "NodeClaim", n.claim.Name
	if i := slices.IndexFunc(n.Nodes, func(one *corev1.Node) bool { return one.Name == n.candidate.Name }); i >= 0 && n.Nodes[i].Annotations[karpv1.DoNotDisruptAnnotationKey] != "" {
		kind, name = "Node", n.candidate.Name
	}
	c.Object = kind + "/" + name
	c.Changes = []Remedy{{Command: "kubectl annotate " + strings.ToLower(kind) + " " + name + " " + karpv1.DoNotDisruptAnnotationKey + "-"}}
	return []Cause{c}
}

// pods are the causes of pods that must not be evicted.
func (n nodeCauses) pods() []Cause {
	var out []Cause
	for _, b := range n.candidate.Blockers {
		c := Cause{NodePool: n.candidate.Pool, Object: "Pod/" + b.Pod.Namespace + "/" + b.Pod.Name}
		switch b.Kind {
		case "do-not-disrupt":
			c.Reason, c.Disruption = reasonDoNotDisrupt, &Disruption{Annotation: karpv1.DoNotDisruptAnnotationKey}
			c.Changes = []Remedy{{Command: "kubectl -n " + b.Pod.Namespace + " annotate pod " + b.Pod.Name + " " + karpv1.DoNotDisruptAnnotationKey + "-"}}
		case "pdb":
			c.Reason, c.Disruption = reasonPodDisruptionBudget, &Disruption{PodDisruptionBudgets: b.PodDisruptionBudgets}
			for _, name := range b.PodDisruptionBudgets {
				c.Changes = append(c.Changes, Remedy{Object: "PodDisruptionBudget/" + name, Field: "spec"})
			}
		default:
			continue
		}
		out = append(out, c)
	}
	return out
}

// notDisrupted are the causes, why a node is not disrupted, in the settings of the pool and in what runs on the node.
func (n nodeCauses) notDisrupted() []Cause {
	switch {
	case n.candidate.Reason != "":
		return []Cause{n.drifted()}
	case n.pool == nil:
		return []Cause{{Reason: reasonDisruptable, NodePool: n.candidate.Pool}}
	case n.pool.Spec.Replicas != nil:
		return []Cause{{Reason: reasonStaticPool, NodePool: n.pool.Name, Disruption: &Disruption{Replicas: *n.pool.Spec.Replicas}, Changes: []Remedy{{Object: "NodePool/" + n.pool.Name, Field: "spec.replicas"}}}}
	}
	var out []Cause
	if c, is := n.bare(); is {
		out = append(out, c)
	}
	after := n.pool.Spec.Disruption.ConsolidateAfter.Duration
	switch {
	case after == nil:
		return append(out, Cause{Reason: reasonConsolidateAfterNever, NodePool: n.pool.Name, Changes: []Remedy{{Object: "NodePool/" + n.pool.Name, Field: "spec.disruption.consolidateAfter"}}})
	case len(n.candidate.Pods) > 0 && n.pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty:
		return append(out, Cause{Reason: reasonWhenEmpty, NodePool: n.pool.Name, Pods: podsOf(n.candidate.Pods), Changes: []Remedy{{Object: "NodePool/" + n.pool.Name, Field: "spec.disruption.consolidationPolicy"}}})
	}
	if c, is := n.underConsolidateAfter(); is {
		return append(out, c)
	}
	if len(n.candidate.Pods) == 0 {
		if c, is := n.blockingBudget(karpv1.DisruptionReasonEmpty); is {
			return append(out, c)
		}
		return append(out, Cause{Reason: reasonDisruptable, NodePool: n.pool.Name})
	}
	if c, is := n.blockingBudget(karpv1.DisruptionReasonUnderutilized); is {
		return append(out, c)
	}
	return append(out, n.notEmpty())
}

// drifted is why a drifted node is not replaced yet.
func (n nodeCauses) drifted() Cause {
	if c, is := n.blockingBudget(karpv1.DisruptionReasonDrifted); is {
		c.Disruption.DriftReason = n.candidate.Reason
		return c
	}
	budget := n.candidate.Budgets[karpv1.DisruptionReasonDrifted]
	return Cause{Reason: reasonAwaitingDisruption, NodePool: n.candidate.Pool, Disruption: &Disruption{
		Reason: string(karpv1.DisruptionReasonDrifted), DriftReason: n.candidate.Reason, QueuePosition: n.candidate.QueuePosition, Budget: budget.Budget,
	}}
}

// blockingBudget is the cause of budgets that allow no node of the pool now.
func (n nodeCauses) blockingBudget(reason karpv1.DisruptionReason) (Cause, bool) {
	budget, known := n.candidate.Budgets[reason]
	if !known || budget.Configured > 0 {
		return Cause{}, false
	}
	return Cause{
		Reason: reasonBudgetBlocking, NodePool: n.candidate.Pool, Disruption: &Disruption{Reason: string(reason), Budget: budget.Budget}, Until: at(budget.NextWindow),
		Changes: []Remedy{{Object: "NodePool/" + n.candidate.Pool, Field: "spec.disruption.budgets"}},
	}, true
}

// underConsolidateAfter is the cause of a node on which a pod came or went a short time ago.
func (n nodeCauses) underConsolidateAfter() (Cause, bool) {
	since := n.claim.Status.LastPodEventTime.Time
	if since.IsZero() {
		since = n.claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).LastTransitionTime.Time
	}
	after := *n.pool.Spec.Disruption.ConsolidateAfter.Duration
	until := since.Add(after)
	if !until.After(n.Now) {
		return Cause{}, false
	}
	return Cause{
		Reason: reasonConsolidateAfter, NodePool: n.pool.Name, Disruption: &Disruption{ConsolidateAfter: after.String()}, Until: at(until),
		Changes: []Remedy{{Object: "NodePool/" + n.pool.Name, Field: "spec.disruption.consolidateAfter"}},
	}, true
}

// bare is the cause of a node on which all pods have no controller.
func (n nodeCauses) bare() (Cause, bool) {
	if len(n.candidate.Pods) == 0 || slices.ContainsFunc(n.candidate.Pods, func(p provision.Pod) bool { return !p.WithoutController }) {
		return Cause{}, false
	}
	c := Cause{Reason: reasonBarePod, NodePool: n.pool.Name, Pods: podsOf(n.candidate.Pods)}
	for _, p := range n.candidate.Pods[:min(len(n.candidate.Pods), mostNames)] {
		c.Changes = append(c.Changes, Remedy{Command: "kubectl -n " + p.Namespace + " delete pod " + p.Name})
	}
	return c, true
}

// notEmpty is the cause of a node whose pods keep it.
func (n nodeCauses) notEmpty() Cause {
	c := Cause{Reason: reasonNotEmpty, Possible: true, NodePool: n.pool.Name, Pods: podsOf(n.candidate.Pods)}
	for kind, name := range map[string]string{"NodeClaim": n.claim.Name, "Node": n.candidate.Name} {
		if e := n.recent(events.Unconsolidatable, kind, "", name); e != nil {
			c.Reason, c.Possible, c.Message = reasonUnconsolidatable, false, e.Message
		}
	}
	return c
}

// mostNames is how many pods are named.
const mostNames = 5

// podsOf names the first pods.
func podsOf(pods []provision.Pod) *Pods {
	out := &Pods{Count: len(pods)}
	for _, p := range pods[:min(len(pods), mostNames)] {
		out.Names = append(out.Names, p.Namespace+"/"+p.Name)
	}
	return out
}
