package batcher

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// evaluating is a controller that calls its function at the end of each evaluation.
type evaluating func() error

func (e evaluating) Name() string                                    { return "nodeoverlay.controller" }
func (e evaluating) Register(context.Context, manager.Manager) error { return nil }
func (e evaluating) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: time.Hour}, e()
}

// Karpenter writes the conditions of NodeOverlays, and schedules by them after that: of two pods that came in between
// and were to share a GPU, each got a node.
func TestABatchWaitsForTheEndOfTheEvaluationThatWritesTheConditions(t *testing.T) {
	for name, failed := range map[string]error{"it ends": nil, "it ends with an error, of some NodePool": errors.New("no instance types")} {
		t.Run(name, func(t *testing.T) {
			cache := overlaysOf(overlay("a", 1, metav1.ConditionTrue, 1))
			var e *EvaluatedOverlays
			evaluation := NewEvaluation(evaluating(func() error {
				err := cache.Get(t.Context(), client.ObjectKey{Name: "a"}, overlay("", 0, "", 0))
				if there := err == nil; there && e.All(t.Context()) {
					t.Error("a batch is scheduled before the end")
				}
				if err := cache.Create(t.Context(), overlay("later", 1, metav1.ConditionTrue, 1)); client.IgnoreAlreadyExists(err) != nil {
					t.Error(err)
				}
				return failed
			}), cache, nil)
			e = NewEvaluatedOverlays(clocktesting.NewFakePassiveClock(time.Now()), cache, evaluation.Finished)
			result, err := evaluation.Reconcile(t.Context(), reconcile.Request{})
			if !errors.Is(err, failed) || result.RequeueAfter != time.Hour {
				t.Errorf("got %v, %v", result, err)
			}
			if e.All(t.Context()) {
				t.Error("a batch is scheduled without the overlay that came after the evaluation had begun")
			}
			if _, err := evaluation.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, failed) {
				t.Error(err)
			}
			if !e.All(t.Context()) {
				t.Error("a batch waits although all are evaluated")
			}
			if err := cache.Delete(t.Context(), overlay("a", 1, "", 0)); err != nil {
				t.Fatal(err)
			}
			if _, err := evaluation.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, failed) || len(evaluation.finished) != 1 {
				t.Errorf("it remembers %v, %v", evaluation.finished, err)
			}
		})
	}
}

func TestAnEvaluationWhoseNodeOverlaysCannotBeListedIsKarpenters(t *testing.T) {
	refused, evaluated := errors.New("refused"), false
	cache := interceptor.NewClient(overlaysOf().(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	})
	evaluation := NewEvaluation(evaluating(func() error { evaluated = true; return refused }), cache, nil)
	if _, err := evaluation.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, refused) || !evaluated {
		t.Errorf("evaluated %v, %v", evaluated, err)
	}
}
