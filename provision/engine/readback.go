package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	readBackName = "poolwright.nodeclaim.readback"
	// readBackAfter lets a launch that fails at once be deleted first.
	readBackAfter = 15 * time.Second
)

// claimState is the part of Karpenter's cluster state that a lost NodeClaim
// blocks: while one without an instance is in it, nothing is provisioned.
type claimState interface {
	NodeClaimExists(name string) bool
	DeleteNodeClaim(name string)
}

// readBack reads each NodeClaim back some time after its creation, past the
// cache, and drops it from the cluster state when it is gone. Karpenter puts a
// claim into its state right after creating it; if the claim's deletion was observed
// before that, no later event takes it out, and provisioning stops until a restart.
// (Karpenter's core mends this in v1.14.3.)
type readBack struct {
	live  client.Reader
	state claimState
	after time.Duration

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	early []string
}

func newReadBack() *readBack {
	return &readBack{after: readBackAfter}
}

// Created notes a NodeClaim that this process made. The watch may miss one that
// lived only while it was down, so creations are not taken from it alone.
func (r *readBack) Created(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		r.early = append(r.early, name)
		return
	}
	r.queue.AddAfter(request(name), r.after)
}

// Register adds the controller, with this process's creations and the watch's.
func (r *readBack) Register(_ context.Context, mgr manager.Manager) error {
	seen := handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if e.Object.(*karpv1.NodeClaim).Status.ProviderID == "" {
			q.AddAfter(request(e.Object.GetName()), r.after)
		}
	}}
	return ctrl.NewControllerManagedBy(mgr).
		Named(readBackName).
		Watches(&karpv1.NodeClaim{}, seen).
		WatchesRawSource(source.Func(r.start)).
		Complete(r)
}

func (r *readBack) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	for _, name := range r.early {
		queue.AddAfter(request(name), r.after)
	}
	r.early = nil
	return nil
}

// Reconcile reads one NodeClaim. One that still has no instance is read again.
func (r *readBack) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !r.state.NodeClaimExists(req.Name) {
		return reconcile.Result{}, nil
	}
	claim := &karpv1.NodeClaim{}
	err := r.live.Get(ctx, req.NamespacedName, claim)
	switch {
	case apierrors.IsNotFound(err):
		r.state.DeleteNodeClaim(req.Name)
		log.FromContext(ctx).Info("dropped a NodeClaim whose deletion was missed", "NodeClaim", req.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading back NodeClaim %q: %w", req.Name, err)
	case claim.Status.ProviderID == "":
		return reconcile.Result{RequeueAfter: r.after}, nil
	}
	return reconcile.Result{}, nil
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
