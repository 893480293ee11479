package podevents

import (
	"context"
	"errors"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

type cloud struct{ cloudprovider.CloudProvider }

func (cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

// fixture is a node with its NodeClaim, and a controller whose clock begins at start.
type fixture struct {
	controller *Controller
	clock      *clocktesting.FakeClock
	client     client.WithWatch
	queue      queue
}

func start() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

func newFixture(t *testing.T) fixture {
	t.Helper()
	class := "karpenter.k8s.aws"
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&karpv1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
			return []string{o.(*karpv1.NodeClaim).Status.ProviderID}
		}).
		WithObjects(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-1"}},
			&karpv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim-a"},
				Spec:       karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: class, Kind: "EC2NodeClass", Name: "gpu"}},
				Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-1", NodeName: "node-a"},
			},
		).Build()
	clk := clocktesting.NewFakeClock(start())
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return fixture{controller: NewController(clk, api, cloud{}), clock: clk, client: api, queue: q}
}

// reconcile works off the queue and returns what is stored, relative to the start.
func (f fixture) reconcile(t *testing.T) string {
	t.Helper()
	for f.queue.Len() > 0 {
		request, _ := f.queue.Get()
		if _, err := f.controller.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		f.queue.Done(request)
	}
	claim := &karpv1.NodeClaim{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: "claim-a"}, claim); err != nil {
		t.Fatal(err)
	}
	if claim.Status.LastPodEventTime.IsZero() {
		return "none"
	}
	return claim.Status.LastPodEventTime.Sub(start()).String()
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "node-a"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

func unbound(p *corev1.Pod)   { p.Spec.NodeName = "" }
func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func ready(p *corev1.Pod)     { p.Labels = map[string]string{"ready": "true"} }

func terminating(p *corev1.Pod) {
	at := metav1.NewTime(start())
	p.DeletionTimestamp = &at
}

func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
}

func boundEarlier(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start().Add(-time.Hour))}}
}

// condition gives a pod one condition.
func condition(of corev1.PodConditionType, is corev1.ConditionStatus, at metav1.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: of, Status: is, LastTransitionTime: at}}
	}
}

func TestTheTimeOfAPodsEventIsStored(t *testing.T) {
	update := func(old, current func(*corev1.Pod)) func(fixture) {
		return func(f fixture) {
			f.controller.handler().Update(context.Background(), event.UpdateEvent{ObjectOld: pod(old), ObjectNew: pod(current)}, f.queue)
		}
	}
	deleted := func(change func(*corev1.Pod)) func(fixture) {
		return func(f fixture) {
			f.controller.handler().Delete(context.Background(), event.DeleteEvent{Object: pod(change)}, f.queue)
		}
	}
	created := func(change func(*corev1.Pod)) func(fixture) {
		return func(f fixture) {
			f.controller.handler().Create(context.Background(), event.CreateEvent{Object: pod(change)}, f.queue)
		}
	}
	anHourAgo := metav1.NewTime(start().Add(-time.Hour))
	for _, test := range []struct {
		name string
		sent func(fixture)
		want string
	}{
		{"a pod that is bound", update(unbound, nil), "5s"},
		{"a pod that ends", update(nil, succeeded), "5s"},
		{"a pod that begins to terminate", update(nil, terminating), "5s"},
		{"a pod that is forced away", deleted(nil), "5s"},
		{"a pod that is gone after it terminated", deleted(terminating), "none"},
		{"a pod that is gone after it ended", deleted(succeeded), "none"},
		{"a pod that changes otherwise", update(nil, ready), "none"},
		{"a pod of a DaemonSet", update(unbound, daemon), "none"},
		{"a pod that is on no node", update(unbound, unbound), "none"},
		{"a pod at the controller's start, bound an hour ago", created(boundEarlier), "-1h0m0s"},
		{"a pod at the controller's start whose binding has no time", created(nil), "5s"},
		{"a pod at the controller's start that was ready an hour ago", created(condition(corev1.PodReady, corev1.ConditionTrue, anHourAgo)), "5s"},
		{"a pod at the controller's start that was not scheduled an hour ago", created(condition(corev1.PodScheduled, corev1.ConditionFalse, anHourAgo)), "5s"},
		{"a pod at the controller's start that was scheduled at no time", created(condition(corev1.PodScheduled, corev1.ConditionTrue, metav1.Time{})), "5s"},
		{"a pod at the controller's start that ended", created(succeeded), "none"},
		{"two pods before either is stored, the one that was bound earlier last", func(f fixture) { created(nil)(f); created(boundEarlier)(f) }, "5s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.clock.Step(5 * time.Second)
			test.sent(f)
			if got := f.reconcile(t); got != test.want {
				t.Errorf("stored %s, want %s", got, test.want)
			}
		})
	}
}

