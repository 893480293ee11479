package batcher

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

const (
	// triggerInterval is after how long what still needs a node is added again, as in Karpenter:
	// a node that was made for a pod may not come, or be used by another pod.
	triggerInterval = 10 * time.Second
	workers         = 10
)

// PodTrigger adds pods that need a node to the batch. Make it with NewPodTrigger.
type PodTrigger struct {
	client  client.Client
	batcher *Batcher
	cluster *state.Cluster
}

// NewPodTrigger returns the trigger for pods.
func NewPodTrigger(c client.Client, batcher *Batcher, cluster *state.Cluster) *PodTrigger {
	return &PodTrigger{client: c, batcher: batcher, cluster: cluster}
}

// Name is Karpenter's name for the controller.
func (t *PodTrigger) Name() string { return "provisioner.trigger.pod" }

// Reconcile adds the pod, or removes one that needs no node any more.
func (t *PodTrigger) Reconcile(_ context.Context, pod *corev1.Pod) (reconcile.Result, error) {
	if !podutils.IsProvisionable(pod) {
		t.batcher.Remove(pod.UID)
		return reconcile.Result{}, nil
	}
	t.batcher.add(pod.UID, ownerOf(pod))
	t.cluster.AckPods(pod)
	return reconcile.Result{RequeueAfter: triggerInterval}, nil
}

// Register adds the controller to the manager.
func (t *PodTrigger) Register(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(t.Name()).
		For(&corev1.Pod{}).
		// One that is deleted is not found when it is reconciled.
		Watches(&corev1.Pod{}, t.batcher.removal()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(t.client, t))
}

// NodeTrigger adds nodes that are disrupted, since their pods need others. Make it with
// NewNodeTrigger.
type NodeTrigger struct {
	client  client.Client
	batcher *Batcher
}

// NewNodeTrigger returns the trigger for nodes.
func NewNodeTrigger(c client.Client, batcher *Batcher) *NodeTrigger {
	return &NodeTrigger{client: c, batcher: batcher}
}

// Name is Karpenter's name for the controller.
func (t *NodeTrigger) Name() string { return "provisioner.trigger.node" }

// Reconcile adds a node that has the taint of a disruption, or removes it.
func (t *NodeTrigger) Reconcile(_ context.Context, node *corev1.Node) (reconcile.Result, error) {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&karpv1.DisruptedNoScheduleTaint) {
			t.batcher.Trigger(node.UID)
			return reconcile.Result{RequeueAfter: triggerInterval}, nil
		}
	}
	t.batcher.Remove(node.UID)
	return reconcile.Result{}, nil
}

// Register adds the controller to the manager.
func (t *NodeTrigger) Register(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(t.Name()).
		For(&corev1.Node{}).
		Watches(&corev1.Node{}, t.batcher.removal()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(t.client, t))
}

// removal removes what is deleted, and requests nothing.
func (b *Batcher) removal() handler.EventHandler {
	return handler.Funcs{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			b.Remove(e.Object.GetUID())
		},
	}
}
