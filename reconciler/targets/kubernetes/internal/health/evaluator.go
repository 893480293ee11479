package health

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling/engine"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/fluxcd/pkg/runtime/statusreaders"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/readiness"
)

// evaluationTimeout bounds the evaluation of the expressions for one object: they come from the
// spec of a Sync, and the events of other objects wait for it.
const evaluationTimeout = 100 * time.Millisecond

// evaluator computes the health of an object.
type evaluator struct {
	// readers are in the order in which they are tried.
	readers []engine.StatusReader
}

// newEvaluator compiles the expressions.
func newEvaluator(exprs []v1alpha1.CustomHealthCheck) (*evaluator, error) {
	checks := make([]kustomize.CustomHealthCheck, 0, len(exprs))
	for _, e := range exprs {
		checks = append(checks, kustomize.CustomHealthCheck{APIVersion: e.APIVersion, Kind: e.Kind, HealthCheckExpressions: kustomize.HealthCheckExpressions(e.HealthCheckExpressions)})
	}
	custom, err := cel.NewStatusReader(checks)
	if err != nil {
		return nil, fmt.Errorf("reading healthCheckExprs: %w", err)
	}
	// As in Flux, a Job is healthy once it is complete; for kstatus alone, once it has started.
	return &evaluator{readers: []engine.StatusReader{custom(nil), statusreaders.NewCustomJobStatusReader(nil)}}, nil
}

// finding is the health of one object.
type finding struct {
	// version is the object's resourceVersion; empty where it is not there.
	version string
	healthy bool
	failed  bool
	// reason is why it is not healthy.
	reason string
}

// of is the health of a live object.
func (e *evaluator) of(ctx context.Context, live *unstructured.Unstructured) finding {
	found := finding{version: live.GetResourceVersion()}
	for _, reader := range e.readers {
		if !reader.Supports(live.GroupVersionKind().GroupKind()) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
		defer cancel()
		result, err := reader.ReadStatusForObject(ctx, nil, live)
		if err == nil {
			err = result.Error
		}
		if err != nil {
			found.reason = err.Error()
			if kinds.IsSecret(state.Key{Group: live.GroupVersionKind().Group, Kind: live.GetKind()}) {
				// An expression's error can have what it was evaluated with, such as a key that is missing.
				found.reason = "the expression could not be evaluated; why may have values of the Secret"
			}
			return found
		}
		found.healthy, found.failed = result.Status == status.CurrentStatus, result.Status == status.FailedStatus
		if found.reason = result.Message; found.reason == "" {
			found.reason = result.Status.String()
		}
		return found
	}
	found.healthy, found.failed, found.reason = readiness.StatusOf(live)
	return found
}
