package readiness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
)

// FailedAnnotation on a NodeClaim is why it is replaced. It is written before the
// deletion, for whoever reads a claim that goes; it is taken away again when the node
// advertises its GPUs after all.
const FailedAnnotation = "poolwright.dev/gpu-failed"

// overdue replaces a node that has not advertised its GPUs in time. It returns how
// long the node still has, or 0.
func (k *Controller) overdue(ctx context.Context, s nodeView) (time.Duration, error) {
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		return 0, err
	}
	left, counts := k.timeLeft(s, claim)
	if !counts || left > 0 {
		k.records.setBlocker(s.node.Name, blocker{})
		return left, nil
	}
	if why := k.blockedBy(s, claim); why != (blocker{}) {
		k.records.setBlocker(s.node.Name, blocker{})
		k.blockedEvent(s, claim, why)
		return grace, nil // Not all of what spares it is watched.
	}
	wait, err := k.budgetWait(ctx, s, claim)
	if err != nil {
		return 0, err
	}
	if wait > 0 {
		k.records.setBlocker(s.node.Name, atBudget)
		return wait, nil
	}
	return k.replace(ctx, s.node.Name)
}

// timeLeft is how long a node still has. It returns false for one that is on its way
// out, or whose time has not begun.
func (k *Controller) timeLeft(s nodeView, claim *karpv1.NodeClaim) (time.Duration, bool) {
	at, ok := registeredAt(claim)
	if !ok || claim.DeletionTimestamp != nil || s.node.DeletionTimestamp != nil {
		return 0, false
	}
	now := k.cfg.Clock.Now()
	return s.deadline(at, k.records.timesOf(s.node, now)).Sub(now), true
}

// replace deletes a node's claim, if all the reasons for it still hold where no cache
// is in between: the DevicePlugin, the node and its claim, the plugin's pods and
// DaemonSets, and those of others. Only how many nodes the pool has, which bounds the
// replacements, is taken from the cache. Karpenter drains the node, and buys another
// when pods need one.
func (k *Controller) replace(ctx context.Context, name string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := k.cfg.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, fmt.Errorf("reading node %q again before it is replaced: %w", name, err)
	}
	plugin, err := readPlugin(ctx, k.cfg.Live, k.cfg.LiveSharing)
	if err != nil {
		return 0, err
	}
	s, ours := plugin.viewOf(node)
	if !ours || initialized(node) || s.health.Ready && nodeReady(node) {
		return conflictRetry, nil // The cache will have the same soon.
	}
	k.records.observe(&s, k.cfg.Clock.Now()) // What is declared may have changed this moment.
	claim, err := claimOf(ctx, k.cfg.Live, node)
	if err != nil || claim == nil {
		return 0, err
	}
	if left, counts := k.timeLeft(s, claim); !counts || left > 0 {
		return left, nil
	}
	return k.proceed(ctx, s, claim)
}

// proceed replaces a node whose time is up, unless something stands in its way.
func (k *Controller) proceed(ctx context.Context, s nodeView, claim *karpv1.NodeClaim) (time.Duration, error) {
	if k.blockedBy(s, claim) != (blocker{}) {
		return conflictRetry, nil // The cache will have the same soon, and why.
	}
	name := s.node.Name
	found, err := k.foreign(ctx, s.node)
	if err != nil {
		return 0, err
	}
	k.records.setBlocker(name, found)
	if found != (blocker{}) {
		k.blockedEvent(s, claim, found)
		return grace, nil
	}
	if wait, err := k.budgetWait(ctx, s, claim); wait > 0 || err != nil {
		k.records.setBlocker(name, atBudget)
		return wait, err
	}
	k.budget.take(s.pool, claim.UID, k.cfg.Clock.Now())
	return 0, k.deleteClaim(ctx, s, claim)
}

