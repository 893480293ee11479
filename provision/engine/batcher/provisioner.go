package batcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/option"
	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// syncInterval is the time between two checks whether the cluster's state is complete: whether
// each NodeClaim has an instance.
const syncInterval = 10 * time.Millisecond

// Scheduler is Karpenter's provisioner: it schedules all pending pods.
type Scheduler interface {
	Name() string
	Schedule(context.Context) (scheduling.Results, error)
	CreateNodeClaims(context.Context, []*scheduling.NodeClaim, ...option.Function[provisioning.LaunchOptions]) ([]string, error)
}

// Triggered is Karpenter's provisioner with its own batcher, which schedules after a trigger, and
// updates CapacityBuffers then.
type Triggered interface {
	singleton.Reconciler
	TriggerReconcile()
}

// Provisioner runs Karpenter's provisioner once for each batch. Make it with NewProvisioner.
type Provisioner struct {
	inner   Scheduler
	batcher *Batcher
	// pods reads them from the cache that Karpenter schedules by.
	pods     client.Reader
	synced   func(context.Context) bool
	launches sync.Locker
}

// NewProvisioner returns a controller that schedules by inner what the batcher collects, while
// synced is true of the cluster's state. It holds launches from that check until the NodeClaims
// are created. pods must read from the cache of inner.
func NewProvisioner(inner Scheduler, batcher *Batcher, pods client.Reader, synced func(context.Context) bool, launches sync.Locker) *Provisioner {
	return &Provisioner{inner: inner, batcher: batcher, pods: pods, synced: synced, launches: launches}
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
	p.launches.Lock()
	defer p.launches.Unlock()
	if !p.synced(ctx) {
		return reconciler.Result{RequeueAfter: syncInterval}, nil
	}
	scheduled, err := p.schedule(ctx)
	if err != nil {
		return reconciler.Result{}, err
	}
	if scheduled {
		p.batcher.done(batch)
	}
	return reconciler.Result{RequeueAfter: singleton.RequeueImmediately}, nil
}

// schedule does what Karpenter's Reconcile does after its own batcher and a check whether the
// cluster's state is complete. It drops a batch where that check fails, and does not report it:
// after the check above, a NodeClaim of a disruption is enough.
func (p *Provisioner) schedule(ctx context.Context) (bool, error) {
	if inner, ok := p.inner.(Triggered); ok && coreoptions.FromContext(ctx).FeatureGates.CapacityBuffer {
		return p.reconcile(ctx, inner)
	}
	ctx = injection.WithControllerName(ctx, p.Name())
	results, err := p.inner.Schedule(ctx)
	if err != nil {
		return false, err
	}
	claims := slices.DeleteFunc(results.NewNodeClaims, func(claim *scheduling.NodeClaim) bool { return !NodeNeeded(ctx, p.pods, claim) })
	if len(claims) == 0 {
		return true, nil
	}
	_, err = p.inner.CreateNodeClaims(ctx, claims, provisioning.WithReason(metrics.ProvisionedReason), provisioning.RecordPodNomination)
	return err == nil, err
}

// reconcile has Karpenter's Reconcile schedule, which alone updates CapacityBuffers. A batch counts
// as scheduled only where the state is complete afterwards as well; else it was dropped, or
// NodeClaims were made for it, and a second time finds those.
func (p *Provisioner) reconcile(ctx context.Context, inner Triggered) (bool, error) {
	inner.TriggerReconcile()
	_, err := inner.Reconcile(withoutWindow(ctx))
	return err == nil && p.synced(ctx), err
}

// withoutWindow returns a context in which Karpenter's own batcher closes its window at once.
// Its maximum stays: the time for which nodes are nominated comes from it.
func withoutWindow(ctx context.Context) context.Context {
	options := *coreoptions.FromContext(ctx)
	options.BatchIdleDuration = time.Nanosecond
	return coreoptions.ToContext(ctx, &options)
}
