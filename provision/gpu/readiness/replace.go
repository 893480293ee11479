package readiness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// failedAnnotation on a NodeClaim says why it is replaced. It is written before
// the failure is counted, so that a claim is counted once however often its
// deletion is tried: a crash right after it loses a count, and never adds one.
const failedAnnotation = "poolwright.dev/gpu-failed"

// overdue replaces a node that has not offered its GPUs in time. It returns how
// long the node still has, or 0.
func (k *Keeper) overdue(ctx context.Context, s sight) (time.Duration, error) {
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		return 0, err
	}
	left, counts := k.left(s, claim)
	if !counts || left > 0 {
		return left, nil
	}
	return k.replace(ctx, s.node.Name)
}

// left is how long a node still has. It returns false for one that is on its way
// out, or whose time has not begun.
func (k *Keeper) left(s sight, claim *karpv1.NodeClaim) (time.Duration, bool) {
	at, ok := registeredAt(claim)
	if !ok || claim.DeletionTimestamp != nil || s.node.DeletionTimestamp != nil {
		return 0, false
	}
	now := k.cfg.Clock.Now()
	return s.deadline(at, k.memory.metAt(s.node, now)).Sub(now), true
}

// replace deletes a node's claim, if all that speaks for it is still true where
// no cache is in between. Karpenter drains the node, and buys another when pods
// need one.
func (k *Keeper) replace(ctx context.Context, name string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := k.cfg.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, fmt.Errorf("reading node %q again before it is replaced: %w", name, err)
	}
	scene, err := k.scene(ctx, k.cfg.Live)
	if err != nil {
		return 0, err
	}
	s, ours := scene.look(node)
	if !ours || initialized(node) || s.verdict.Agrees && nodeReady(node) {
		return conflictRetry, nil // The cache will tell the same soon.
	}
	claim, err := claimOf(ctx, k.cfg.Live, node)
	if err != nil || claim == nil {
		return 0, err
	}
	left, counts := k.left(s, claim)
	if !counts || left > 0 {
		return left, nil
	}
	if err := k.condemn(ctx, s, claim); err != nil {
		return 0, err
	}
	seen := client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion}
	if err := k.cfg.Client.Delete(ctx, claim, seen); err != nil {
		return 0, fmt.Errorf("deleting NodeClaim %q, whose node does not offer its GPUs: %w", claim.Name, err)
	}
	return 0, nil
}

// condemn writes down, counts and tells, once for each claim, that it is
// replaced. It leaves the claim as it is after the writing.
func (k *Keeper) condemn(ctx context.Context, s sight, claim *karpv1.NodeClaim) error {
	if claim.Annotations[failedAnnotation] != "" {
		return nil
	}
	reason, message := s.diagnosis()
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[failedAnnotation] = reason
	if err := k.cfg.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("marking NodeClaim %q, whose node does not offer its GPUs: %w", claim.Name, err)
	}
	failures, until := k.cfg.Book.Failed(s.pool, reason+": "+message)
	k.series.replacedOne(s.pool, reason)
	at, _ := registeredAt(claim)
	now := k.cfg.Clock.Now()
	words := fmt.Sprintf("The node does not offer %s (profile %s) %s after registration and is replaced: %s",
		s.verdict.Offer, s.profile.Name, now.Sub(at).Round(time.Second), message)
	if until.After(now) {
		words += fmt.Sprintf("; it is number %d in a row: no GPU node of pool %s is launched until %s", failures, s.pool, until.UTC().Format("15:04 UTC"))
	}
	k.cfg.Log.Info(words, "node", s.node.Name, "nodeclaim", claim.Name, "nodepool", s.pool, "reason", reason)
	k.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reason, words)
	k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, reason, words)
	k.cfg.Tell()
	return nil
}

// diagnosis is why a node is replaced. A kubelet in trouble explains all else.
func (s *sight) diagnosis() (reason, message string) {
	if nodeReady(s.node) {
		return s.verdict.Reason, s.verdict.Message
	}
	for _, c := range s.node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return NodeNotReady, "the node is not ready: " + cut(c.Reason+": "+c.Message)
		}
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
