package get

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
)

// Phase is what a node was from a time on, until the next phase began.
type Phase struct {
	// State is one of those of a node, or Empty for one that is ready and has no pods.
	State string `json:"state"`
	// Since is when it began.
	Since metav1.Time `json:"since"`
}

// phaseEmpty is the state of a phase in which a node was ready and had no pods.
const phaseEmpty = "Empty"

// addStartup adds the phases that begin with conditions of a NodeClaim.
func addStartup(claim *karpv1.NodeClaim, add func(state string, since metav1.Time)) {
	if claim == nil {
		return
	}
	for i, step := range startup {
		c := conditionOf(claim, step.condition)
		if c.Status != metav1.ConditionTrue {
			return
		}
		next := stateReady
		if i+1 < len(startup) {
			next = startup[i+1].state
		}
		add(next, c.LastTransitionTime)
	}
}

// phasesOf are those of a node, by the times in its objects. A node without a NodeClaim has been registering until it was ready.
func phasesOf(claim *karpv1.NodeClaim, node *corev1.Node, n Node) []Phase {
	out := []Phase{{State: startup[0].state, Since: n.Created}}
	if claim == nil {
		out[0].State = startup[1].state
	}
	add := func(state string, since metav1.Time) {
		// Clocks and orders of writes differ: no phase begins before the one that it follows.
		if last := out[len(out)-1].Since; since.Before(&last) {
			since = last
		}
		out = append(out, Phase{State: state, Since: since})
	}
	addStartup(claim, add)
	if node != nil {
		switch ready := nodeutils.GetCondition(node, corev1.NodeReady); {
		case ready.Type != "" && ready.Status != corev1.ConditionTrue && n.State == stateNotReady:
			add(stateNotReady, ready.LastTransitionTime)
		case claim == nil && ready.Status == corev1.ConditionTrue:
			add(stateReady, ready.LastTransitionTime)
		}
	}
	if n.Ready() && n.Pods != nil && *n.Pods == 0 {
		var since metav1.Time
		if claim != nil {
			since = claim.Status.LastPodEventTime
		}
		add(phaseEmpty, since)
	}
	for _, at := range deletion(claim, node) {
		add(stateTerminating, at)
	}
	return out
}

// deletion is when the NodeClaim, or without one the Node, was deleted; empty where it is not.
func deletion(claim *karpv1.NodeClaim, node *corev1.Node) []metav1.Time {
	switch {
	case claim != nil && claim.DeletionTimestamp != nil:
		return []metav1.Time{*claim.DeletionTimestamp}
	case claim == nil && node != nil && node.DeletionTimestamp != nil:
		return []metav1.Time{*node.DeletionTimestamp}
	}
	return nil
}
