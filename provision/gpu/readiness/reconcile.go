package readiness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Reconcile looks at one node and does the one thing that is due.
func (k *Keeper) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := k.cfg.Cache.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			k.forget(ctx, req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}
	if !minded(node) {
		k.forget(ctx, node.Name)
		return reconcile.Result{}, nil
	}
	scene, err := k.scene(ctx, k.cfg.Cache, k.cfg.Sharing.Read)
	if err != nil {
		return reconcile.Result{}, err
	}
	s, ours := scene.look(node)
	if !ours {
		k.forget(ctx, node.Name)
		return k.disown(ctx, node)
	}
	k.memory.meet(&s, k.cfg.Clock.Now())
	wait, err := k.attend(ctx, s)
	if err == nil {
		err = k.show(ctx, s)
	}
	return settled(wait, err)
}

// attend does what a node needs; it returns when it must be looked at again, or 0.
func (k *Keeper) attend(ctx context.Context, s sight) (time.Duration, error) {
	ready := nodeReady(s.node)
	if s.verdict.Agrees && (ready || initialized(s.node) && !tainted(s.node)) {
		k.memory.settle(s.node.Name)
		if err := k.vouch(ctx, s); err != nil {
			return 0, err
		}
	}
	var wait time.Duration
	var err error
	if !s.verdict.Agrees {
		if wait, err = k.doubt(ctx, s); err != nil {
			return 0, err
		}
	}
	if s.verdict.Agrees && ready {
		k.memory.take(s.node.Name, note{})
		return wait, k.acquit(ctx, s)
	}
	if initialized(s.node) || s.vouched(k.memory.past(s.node, k.cfg.Clock.Now())) {
		return wait, nil
	}
	left, err := k.overdue(ctx, s)
	if wait == 0 || left > 0 && left < wait {
		wait = left
	}
	return wait, err
}

// settled makes a controller's answer of a wait and an error. Somebody else's
// write in between is no error: the node is looked at again.
func settled(wait time.Duration, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err): // Its deletion is on the way to the cache.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// disown takes taint and word back from a node that is not, or no longer, ours.
func (k *Keeper) disown(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	_, vouched := node.Annotations[gpu.OfferAnnotation]
	if !tainted(node) && !vouched {
		return reconcile.Result{}, nil
	}
	err := k.write(ctx, node, true, "")
	if err == nil {
		k.cfg.Log.Info("Leaving a node alone: it has no GPUs, or no profile serves its pool", "node", node.Name, "nodepool", node.Labels[karpv1.NodePoolLabelKey])
	}
	return settled(0, err)
}

// vouch writes down what the node offers, and lets pods come to one that they
// were kept from.
func (k *Keeper) vouch(ctx context.Context, s sight) error {
	was, vouched := s.node.Annotations[gpu.OfferAnnotation]
	offer := s.verdict.Offer.String()
	release := tainted(s.node)
	if !release && was == offer {
		return nil
	}
	if err := k.write(ctx, s.node, release, offer); err != nil {
		return err
	}
	if release || !vouched && !initialized(s.node) {
		k.cfg.Book.Offered(s.pool)
		k.cfg.Tell()
	}
	if release {
		k.announce(ctx, s)
	}
	return nil
}

// announce says that a node was released.
func (k *Keeper) announce(ctx context.Context, s sight) {
	words := fmt.Sprintf("GPUs are offered: %s %d (profile %s)", s.profile.Resource(), s.verdict.Offer[s.profile.Resource()], s.profile.Name)
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		k.cfg.Log.Info(words, "node", s.node.Name)
		return
	}
	if at, ok := registeredAt(claim); ok {
		took := max(k.cfg.Clock.Since(at), 0)
		k.series.offered(s.pool, took)
		words += fmt.Sprintf(", %s after registration", took.Round(time.Second))
	}
	k.cfg.Log.Info(words, "node", s.node.Name, "nodeclaim", claim.Name)
	k.cfg.Recorder.Event(claim, corev1.EventTypeNormal, "GPUsOffered", words)
}

// doubt takes our word back for a node that has offered something else for
// longer than a plugin's restart takes. It returns when it is due, or 0.
func (k *Keeper) doubt(ctx context.Context, s sight) (time.Duration, error) {
	now := k.cfg.Clock.Now()
	if s.sound(k.memory.past(s.node, now)) {
		k.memory.settle(s.node.Name)
		return 0, nil
	}
	if left := s.doubtful(k.memory.doubt(s.node.Name, now)).Sub(now); left > 0 {
		return left, nil
	}
	_, vouched := s.node.Annotations[gpu.OfferAnnotation]
	if vouched {
		if err := k.write(ctx, s.node, false, ""); err != nil {
			return 0, err
		}
	}
	if k.memory.tell(s.node.Name) || vouched {
		words := fmt.Sprintf("The node does not offer %s (profile %s): %s", s.verdict.Offer, s.profile.Name, s.verdict.Message)
		k.cfg.Log.Info(words, "node", s.node.Name, "nodepool", s.pool, "reason", s.verdict.Reason)
		k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, s.verdict.Reason, words)
	}
	return 0, nil
}

// doubtful is when a node's word is taken back that it has not kept since. A
// rollout may take its whole time with the node: it waits for the new plugin, and
// so does Karpenter.
func (s *sight) doubtful(since time.Time) time.Time {
	return latest(since.Add(grace), s.rolling())
}

// vouched tells whether we vouch for the node's offer, or ever did.
func (s *sight) vouched(past past) bool {
	_, now := s.node.Annotations[gpu.OfferAnnotation]
	return now || past.vouched
}

// sound tells whether a node that does not agree is one that nobody need mind:
// one that is starting, that offers what we vouch for all the same, or whose
// running plugin will be replaced.
func (s *sight) sound(past past) bool {
	text, vouched := s.node.Annotations[gpu.OfferAnnotation]
	if !vouched {
		outdated := s.plugin != nil && ready(s.plugin) && !s.verdict.Current
		return !initialized(s.node) && !past.vouched || outdated
	}
	offer, err := gpu.ParseOffer(text)
	return err == nil && offer.Differs(s.node.Status.Allocatable) == ""
}

// write changes taint and annotation of a node in one request, which fails when
// anybody wrote to the node since it was read: a list is replaced as a whole.
// An empty offer takes the annotation away.
func (k *Keeper) write(ctx context.Context, node *corev1.Node, release bool, offer string) error {
	after := node.DeepCopy()
	if release {
		var left []corev1.Taint
		for _, t := range after.Spec.Taints {
			if t.Key != gpu.StartupTaint {
				left = append(left, t)
			}
		}
		after.Spec.Taints = left
	}
	if offer == "" {
		delete(after.Annotations, gpu.OfferAnnotation)
	} else {
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[gpu.OfferAnnotation] = offer
	}
	if err := k.cfg.Client.Patch(ctx, after, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the offer of node %q: %w", node.Name, err)
	}
	return nil
}
