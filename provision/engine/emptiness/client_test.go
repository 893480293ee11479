package emptiness

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

const nodeName = "node-a"

func claim(on string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-a", UID: types.UID("claim-a")},
		Status:     karpv1.NodeClaimStatus{NodeName: on, ProviderID: "aws:///us-east-1a/i-1"},
	}
}

// isReason returns the reason for every NodeClaim.
func isReason(reason karpv1.DisruptionReason) ReasonFunc {
	return func(*karpv1.NodeClaim) karpv1.DisruptionReason { return reason }
}

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: corev1.NodeSpec{Taints: taints}}
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: nodeName},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

func fakeAPI(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(objects...).Build()
}

// deleteClaim deletes by a Client over api, whose clock passes the validation's delay as soon as
// somebody waits for it.
func deleteClaim(t *testing.T, c *Client, clk *clocktesting.FakeClock, claim *karpv1.NodeClaim) error {
	t.Helper()
	result := make(chan error, 1)
	ctx := coreoptions.ToContext(t.Context(), &coreoptions.Options{})
	go func() { result <- c.Delete(ctx, claim) }()
	for {
		select {
		case err := <-result:
			return err
		default:
			if clk.HasWaiters() {
				clk.Step(ValidationDelay)
			}
		}
	}
}

func TestAnEmptyNodesClaimIsDeletedOnlyAfterTheValidation(t *testing.T) {
	taint := karpv1.DisruptedNoScheduleTaint
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
	}
	for _, test := range []struct {
		name    string
		claim   *karpv1.NodeClaim
		objects []client.Object
		deleted bool
	}{
		{"an empty node goes", claim(nodeName), []client.Object{node(taint)}, true},
		{"a pod that was bound keeps the node", claim(nodeName), []client.Object{node(taint), pod("p", nil)}, false},
		{"a pod that is pending on the node keeps it", claim(nodeName), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, false},
		{"a pod of a DaemonSet does not count", claim(nodeName), []client.Object{node(taint), pod("p", daemon)}, true},
		{"a pod that ended does not count", claim(nodeName), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, true},
		{"a pod whose eviction costs nothing does not count, as for Karpenter", claim(nodeName), []client.Object{node(taint), pod("p", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "-2147483647"}
		})}, true},
		{"a pod of another node does not count", claim(nodeName), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "node-b" })}, true},
		{"a node without its taint stays", claim(nodeName), []client.Object{node()}, false},
		{"a claim without a Node goes", claim(nodeName), nil, true},
		{"a claim that names no node stays", claim(""), []client.Object{node(taint)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			api, clk := fakeAPI(append(test.objects, test.claim)...), clocktesting.NewFakeClock(time.Now())
			err := deleteClaim(t, NewClient(api, api, clk, isReason(karpv1.DisruptionReasonEmpty)), clk, test.claim)
			if deleted := err == nil; deleted != test.deleted {
				t.Fatalf("got error %v", err)
			}
			if !test.deleted && !disruption.IsUnrecoverableError(err) {
				t.Errorf("the queue would try again after %v", err)
			}
			left := apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(test.claim), &karpv1.NodeClaim{}))
			if left != test.deleted {
				t.Errorf("the NodeClaim is gone: %t", left)
			}
		})
	}
}

func TestARejectedDeletionStaysRejectedWhileTheQueueRetries(t *testing.T) {
	empty, blocking := claim(nodeName), pod("p", nil)
	api, clk := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), empty, blocking), clocktesting.NewFakeClock(time.Now())
	c := NewClient(api, api, clk, isReason(karpv1.DisruptionReasonEmpty))
	if err := deleteClaim(t, c, clk, empty); err == nil {
		t.Fatal("was deleted under a pod")
	}
	if err := api.Delete(t.Context(), blocking); err != nil {
		t.Fatal(err)
	}
	if err := deleteClaim(t, c, clk, empty); !disruption.IsUnrecoverableError(err) {
		t.Errorf("a retry within a moment got %v", err)
	}
	clk.Step(rejectedFor)
	if err := deleteClaim(t, c, clk, empty); err != nil {
		t.Errorf("a later command got %v", err)
	}
}

