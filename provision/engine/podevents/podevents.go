// Package podevents keeps the NodeClaims' lastPodEventTime, from which consolidateAfter
// counts, in place of Karpenter's controller of that name. Karpenter's drops events of a node
// for ten seconds after one that it stored, so that consolidateAfter can end up to ten seconds
// early, and reads the pod again, so that the end of one that is gone by then is lost. Here
// the time is that of the event, and each is stored to the second, as precisely as the field is.
//
// It writes nothing but that field. Start reading at Controller.Reconcile.
package podevents

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
	nodeclaimutils "sigs.k8s.io/karpenter/pkg/utils/nodeclaim"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

const (
	// resolution is that of the field: metav1.Time has seconds.
	resolution = time.Second
	// workers are the nodes for which a time is stored at once.
	workers = 20
)

// Controller stores when a pod was last bound to a node, ended there or began to terminate.
// Make it with NewController.
type Controller struct {
	clock  clock.PassiveClock
	client client.Client
	cloud  cloudprovider.CloudProvider

	mu sync.Mutex
	// last are the times of the nodes' last events, by the node's name.
	last map[string]time.Time
}

// NewController returns a controller for the NodeClaims of the cloud provider's NodeClasses.
func NewController(clk clock.PassiveClock, c client.Client, cloud cloudprovider.CloudProvider) *Controller {
	return &Controller{clock: clk, client: c, cloud: cloud, last: map[string]time.Time{}}
}

// Name is Karpenter's name for the controller.
func (c *Controller) Name() string { return "nodeclaim.podevents" }

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(c.Name()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&corev1.Pod{}, c.handler()).
		Complete(c)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (c *Controller) handler() handler.EventHandler {
	return handler.Funcs{
		// At the start every pod is created as far as the watch is concerned. Its binding is
		// as old as its condition states.
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if pod := e.Object.(*corev1.Pod); !podutils.IsTerminal(pod) {
				c.add(pod, bound(pod, c.clock.Now()), q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if old, pod := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod); changed(old, pod) {
				c.add(pod, c.clock.Now(), q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			// One that terminated, or ended, was an event then.
			if pod := e.Object.(*corev1.Pod); !podutils.IsTerminating(pod) && !podutils.IsTerminal(pod) {
				c.add(pod, c.clock.Now(), q)
			}
		},
	}
}

// changed is whether a pod was bound, ended, or began to terminate.
func changed(old, pod *corev1.Pod) bool {
	return old.Spec.NodeName != pod.Spec.NodeName ||
		podutils.IsTerminal(old) != podutils.IsTerminal(pod) ||
		podutils.IsTerminating(old) != podutils.IsTerminating(pod)
}

// bound is when the pod was bound to its node.
func bound(pod *corev1.Pod, otherwise time.Time) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return otherwise
}

func (c *Controller) add(pod *corev1.Pod, at time.Time, q queue) {
	if pod.Spec.NodeName == "" || podutils.IsOwnedByDaemonSet(pod) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last[pod.Spec.NodeName]) {
		c.last[pod.Spec.NodeName] = at
	}
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: pod.Spec.NodeName}})
}

// Reconcile stores the time of the node's last event in its NodeClaim, where it is later than
// the one that is stored.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := c.client.Get(ctx, request.NamespacedName, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.remove(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	claim, err := nodeutils.NodeClaimForNode(ctx, c.client, node)
	if err != nil {
		return reconcile.Result{}, nodeutils.IgnoreDuplicateNodeClaimError(nodeutils.IgnoreNodeClaimNotFoundError(err))
	}
	at := c.lastEvent(request.Name)
	if !nodeclaimutils.IsManaged(claim, c.cloud) || at.Sub(claim.Status.LastPodEventTime.Time) < resolution {
		return reconcile.Result{}, nil
	}
	stored := claim.DeepCopy()
	claim.Status.LastPodEventTime = metav1.NewTime(at)
	return reconcile.Result{}, client.IgnoreNotFound(c.client.Status().Patch(ctx, claim, client.MergeFrom(stored)))
}

func (c *Controller) lastEvent(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[node]
}

func (c *Controller) remove(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, node)
}
