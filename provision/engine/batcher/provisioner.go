package batcher

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// syncInterval is the time between two checks whether the cluster's state is complete: whether
// each NodeClaim has an instance.
const syncInterval = 10 * time.Millisecond

// Scheduler is Karpenter's provisioner: it schedules all pending pods after a trigger.
type Scheduler interface {
	singleton.Reconciler
	Name() string
	Trigger(types.UID)
}

// Provisioner runs Karpenter's provisioner once for each batch. Make it with NewProvisioner.
type Provisioner struct {
	inner   Scheduler
	batcher *Batcher
	synced  func(context.Context) bool
}

// NewProvisioner returns a controller that schedules by inner what the batcher collects, while
// synced is true of the cluster's state.
func NewProvisioner(inner Scheduler, batcher *Batcher, synced func(context.Context) bool) *Provisioner {
	return &Provisioner{inner: inner, batcher: batcher, synced: synced}
}

// Name is Karpenter's name for the controller.
func (p *Provisioner) Name() string { return p.inner.Name() }

// Register adds the controller as Karpenter adds its own.
func (p *Provisioner) Register(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(p.Name()).
		WatchesRawSource(singleton.Source()).
		Complete(singleton.AsReconciler(p))
}

// Reconcile waits for a batch and schedules it. After an error, and while the cluster's state is
// not complete, the batch stays as it is.
func (p *Provisioner) Reconcile(ctx context.Context) (reconciler.Result, error) {
	batch := p.batcher.wait(ctx)
	if batch.Len() == 0 {
		return reconciler.Result{RequeueAfter: singleton.RequeueImmediately}, nil
	}
	if !p.synced(ctx) {
		return reconciler.Result{RequeueAfter: syncInterval}, nil
	}
	uid, _ := batch.PopAny()
	p.inner.Trigger(uid)
	batch.Insert(uid)
	result, err := p.inner.Reconcile(withoutWindow(ctx))
	if err == nil {
		p.batcher.done(batch)
	}
	return result, err
}

// withoutWindow returns a context in which Karpenter's own batcher closes its window at once.
// Its maximum stays: the time for which nodes are nominated comes from it.
func withoutWindow(ctx context.Context) context.Context {
	options := *coreoptions.FromContext(ctx)
	options.BatchIdleDuration = time.Nanosecond
	return coreoptions.ToContext(ctx, &options)
}