func TestAFailedReadDeletesNothingAndIsTriedAgain(t *testing.T) {
	empty := claim(nodeName)
	down := errors.New("connection refused")
	for name, fails := range map[string]interceptor.Funcs{
		"list of pods": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down }},
		"read of the Node": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Node); ok {
				return down
			}
			return c.Get(ctx, key, o, opts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api, clk := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), empty.DeepCopy()), clocktesting.NewFakeClock(time.Now())
			err := deleteClaim(t, NewClient(api, interceptor.NewClient(api, fails), clk, isReason(karpv1.DisruptionReasonEmpty)), clk, empty)
			if !errors.Is(err, down) || disruption.IsUnrecoverableError(err) {
				t.Errorf("got %v", err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(empty), &karpv1.NodeClaim{}); err != nil {
				t.Errorf("the NodeClaim: %v", err)
			}
		})
	}
}

func TestOnlyTheValidatedClaimIsDeleted(t *testing.T) {
	for _, test := range []struct {
		name   string
		reason karpv1.DisruptionReason
		want   *types.UID
	}{
		{"of an empty node", karpv1.DisruptionReasonEmpty, new(types.UID("claim-a"))},
		{"of a drifted node, as Karpenter deletes it", karpv1.DisruptionReasonDrifted, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			empty, clk := claim(nodeName), clocktesting.NewFakeClock(time.Now())
			api := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), empty)
			var got []*types.UID
			written := interceptor.NewClient(api, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					var all client.DeleteOptions
					var uid *types.UID
					if all.ApplyOptions(opts); all.Preconditions != nil {
						uid = all.Preconditions.UID
					}
					got = append(got, uid)
					return c.Delete(ctx, o, opts...)
				},
			})
			if err := deleteClaim(t, NewClient(written, api, clk, isReason(test.reason)), clk, empty); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*types.UID{test.want}, got); diff != "" {
				t.Errorf("deleted with the UID (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsDisruptedForAnotherReasonIsNotValidated(t *testing.T) {
	for _, reason := range []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized} {
		t.Run(string(reason), func(t *testing.T) {
			used, clk := claim(nodeName), clocktesting.NewFakeClock(time.Now())
			api := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), used, pod("p", nil))
			// Nobody steps the clock: a delay would not end.
			if err := NewClient(api, nil, clk, isReason(reason)).Delete(t.Context(), used); err != nil {
				t.Error(err)
			}
		})
	}
}

// drift is a method of another reason than Empty.
type drift struct{ disruption.Method }

func (drift) Reason() karpv1.DisruptionReason { return karpv1.DisruptionReasonDrifted }

func TestTheReasonIsThatOfTheQueuesCommand(t *testing.T) {
	var queue *disruption.Queue
	reason := Reasons(&queue)
	queue = disruption.NewQueue(nil, nil, nil, nil, nil)
	id := claim("").Status.ProviderID
	for _, test := range []struct {
		name    string
		command *disruption.Command
		want    karpv1.DisruptionReason
	}{
		{"no command is validated", nil, karpv1.DisruptionReasonEmpty},
		{"a command without a method is validated", &disruption.Command{}, karpv1.DisruptionReasonEmpty},
		{"a command for an empty node", &disruption.Command{Method: NewMethod(&disruption.Emptiness{}, nil)}, karpv1.DisruptionReasonEmpty},
		{"a command for a drifted node", &disruption.Command{Method: drift{}}, karpv1.DisruptionReasonDrifted},
	} {
		t.Run(test.name, func(t *testing.T) {
			delete(queue.ProviderIDToCommand, id)
			if test.command != nil {
				queue.ProviderIDToCommand[id] = test.command
			}
			if got := reason(claim("")); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAPodThatIsBoundDuringTheDelayKeepsTheNode(t *testing.T) {
	empty, clk := claim(nodeName), clocktesting.NewFakeClock(time.Now())
	api := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), empty)
	c := NewClient(api, api, clk, isReason(karpv1.DisruptionReasonEmpty))
	result := make(chan error, 1)
	go func() { result <- c.Delete(coreoptions.ToContext(t.Context(), &coreoptions.Options{}), empty) }()
	for !clk.HasWaiters() {
		select {
		case err := <-result:
			t.Fatalf("there was no delay: %v", err)
		default:
		}
	}
	if err := api.Create(t.Context(), pod("p", nil)); err != nil {
		t.Fatal(err)
	}
	clk.Step(ValidationDelay)
	if err := <-result; !disruption.IsUnrecoverableError(err) {
		t.Errorf("got %v", err)
	}
}
