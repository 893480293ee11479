package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// claims is a cluster state that knows names only.
type claims map[string]bool

func (c claims) NodeClaimExists(name string) bool { return c[name] }
func (c claims) DeleteNodeClaim(name string)      { delete(c, name) }

func TestReadBack(t *testing.T) {
	for _, test := range []struct {
		name       string
		known      bool
		live       *karpv1.NodeClaim
		fails      error
		kept       bool
		again, err bool
	}{
		{name: "a claim that is gone is dropped", known: true},
		{name: "a claim that the state never had costs nothing"},
		{name: "a claim with its instance needs no read", known: true, live: claimed("aws:///z/i-1"), kept: true},
		{name: "a claim that still launches is read again", known: true, live: claimed(""), kept: true, again: true},
		{name: "an unanswered read drops nothing", known: true, fails: errors.New("down"), kept: true, err: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := claims{}
			if test.known {
				state["a"] = true
			}
			builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			if test.live != nil {
				builder.WithObjects(test.live)
			}
			reads := 0
			builder.WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				reads++
				if test.fails != nil {
					return test.fails
				}
				return c.Get(ctx, key, o, opts...)
			}})
			r := newReadBack()
			r.live, r.state = builder.Build(), state
			result, err := r.Reconcile(t.Context(), request("a"))
			if (err != nil) != test.err || (result.RequeueAfter == readBackAfter) != test.again || state["a"] != test.kept {
				t.Errorf("result %v, error %v, kept %t", result, err, state["a"])
			}
			if !test.known && reads > 0 {
				t.Error("it was read all the same")
			}
		})
	}
}

func claimed(providerID string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: karpv1.NodeClaimStatus{ProviderID: providerID}}
}

func TestCreationsAreReadBackAlsoWhenTheyCameBeforeTheController(t *testing.T) {
	r := newReadBack()
	r.after = time.Millisecond
	r.Created("early")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := r.start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	r.Created("late")
	got := map[string]bool{}
	for range 2 {
		item, _ := queue.Get()
		got[item.Name] = true
	}
	if !got["early"] || !got["late"] {
		t.Errorf("queued %v", got)
	}
}

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
