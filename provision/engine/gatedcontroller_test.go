package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
)

func TestAGuardedControllerRunsOnlyWhileAllowed(t *testing.T) {
	runs, refusal := 0, errors.New("stale")
	g := &gatedController{
		name:       "disruption",
		inner:      counting(func() { runs++ }),
		allowed:    func(context.Context) error { return refusal },
		retryAfter: disruptionRetry,
	}
	result, err := g.Reconcile(t.Context())
	if err != nil || runs != 0 || result.RequeueAfter != disruptionRetry {
		t.Errorf("while refused: %v, %v, %d runs", result, err, runs)
	}
	refusal = nil
	result, err = g.Reconcile(t.Context())
	if err != nil || runs != 1 || result.RequeueAfter != time.Minute {
		t.Errorf("while allowed: %v, %v, %d runs", result, err, runs)
	}
}

type counting func()

func (c counting) Reconcile(context.Context) (reconciler.Result, error) {
	c()
	return reconciler.Result{RequeueAfter: time.Minute}, nil
}
