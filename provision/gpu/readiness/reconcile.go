package readiness

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Reconcile reads one node and does the one thing that is due.
func (k *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := k.cfg.Cache.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			k.drop(ctx, req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}
	if !isManaged(node) {
		k.drop(ctx, node.Name)
		return reconcile.Result{}, nil
	}
	plugin, err := readPlugin(ctx, k.cfg.Cache, k.cfg.ReadSharing)
	if err != nil {
		return reconcile.Result{}, err
	}
	s, ours, err := k.viewOf(ctx, plugin, node, driverPoll)
	if err != nil {
		return requeue(0, err)
	}
	if !ours {
		k.drop(ctx, node.Name)
		return k.removeAnnotation(ctx, node)
	}
	k.records.observe(&s, k.cfg.Clock.Now())
	act := k.reconcileNode
	if s.byDriver() {
		act = k.reconcileDriver
	}
	wait, err := act(ctx, s)
	if err == nil {
		err = k.publish(ctx, s)
	}
	return requeue(wait, err)
}

// reconcileNode does what a node needs; it returns when it must be reconciled again, or 0.
func (k *Controller) reconcileNode(ctx context.Context, s nodeView) (time.Duration, error) {
	ready := nodeReady(s.node)
	if s.health.Ready && (ready || initialized(s.node) && !tainted(s.node)) {
		k.records.clearMismatch(s.node.Name)
		if err := k.recordCapacity(ctx, s); err != nil {
			return 0, err
		}
	}
	var wait time.Duration
	var err error
	if !s.health.Ready {
		if wait, err = k.reconcileMismatch(ctx, s); err != nil {
			return 0, err
		}
	}
	if s.health.Ready && ready {
		k.records.setBlocker(s.node.Name, blocker{})
		return wait, k.clearReason(ctx, s)
	}
	if initialized(s.node) || s.capacityRecorded(k.records.timesOf(s.node, k.cfg.Clock.Now())) {
		return wait, nil
	}
	left, err := k.overdue(ctx, s)
	if wait == 0 || left > 0 && left < wait {
		wait = left
	}
	return wait, err
}

// requeue makes a controller's result of a wait and an error. Somebody else's write in
// between is no error: the node is reconciled again.
func requeue(wait time.Duration, err error) (reconcile.Result, error) {
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

// removeAnnotation removes the taint and the recorded capacity of a node that is not, or no longer, ours.
func (k *Controller) removeAnnotation(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	_, recorded := node.Annotations[gpu.AllocatableAnnotation]
	if !tainted(node) && !recorded {
		return reconcile.Result{}, nil
	}
	err := k.write(ctx, node, true, "")
	if err == nil {
		k.cfg.Log.Info("Leaving a node alone: it has no GPUs, or no configuration serves its pool", "node", node.Name, "nodepool", node.Labels[karpv1.NodePoolLabelKey])
	}
	return requeue(0, err)
}

// recordCapacity writes down what the node advertises, and lets pods come to one that they
// were kept from.
func (k *Controller) recordCapacity(ctx context.Context, s nodeView) error {
	was, recorded := s.node.Annotations[gpu.AllocatableAnnotation]
	allocatable := s.health.Expected.String()
	release := tainted(s.node)
	if !release && was == allocatable {
		return nil
	}
	if err := k.write(ctx, s.node, release, allocatable); err != nil {
		return err
	}
	if release || !recorded && !initialized(s.node) {
		k.cfg.Backoff.Reset(s.pool)
		k.cfg.OnChange()
	}
	if release {
		k.announce(ctx, s)
	}
	return nil
}

// announce reports that a node was released.
func (k *Controller) announce(ctx context.Context, s nodeView) {
	var advertised []string
	for _, name := range s.config.Resources() {
		advertised = append(advertised, fmt.Sprintf("%s %d", name, s.health.Expected[name]))
	}
	message := fmt.Sprintf("GPUs are advertised: %s (configuration %s)", strings.Join(advertised, ", "), s.config.Name)
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		k.cfg.Log.Info(message, "node", s.node.Name)
		return
	}
	if at, ok := registeredAt(claim); ok {
		took := max(k.cfg.Clock.Since(at), 0)
		k.series.advertised(s.pool, took)
		message += fmt.Sprintf(", %s after registration", took.Round(time.Second))
	}
	k.cfg.Log.Info(message, "node", s.node.Name, "nodeclaim", claim.Name)
	k.cfg.Recorder.Event(claim, corev1.EventTypeNormal, "GPUsAllocatable", message)
}

