package batcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// overlay is a NodeOverlay of a generation, with the condition that Karpenter writes of another.
func overlay(name string, of int64, valid metav1.ConditionStatus, observed int64) *karpv1alpha1.NodeOverlay {
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: of}}
	if valid != "" {
		o.Status.Conditions = []status.Condition{{Type: karpv1alpha1.ConditionTypeValidationSucceeded, Status: valid, ObservedGeneration: observed}}
	}
	return o
}

func overlaysOf(all ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(all...).WithStatusSubresource(&karpv1alpha1.NodeOverlay{}).Build()
}

// over is every evaluation.
func over(*karpv1alpha1.NodeOverlay) bool { return true }

func TestABatchWaitsForNodeOverlaysThatAreNotEvaluated(t *testing.T) {
	deleted := overlay("deleted", 1, "", 0)
	now := metav1.Now()
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/finalizer"}
	for name, c := range map[string]struct {
		overlays []client.Object
		want     bool
	}{
		"no NodeOverlay":    {nil, true},
		"all are evaluated": {[]client.Object{overlay("a", 1, metav1.ConditionTrue, 1), overlay("b", 3, metav1.ConditionTrue, 3)}, true},
		"one is new":        {[]client.Object{overlay("a", 1, metav1.ConditionTrue, 1), overlay("b", 1, "", 0)}, false},
		"one is new, with the condition of no outcome": {[]client.Object{overlay("a", 1, metav1.ConditionUnknown, 1)}, false},
		"one has changed since":                        {[]client.Object{overlay("a", 2, metav1.ConditionTrue, 1)}, false},
		"one is evaluated and in conflict":             {[]client.Object{overlay("a", 2, metav1.ConditionFalse, 2)}, true},
		"one is being deleted":                         {[]client.Object{deleted}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEvaluatedOverlays(clocktesting.NewFakePassiveClock(time.Now()), overlaysOf(c.overlays...), over)
			if got := e.All(t.Context()); got != c.want {
				t.Error(got)
			}
		})
	}
}

func TestNodeOverlaysThatAreNeverEvaluatedAreWaitedForOnce(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	o := overlay("a", 1, "", 0)
	reader := overlaysOf(o)
	e := NewEvaluatedOverlays(clk, reader, over)
	waited := func(change func()) time.Duration {
		begin := clk.Now()
		for !e.All(t.Context()) {
			if clk.Now().Sub(begin) > time.Minute {
				t.Fatal("it is waited for without an end")
			}
			clk.SetTime(clk.Now().Add(syncInterval))
			change()
		}
		return clk.Now().Sub(begin)
	}
	next := func() {
		o.Generation++
		if err := reader.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := waited(next); got < evaluationTimeout || got > evaluationTimeout+syncInterval {
		t.Errorf("while it changes all the time, it was waited for %s", got)
	}
	if got := waited(next); got != 0 {
		t.Errorf("it was waited for %s once more", got)
	}
	// Another one is waited for, although no batch was there when the time of the first ended.
	clk.SetTime(clk.Now().Add(time.Hour))
	if err := reader.Create(t.Context(), overlay("b", 1, "", 0)); err != nil {
		t.Fatal(err)
	}
	if got := waited(func() {}); got < evaluationTimeout {
		t.Errorf("beside one that is not waited for any more, another was for %s", got)
	}
	o.Status = overlay("a", 0, metav1.ConditionTrue, o.Generation).Status
	if err := reader.Status().Update(t.Context(), o); err != nil || !e.All(t.Context()) {
		t.Fatal("it is evaluated, and waited for", err)
	}
	next()
	if got := waited(func() {}); got < evaluationTimeout {
		t.Errorf("after it was evaluated, its next generation was waited for %s", got)
	}
}

func TestABatchDoesNotWaitForNodeOverlaysThatCannotBeListed(t *testing.T) {
	reader := interceptor.NewClient(overlaysOf().(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("refused")
		},
	})
	if !NewEvaluatedOverlays(clocktesting.NewFakePassiveClock(time.Now()), reader, over).All(t.Context()) {
		t.Error("it waits")
	}
}
