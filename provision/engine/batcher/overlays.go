package batcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// EvaluatedOverlays reports whether Karpenter has evaluated all NodeOverlays as they are now, which takes some
// hundred milliseconds after one is created or changed. Until then a pod is scheduled without it: of two pods
// that are to share a GPU, each would get a node. Make it with NewEvaluatedOverlays.
type EvaluatedOverlays struct {
	clock    clock.PassiveClock
	overlays client.Reader

	mu sync.Mutex
	// since is when one was first found not to be evaluated; zero where all were, last.
	since time.Time
}

// NewEvaluatedOverlays reads NodeOverlays from a cache.
func NewEvaluatedOverlays(clk clock.PassiveClock, overlays client.Reader) *EvaluatedOverlays {
	return &EvaluatedOverlays{clock: clk, overlays: overlays}
}

// All is true once all are evaluated, valid or not, and ten seconds after one was not, whichever changes
// meanwhile, or where they cannot be listed: then Karpenter schedules without it.
func (e *EvaluatedOverlays) All(ctx context.Context) bool {
	list := &karpv1alpha1.NodeOverlayList{}
	if err := e.overlays.List(ctx, list); err != nil {
		return true // Karpenter lists them as well, and reports it.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(list.Items, func(o karpv1alpha1.NodeOverlay) bool { return !evaluated(&o) }) {
		e.since = time.Time{}
		return true
	}
	if e.since.IsZero() {
		e.since = e.clock.Now()
	}
	return e.clock.Since(e.since) >= evaluationTimeout
}

// evaluated reports whether an overlay is among those that Karpenter counts by. It writes the condition right
// before it does.
func evaluated(overlay *karpv1alpha1.NodeOverlay) bool {
	condition := overlay.StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded)
	return !overlay.DeletionTimestamp.IsZero() || condition != nil && !condition.IsUnknown() && condition.ObservedGeneration >= overlay.Generation
}