// Karpenter's own controller drops both: the second event of ten seconds, and the event of a
// pod that is gone when it is read.
func TestNoEventIsLost(t *testing.T) {
	f := newFixture(t)
	h := f.controller.handler()
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod(unbound), ObjectNew: pod(nil)}, f.queue)
	if got := f.reconcile(t); got != "0s" {
		t.Fatalf("after the binding %s is stored", got)
	}
	f.clock.Step(3 * time.Second)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod(nil), ObjectNew: pod(terminating)}, f.queue)
	if got := f.reconcile(t); got != "3s" {
		t.Errorf("after the end, three seconds later, %s is stored", got)
	}
	f.clock.Step(400 * time.Millisecond)
	h.Delete(t.Context(), event.DeleteEvent{Object: pod(nil)}, f.queue)
	if got := f.reconcile(t); got != "3s" {
		t.Errorf("within the same second %s is stored", got)
	}
	// A time that is stored already does not go back.
	h.Create(t.Context(), event.CreateEvent{Object: pod(boundEarlier)}, f.queue)
	if got := f.reconcile(t); got != "3s" {
		t.Errorf("after an older event %s is stored", got)
	}
}

func TestAPodOnNoNodeIsNoEvent(t *testing.T) {
	f := newFixture(t)
	f.controller.handler().Update(t.Context(), event.UpdateEvent{
		ObjectOld: pod(unbound), ObjectNew: pod(func(p *corev1.Pod) { unbound(p); terminating(p) }),
	}, f.queue)
	if f.queue.Len() != 0 {
		t.Error("a node without a name is reconciled")
	}
}

// A time that a controller before this one stored is newer than the binding that this one finds.
func TestAStoredTimeDoesNotGoBackAtAStart(t *testing.T) {
	f := newFixture(t)
	f.controller.handler().Update(t.Context(), event.UpdateEvent{ObjectOld: pod(unbound), ObjectNew: pod(nil)}, f.queue)
	f.reconcile(t)
	f.controller = NewController(f.clock, f.client, cloud{})
	f.controller.handler().Create(t.Context(), event.CreateEvent{Object: pod(boundEarlier)}, f.queue)
	if got := f.reconcile(t); got != "0s" {
		t.Errorf("stored %s", got)
	}
}

func TestATimeIsStoredAtMostOnceASecond(t *testing.T) {
	f, writes := newFixture(t), 0
	f.controller.client = interceptor.NewClient(f.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	for range 20 {
		f.controller.handler().Update(t.Context(), event.UpdateEvent{ObjectOld: pod(unbound), ObjectNew: pod(nil)}, f.queue)
		f.reconcile(t)
		f.clock.Step(100 * time.Millisecond)
	}
	if writes != 2 {
		t.Errorf("%d writes in two seconds", writes)
	}
}

func TestAFailedRequestIsTriedAgainUnlessTheObjectIsGone(t *testing.T) {
	down := errors.New("connection refused")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "nodeclaims"}, "claim-a")
	patches := func(err error) interceptor.Funcs {
		return interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return err
		}}
	}
	another := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-b"}, Status: karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-1"}}
	for _, test := range []struct {
		name  string
		fails interceptor.Funcs
		// change changes the NodeClaims before.
		change func(client.Client) error
		want   error
	}{
		{name: "the Node cannot be read", want: down, fails: interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return down
			},
		}},
		{name: "NodeClaims cannot be listed", want: down, fails: interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down },
		}},
		{name: "the time cannot be stored", want: down, fails: patches(down)},
		{name: "the NodeClaim is gone meanwhile", fails: patches(gone)},
		{name: "the node has no NodeClaim", change: func(c client.Client) error {
			return c.Delete(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}})
		}},
		{name: "the node has two", change: func(c client.Client) error { return c.Create(t.Context(), another) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			if test.change != nil {
				if err := test.change(f.client); err != nil {
					t.Fatal(err)
				}
			}
			f.controller.client = interceptor.NewClient(f.client, test.fails)
			f.controller.handler().Update(t.Context(), event.UpdateEvent{ObjectOld: pod(unbound), ObjectNew: pod(nil)}, f.queue)
			request, _ := f.queue.Get()
			if _, err := f.controller.Reconcile(t.Context(), request); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestAClaimOfAnotherProviderIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	claim := &karpv1.NodeClaim{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: "claim-a"}, claim); err != nil {
		t.Fatal(err)
	}
	claim.Spec.NodeClassRef.Group = "karpenter.azure.com"
	if err := f.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	f.controller.handler().Update(t.Context(), event.UpdateEvent{ObjectOld: pod(unbound), ObjectNew: pod(nil)}, f.queue)
	if got := f.reconcile(t); got != "none" {
		t.Errorf("stored %s", got)
	}
}

func TestANodeThatIsGoneIsNotKept(t *testing.T) {
	f := newFixture(t)
	f.controller.handler().Update(t.Context(), event.UpdateEvent{
		ObjectOld: pod(unbound),
		ObjectNew: pod(func(p *corev1.Pod) { p.Spec.NodeName = "gone" }),
	}, f.queue)
	f.reconcile(t)
	if len(f.controller.last) != 0 {
		t.Errorf("kept %v", f.controller.last)
	}
}
