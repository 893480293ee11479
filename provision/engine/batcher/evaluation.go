package batcher

import (
	"context"
	"maps"
	"sync"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/reasonable"
	"k8s.io/apimachinery/pkg/types"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
)

// OverlayController is Karpenter's nodeoverlay.Controller, or another one that evaluates NodeOverlays.
type OverlayController interface {
	controller.Controller
	Name() string
	Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error)
}

// Evaluation runs Karpenter's controller that evaluates NodeOverlays, and records of which it has finished the
// evaluation: the controller writes their conditions before pods are scheduled by them. Make it with
// NewEvaluation.
type Evaluation struct {
	inner  OverlayController
	client client.Client
	cloud  cloudprovider.CloudProvider

	mu sync.Mutex
	// finished is the generation of each NodeOverlay as of the last evaluation that began after it was in the cache.
	finished map[types.UID]int64
}

// NewEvaluation runs a controller that reads NodeOverlays by the client, which is a cache.
func NewEvaluation(inner OverlayController, from client.Client, cloud cloudprovider.CloudProvider) *Evaluation {
	return &Evaluation{inner: inner, client: from, cloud: cloud, finished: map[types.UID]int64{}}
}

// Register implements controller.Controller with what triggers Karpenter's controller, which starts none but itself.
func (e *Evaluation) Register(_ context.Context, m manager.Manager) error {
	b := controllerruntime.NewControllerManagedBy(m).Named(e.inner.Name()).
		For(&karpv1alpha1.NodeOverlay{}).
		Watches(&karpv1.NodePool{}, nodeoverlay.NodeOverlayEventHandler(e.client)).
		WithEventFilter(predicate.GenerationChangedPredicate{}).
		// Each evaluates all, so that one of them at a time is enough.
		WithOptions(runtimecontroller.Options{MaxConcurrentReconciles: 1, RateLimiter: reasonable.RateLimiter()})
	for _, class := range e.cloud.GetSupportedNodeClasses() {
		b.Watches(class, nodeoverlay.NodeOverlayEventHandler(e.client))
	}
	return b.Complete(e)
}

// Reconcile evaluates all NodeOverlays. What is in the cache before that is among them.
func (e *Evaluation) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	list, before := &karpv1alpha1.NodeOverlayList{}, map[types.UID]int64{}
	if err := e.client.List(ctx, list); err != nil {
		return e.inner.Reconcile(ctx, request) // It lists them as well, and reports it.
	}
	for i := range list.Items {
		before[list.Items[i].UID] = list.Items[i].Generation
	}
	result, err := e.inner.Reconcile(ctx, request)
	e.mu.Lock()
	defer e.mu.Unlock()
	// Also after an error: that of a NodePool without instance types leaves the others evaluated, and without
	// its condition an overlay is not evaluated anyway.
	maps.DeleteFunc(e.finished, func(uid types.UID, _ int64) bool { _, there := before[uid]; return !there })
	maps.Copy(e.finished, before)
	return result, err
}

// Finished reports whether an evaluation that began after this generation of the overlay was in the cache is over.
func (e *Evaluation) Finished(overlay *karpv1alpha1.NodeOverlay) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	generation, known := e.finished[overlay.UID]
	return known && generation >= overlay.Generation
}
