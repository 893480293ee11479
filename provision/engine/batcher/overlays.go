package batcher

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	// since is when each generation was first found not to be evaluated.
	since map[generation]time.Time
}

// generation is one generation of an object.
type generation struct {
	uid types.UID
	n   int64
}

// NewEvaluatedOverlays reads NodeOverlays from a cache.
func NewEvaluatedOverlays(clk clock.PassiveClock, overlays client.Reader) *EvaluatedOverlays {
	return &EvaluatedOverlays{clock: clk, overlays: overlays, since: map[generation]time.Time{}}
}

// All is true once all are evaluated, valid or not, and where one takes longer than ten seconds, or they cannot be
// listed: then Karpenter schedules without it.
func (e *EvaluatedOverlays) All(ctx context.Context) bool {
	list := &karpv1alpha1.NodeOverlayList{}
	if err := e.overlays.List(ctx, list); err != nil {
		return true // Karpenter lists them as well, and reports it.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all, pending := true, map[generation]time.Time{}
	for i := range list.Items {
		overlay := &list.Items[i]
		if evaluated(overlay) {
			continue
		}
		of := generation{overlay.UID, overlay.Generation}
		since, known := e.since[of]
		if !known {
			since = e.clock.Now()
		}
		pending[of] = since
		all = all && e.clock.Since(since) >= evaluationTimeout
	}
	e.since = pending
	return all
}

// evaluated reports whether an overlay is among those that Karpenter counts by. It writes the condition right
// before it does.
func evaluated(overlay *karpv1alpha1.NodeOverlay) bool {
	condition := overlay.StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded)
	return !overlay.DeletionTimestamp.IsZero() || condition != nil && !condition.IsUnknown() && condition.ObservedGeneration >= overlay.Generation
}