// reconcileMismatch removes the recorded capacity of a node that has advertised something else for
// longer than a plugin's restart takes. It returns when it is due, or 0.
func (k *Controller) reconcileMismatch(ctx context.Context, s nodeView) (time.Duration, error) {
	now := k.cfg.Clock.Now()
	if s.sound(k.records.timesOf(s.node, now)) {
		k.records.clearMismatch(s.node.Name)
		return 0, nil
	}
	if left := s.graceEnd(k.records.mismatchSince(s.node.Name, now)).Sub(now); left > 0 {
		return left, nil
	}
	_, recorded := s.node.Annotations[gpu.AllocatableAnnotation]
	if recorded {
		if err := k.write(ctx, s.node, false, ""); err != nil {
			return 0, err
		}
	}
	if k.records.firstEvent(s.node.Name) || recorded {
		message := fmt.Sprintf("The node does not advertise %s (configuration %s): %s", s.health.Expected, s.config.Name, s.health.Message)
		k.cfg.Log.Info(message, "node", s.node.Name, "nodepool", s.pool, "reason", s.health.Reason)
		k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, s.health.Reason, message)
	}
	return 0, nil
}

// graceEnd is when a node's recorded capacity is removed that it has not advertised since. A
// update may take its whole time with the node: it waits for the new plugin, and
// so does Karpenter.
func (s *nodeView) graceEnd(since time.Time) time.Time {
	return latest(since.Add(grace), s.pluginUpdateUntil())
}

// capacityRecorded reports whether the node's capacity is recorded, or ever was.
func (s *nodeView) capacityRecorded(past nodeTimes) bool {
	_, now := s.node.Annotations[gpu.AllocatableAnnotation]
	return now || past.capacityRecorded
}

// sound reports whether a node that does not agree is one that needs no action: one
// that is starting, that advertises what was recorded all the same, or whose running plugin
// will be replaced.
func (s *nodeView) sound(past nodeTimes) bool {
	text, recorded := s.node.Annotations[gpu.AllocatableAnnotation]
	if !recorded {
		outdated := s.plugin != nil && ready(s.plugin) && !s.health.Current
		return !initialized(s.node) && !past.capacityRecorded || outdated
	}
	allocatable, err := gpu.ParseResources(text)
	return err == nil && allocatable.Differs(s.node.Status.Allocatable) == ""
}

// write changes taint and annotation of a node in one request, which fails when
// anybody wrote to the node since it was read: a list is replaced as a whole.
// Empty resources take the annotation away.
func (k *Controller) write(ctx context.Context, node *corev1.Node, release bool, allocatable string) error {
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
	if allocatable == "" {
		delete(after.Annotations, gpu.AllocatableAnnotation)
	} else {
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[gpu.AllocatableAnnotation] = allocatable
	}
	if err := k.cfg.Client.Patch(ctx, after, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the allocatable GPUs of node %q: %w", node.Name, err)
	}
	return nil
}

// viewOf is a node with what serves its pool, by the device plugin or by the DRA driver, of which no more than maxAge old
// readings are used. It returns false for a node without NVIDIA GPUs, or whose pool no configuration serves.
func (k *Controller) viewOf(ctx context.Context, plugin *pluginView, node *corev1.Node, maxAge time.Duration) (nodeView, bool, error) {
	if s, served := plugin.viewOf(node); served {
		return s, true, nil
	}
	pool := node.Labels[karpv1.NodePoolLabelKey]
	config, dra := plugin.sharing.DRAForPool(pool)
	if !dra || GPUs(node) == 0 {
		return nodeView{}, false, nil
	}
	s := nodeView{node: node, pool: pool, config: config, health: Health{Expected: config.Allocatable(GPUs(node)), Current: true}}
	err := k.driver.check(ctx, &s, maxAge)
	return s, err == nil, err
}

// reconcileDriver reports on a node of the DRA driver, and returns when it must be reconciled again. The node is never replaced:
// it has no taint that keeps pods off until its GPUs are published, so that a pod may come at any moment. A person decides, or
// Karpenter.
func (k *Controller) reconcileDriver(ctx context.Context, s nodeView) (time.Duration, error) {
	if _, recorded := s.node.Annotations[gpu.AllocatableAnnotation]; recorded || tainted(s.node) {
		// It was launched while the DevicePlugin could not be read.
		if err := k.write(ctx, s.node, true, ""); err != nil {
			return 0, err
		}
	}
	if !s.lacksDevices() {
		if s.unknown == "" {
			k.records.clearMismatch(s.node.Name)
		}
		return publishedPoll, nil
	}
	now := k.cfg.Clock.Now()
	since := k.records.mismatchSince(s.node.Name, now)
	left := s.driverDue(since).Sub(now)
	switch {
	case left > 0 && initialized(s.node) && now.Sub(since) >= grace:
		return min(left, publishedPoll), nil
	case left > 0:
		return min(left, driverPoll), nil
	}
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || !k.records.firstEvent(s.node.Name) {
		return publishedPoll, err
	}
	reason, message := s.diagnosis()
	message = fmt.Sprintf("The node does not have its %d GPUs by the DRA driver (configuration %s) in time: %s; a node of the DRA driver is not replaced", GPUs(s.node), s.config.Name, message)
	k.cfg.Log.Info(message, "node", s.node.Name, "nodepool", s.pool, "reason", reason)
	k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, reason, message)
	if claim != nil {
		k.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reason, message)
	}
	return publishedPoll, nil
}
