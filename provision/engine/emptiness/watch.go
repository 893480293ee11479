package emptiness

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
)

// stateInterval is the time between two checks whether Karpenter's state has a NodeClaim as
// the cache has it. The same informer feeds both, so that it has it within milliseconds.
const stateInterval = 10 * time.Millisecond

// Watch is a controller that triggers another: when a NodeClaim becomes Consolidatable, and
// when one that was disrupted frees its place in the budgets. Make it with NewWatch.
type Watch struct {
	client  client.Client
	cluster *state.Cluster
	events  chan event.GenericEvent
}

// NewWatch returns a watch that waits until the cluster's state has what the trigger is for.
func NewWatch(c client.Client, cluster *state.Cluster) *Watch {
	return &Watch{client: c, cluster: cluster, events: make(chan event.GenericEvent, 1)}
}

// Source is the source of the controller that is triggered, which has one request.
func (w *Watch) Source() source.Source {
	return source.Channel(w.events, handler.Funcs{
		GenericFunc: func(_ context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			queue.Add(reconcile.Request{})
		},
	})
}

// Name is the controller's.
func (w *Watch) Name() string { return "disruption.emptiness.watch" }

// Register adds the controller to the manager.
func (w *Watch) Register(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(w.Name()).
		Watches(&karpv1.NodeClaim{}, handler.Funcs{
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				if becameTrue(e, karpv1.ConditionTypeConsolidatable) || becameTrue(e, karpv1.ConditionTypeInstanceTerminating) {
					queue.Add(request(e.ObjectNew))
				}
			},
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				queue.Add(request(e.Object))
			},
		}).
		Complete(w)
}

func becameTrue(e event.UpdateEvent, condition string) bool {
	old, current := e.ObjectOld.(*karpv1.NodeClaim), e.ObjectNew.(*karpv1.NodeClaim)
	return !old.StatusConditions().IsTrue(condition) && current.StatusConditions().IsTrue(condition)
}

func request(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: object.GetName()}}
}

// Reconcile triggers the controller as soon as the cluster's state has the NodeClaim as the cache
// does, or neither has it.
func (w *Watch) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := w.client.Get(ctx, request.NamespacedName, claim); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if w.outdated(request.Name, claim) {
		return reconcile.Result{RequeueAfter: stateInterval}, nil
	}
	select {
	case w.events <- event.GenericEvent{}:
	default: // It is triggered already.
	}
	return reconcile.Result{}, nil
}

func (w *Watch) outdated(name string, claim *karpv1.NodeClaim) bool {
	for node := range w.cluster.Nodes() {
		if node.NodeClaim == nil || node.NodeClaim.Name != name {
			continue
		}
		for _, condition := range []string{karpv1.ConditionTypeConsolidatable, karpv1.ConditionTypeInstanceTerminating} {
			if node.NodeClaim.StatusConditions().IsTrue(condition) != claim.StatusConditions().IsTrue(condition) {
				return true
			}
		}
		return claim.Name == ""
	}
	// It is not of the state, as one of another Karpenter is not.
	return false
}
