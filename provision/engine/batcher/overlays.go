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
	// finished reports whether the evaluation of an overlay is over.
	finished func(*karpv1alpha1.NodeOverlay) bool

	mu sync.Mutex
	// since is when one that is waited for was first found not to be evaluated; zero where none is.
	since time.Time
	// abandoned are those that took too long: they are not waited for until they are evaluated.
	abandoned map[types.UID]bool
}

// NewEvaluatedOverlays reads NodeOverlays from a cache, and whether the evaluation of one is over from
// [Evaluation.Finished].
func NewEvaluatedOverlays(clk clock.PassiveClock, overlays client.Reader, finished func(*karpv1alpha1.NodeOverlay) bool) *EvaluatedOverlays {
	return &EvaluatedOverlays{clock: clk, overlays: overlays, finished: finished, abandoned: map[types.UID]bool{}}
}

// All is true once all are evaluated, valid or not, and where they take longer than ten seconds together, or
// cannot be listed: then Karpenter schedules without them.
func (e *EvaluatedOverlays) All(ctx context.Context) bool {
	list := &karpv1alpha1.NodeOverlayList{}
	if err := e.overlays.List(ctx, list); err != nil {
		return true // Karpenter lists them as well, and reports it.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	pending, abandoned := []types.UID{}, map[types.UID]bool{}
	for i := range list.Items {
		uid := list.Items[i].UID
		switch {
		case e.evaluated(&list.Items[i]):
		case e.abandoned[uid]:
			abandoned[uid] = true
		default:
			pending = append(pending, uid)
		}
	}
	e.abandoned = abandoned
	if len(pending) == 0 {
		e.since = time.Time{}
		return true
	}
	if e.since.IsZero() {
		e.since = e.clock.Now()
	}
	if e.clock.Since(e.since) < evaluationTimeout {
		return false
	}
	for _, uid := range pending {
		e.abandoned[uid] = true
	}
	e.since = time.Time{}
	return true
}

// evaluated reports whether an overlay is among those that Karpenter counts by. It writes the condition right
// before it does.
func (e *EvaluatedOverlays) evaluated(overlay *karpv1alpha1.NodeOverlay) bool {
	condition := overlay.StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded)
	return !overlay.DeletionTimestamp.IsZero() ||
		condition != nil && !condition.IsUnknown() && condition.ObservedGeneration >= overlay.Generation && e.finished(overlay)
}