// deleteClaim marks and deletes a claim. It is counted and reported once it is deleted: a
// node that is saved by a conflict has not failed. A crash in between loses a
// count, and never adds one, since nobody deletes a claim twice.
func (k *Controller) deleteClaim(ctx context.Context, s nodeView, claim *karpv1.NodeClaim) error {
	reason, message := s.diagnosis()
	if err := k.annotate(ctx, claim, reason); err != nil {
		return err
	}
	preconditions := client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion}
	if err := k.cfg.Client.Delete(ctx, claim, preconditions); err != nil {
		return fmt.Errorf("deleting NodeClaim %q, whose node does not advertise its GPUs: %w", claim.Name, err)
	}
	failures, until := k.cfg.Backoff.Failed(s.pool, reason+": "+message)
	k.series.replacedOne(s.pool, reason)
	at, _ := registeredAt(claim)
	now := k.cfg.Clock.Now()
	text := fmt.Sprintf("The node does not advertise %s (configuration %s) %s after registration and is replaced: %s",
		s.health.Expected, s.config.Name, now.Sub(at).Round(time.Second), message)
	if until.After(now) {
		text += fmt.Sprintf("; it is number %d in a row: no GPU node of pool %s is launched until %s", failures, s.pool, until.UTC().Format("15:04 UTC"))
	}
	k.cfg.Log.Info(text, "node", s.node.Name, "nodeclaim", claim.Name, "nodepool", s.pool, "reason", reason)
	k.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reason, text)
	k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, reason, text)
	k.cfg.OnChange()
	return nil
}

// annotate writes on a claim why it is replaced, and leaves it as it is after the
// writing; an empty reason takes the mark away.
func (k *Controller) annotate(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	if claim.Annotations[FailedAnnotation] == reason {
		return nil
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[FailedAnnotation] = reason
	if reason == "" {
		delete(claim.Annotations, FailedAnnotation)
	}
	if err := k.cfg.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("marking NodeClaim %q by whether its node advertises its GPUs: %w", claim.Name, err)
	}
	return nil
}

// clearReason takes the mark from the claim of a node that agrees: its deletion failed,
// and then it came to advertise its GPUs after all.
func (k *Controller) clearReason(ctx context.Context, s nodeView) error {
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil || claim.DeletionTimestamp != nil {
		return err
	}
	return k.annotate(ctx, claim, "")
}

// diagnosis is why a node is replaced, or would be. A failing kubelet explains all that
// is observed of the node; what it is compared with comes first.
func (s *nodeView) diagnosis() (reason, message string) {
	if s.unapplied != "" {
		return NotApplied, s.unapplied
	}
	if nodeReady(s.node) {
		return s.health.Reason, s.health.Message
	}
	if c := nodeutils.GetCondition(s.node, corev1.NodeReady); c.Type != "" {
		return NodeNotReady, "the node is not ready: " + cut(c.Reason+": "+c.Message)
	}
	return NodeNotReady, "the node's kubelet has never reported on it"
}

// claimOf finds the NodeClaim of a node: Karpenter makes it the node's owner when
// it registers. It returns nil where there is none.
func claimOf(ctx context.Context, from client.Reader, node *corev1.Node) (*karpv1.NodeClaim, error) {
	for _, owner := range node.OwnerReferences {
		if owner.Kind != "NodeClaim" {
			continue
		}
		claim := &karpv1.NodeClaim{}
		err := from.Get(ctx, client.ObjectKey{Name: owner.Name}, claim)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading NodeClaim %q of node %q: %w", owner.Name, node.Name, err)
		case claim.UID != owner.UID:
			return nil, nil
		}
		return claim, nil
	}
	return nil, nil
}

func registeredAt(claim *karpv1.NodeClaim) (time.Time, bool) {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeRegistered {
			return c.LastTransitionTime.Time, c.Status == "True"
		}
	}
	return time.Time{}, false
}

// budgetWait is how long a node must wait for others of its pool to be replaced first.
func (k *Controller) budgetWait(ctx context.Context, s nodeView, claim *karpv1.NodeClaim) (time.Duration, error) {
	nodes := &corev1.NodeList{}
	if err := k.cfg.Cache.List(ctx, nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: s.pool}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("counting the nodes of pool %q: %w", s.pool, err)
	}
	count := 0
	for i := range nodes.Items {
		if isManaged(&nodes.Items[i]) && GPUs(&nodes.Items[i]) > 0 {
			count++
		}
	}
	budget := max(1, (count+share-1)/share)
	return k.budget.wait(s.pool, claim.UID, budget, s.timeout(), k.cfg.Clock.Now()), nil
}
