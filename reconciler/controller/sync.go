package controller

import (
	"context"
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/dependency"
	"github.com/poolwright/poolwright/reconciler/controller/metrics"
	"github.com/poolwright/poolwright/reconciler/controller/rollout"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// SyncReconciler leads each Sync's repository to the cluster. All fields but RollOut are
// needed.
type SyncReconciler struct {
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Namespace is the only one in which Syncs are honoured.
	Namespace string
	// Build assembles what a Sync needs to run.
	Build    Builder
	Recorder record.EventRecorder
	Metrics  *metrics.Metrics
	Clock    clock.PassiveClock
	// Jitter varies the interval at which Git is fetched, so that many clusters do not fetch from
	// one server in the same second. Several workers call it at a time.
	Jitter jitter.Duration
	// RollOut reads whether nodes are yet to be replaced, for the condition RolledOut. May be nil.
	RollOut *rollout.Poller

	states syncStates
}

// Reconcile runs one Sync once, or puts back what drifted since.
func (r *SyncReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var sync v1alpha1.Sync
	if err := r.Client.Get(ctx, req.NamespacedName, &sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.states.drop(req.NamespacedName)
			r.RollOut.Drop(req.NamespacedName)
			r.Metrics.Drop(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Sync %s: %w", req.Name, err)
	}
	if !r.states.expectations.Satisfied(&sync, r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	switch {
	case sync.Namespace != r.Namespace:
		return r.refuse(ctx, &sync)
	case !sync.DeletionTimestamp.IsZero():
		return r.finalize(ctx, &sync)
	case suspension.Over(&sync, r.Clock.Now()):
		// The write starts a run, as a person's does.
		return requeueOnConflict(suspension.Resume(ctx, r.Client, r.Recorder, &sync))
	case sync.Spec.Suspend:
		r.states.stop(req.NamespacedName)
		return ctrl.Result{RequeueAfter: suspension.Remaining(&sync, r.Clock.Now())}, r.writeStatus(ctx, &sync, suspended(&sync))
	}
	before := sync.DeepCopy()
	removed := suspension.RemoveUntil(&sync)
	if controllerutil.AddFinalizer(&sync, v1alpha1.Finalizer) || removed {
		// An update would remove the fields that only a later release has.
		if err := r.Client.Patch(ctx, &sync, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return requeueOnConflict(fmt.Errorf("updating the finalizer and the annotations of Sync %s: %w", sync.Name, err))
		}
	}
	current, err := r.states.get(ctx, &sync, r.assemble)
	if err != nil {
		return r.summarize(ctx, &sync, nil, reconciliation{err: err})
	}
	current.health.Require(sync.Spec.HealthCheckSpec)
	dependencies := r.dependencies().Fingerprint(ctx, &sync) + current.inputs.Fingerprint()
	if dependencies == current.dependencies && current.onlyConditions(&sync, r.Clock.Now(), r.RollOut.Due) {
		return r.updateHealth(ctx, &sync, current)
	}
	return r.summarize(ctx, &sync, current, r.run(ctx, &sync, current, dependencies))
}

// assemble is Build for a Sync that is applied only once those that it depends on are.
func (r *SyncReconciler) assemble(ctx context.Context, sync *v1alpha1.Sync) (SyncRuntime, error) {
	r.Metrics.Begin(sync.Name)
	out, err := r.Build(ctx, sync)
	if err == nil {
		name := client.ObjectKeyFromObject(sync)
		out.Loop.WithDependencyCheck(func(ctx context.Context, revision, treeID string) error {
			return r.dependencies().Check(ctx, name, revision, treeID)
		})
	}
	return out, err
}

func (r *SyncReconciler) dependencies() dependency.Checker {
	return dependency.Checker{Reader: r.Client}
}

// adoptionGrace is how long another Poolwright is given to take up a new Sync in its
// namespace before it is reported that nobody honours it.
const adoptionGrace = 5 * time.Second

// refuse reports on a Sync in a foreign namespace why nothing happens. One that carries
// the finalizer is honoured by another Poolwright, in that namespace: by the lock no
// stale cache overlooks that.
func (r *SyncReconciler) refuse(ctx context.Context, sync *v1alpha1.Sync) (ctrl.Result, error) {
	if controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if young := adoptionGrace - r.Clock.Since(sync.CreationTimestamp.Time); young > 0 {
		return ctrl.Result{RequeueAfter: young}, nil
	}
	before := sync.DeepCopy()
	message := fmt.Sprintf("Syncs are reconciled only in namespace %s; create it there", r.Namespace)
	sync.Status.ObservedGeneration = sync.Generation
	conditions.MarkFalse(sync, fluxmeta.ReadyCondition, foreignNamespace, "%s", conditionMessage(message))
	conditions.MarkStalled(sync, foreignNamespace, "%s", conditionMessage(message))
	if equality.Semantic.DeepEqual(before.Status, sync.Status) {
		return ctrl.Result{}, nil
	}
	err := r.Client.Status().Patch(ctx, sync, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return requeueOnConflict(fmt.Errorf("refusing Sync %s in namespace %s: %w", sync.Name, sync.Namespace, err))
	}
	return ctrl.Result{}, nil
}
