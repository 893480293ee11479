package engine

import (
	"context"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// disruptionRetry is after how long blocked disruption is tried again.
	disruptionRetry = 2 * time.Second
	// collectionRetry is the same for garbage collection, which reads from EC2.
	collectionRetry = 10 * time.Second
)

// gatedController is one of Karpenter's periodic controllers, run only while allowed
// returns nil. It is registered exactly as Karpenter registers it.
type gatedController struct {
	name    string
	inner   singleton.Reconciler
	allowed func(context.Context) error
	// retryAfter is the time between two checks while it is not allowed.
	retryAfter time.Duration
	// trigger, where it is not nil, is a source of reconciliations beside the period.
	trigger source.Source

	mu     sync.Mutex
	reason string
}

// Register adds the controller under Karpenter's name for it.
func (g *gatedController) Register(_ context.Context, mgr manager.Manager) error {
	builder := ctrl.NewControllerManagedBy(mgr).
		Named(g.name).
		WatchesRawSource(singleton.Source())
	if g.trigger != nil {
		builder = builder.WatchesRawSource(g.trigger)
	}
	return builder.Complete(singleton.AsReconciler(g))
}

// Reconcile runs the controller once, or blocks it and logs that once per reason.
func (g *gatedController) Reconcile(ctx context.Context) (reconciler.Result, error) {
	if err := g.allowed(ctx); err != nil {
		if g.changed(err.Error()) {
			log.FromContext(ctx).Info("holding back", "controller", g.name, "reason", err.Error())
		}
		return reconciler.Result{RequeueAfter: g.retryAfter}, nil
	}
	if g.changed("") {
		log.FromContext(ctx).Info("going on", "controller", g.name)
	}
	return g.inner.Reconcile(ctx)
}

func (g *gatedController) changed(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.reason
	g.reason = reason
	return was != reason
}
