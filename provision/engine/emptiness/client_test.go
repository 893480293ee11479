package emptiness

import (
	"context"
	"errors"
	"testing"
	"time"

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
)

const nodeName = "node-a"

func claimFor(reason string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-a", UID: types.UID("claim-a")},
		Status:     karpv1.NodeClaimStatus{NodeName: nodeName, ProviderID: "aws:///us-east-1a/i-1"},
	}
	if reason != "" {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
	}
	return claim
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
	go func() { result <- c.Delete(t.Context(), claim) }()
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
		{"an empty node goes", claimFor("Empty"), []client.Object{node(taint)}, true},
		{"a pod that was bound keeps the node", claimFor("Empty"), []client.Object{node(taint), pod("p", nil)}, false},
		{"a pod that is pending on the node keeps it", claimFor("Empty"), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, false},
		{"a pod of a DaemonSet does not count", claimFor("Empty"), []client.Object{node(taint), pod("p", daemon)}, true},
		{"a pod that ended does not count", claimFor("Empty"), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, true},
		{"a pod whose eviction costs nothing does not count, as for Karpenter", claimFor("Empty"), []client.Object{node(taint), pod("p", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "-2147483647"}
		})}, true},
		{"a pod of another node does not count", claimFor("Empty"), []client.Object{node(taint), pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "node-b" })}, true},
		{"a node without its taint stays", claimFor("Empty"), []client.Object{node()}, false},
		{"a claim without a Node goes", claimFor("Empty"), nil, true},
		{"a drifted node is drained, as for Karpenter", claimFor("Drifted"), []client.Object{node(taint), pod("p", nil)}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			api, clk := fakeAPI(append(test.objects, test.claim)...), clocktesting.NewFakeClock(time.Now())
			err := deleteClaim(t, NewClient(api, api, clk), clk, test.claim)
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
	claim, blocking := claimFor("Empty"), pod("p", nil)
	api, clk := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), claim, blocking), clocktesting.NewFakeClock(time.Now())
	c := NewClient(api, api, clk)
	if err := deleteClaim(t, c, clk, claim); err == nil {
		t.Fatal("was deleted under a pod")
	}
	if err := api.Delete(t.Context(), blocking); err != nil {
		t.Fatal(err)
	}
	if err := deleteClaim(t, c, clk, claim); !disruption.IsUnrecoverableError(err) {
		t.Errorf("a retry within a moment got %v", err)
	}
	clk.Step(rejectedFor)
	if err := deleteClaim(t, c, clk, claim); err != nil {
		t.Errorf("a later command got %v", err)
	}
}

func TestAFailedReadDeletesNothingAndIsTriedAgain(t *testing.T) {
	claim := claimFor("Empty")
	down := errors.New("connection refused")
	for name, fails := range map[string]interceptor.Funcs{
		"list of pods": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down }},
		"read of the NodeClaim": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*karpv1.NodeClaim); ok {
				return down
			}
			return c.Get(ctx, key, o, opts...)
		}},
		"read of the Node": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Node); ok {
				return down
			}
			return c.Get(ctx, key, o, opts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api, clk := fakeAPI(node(karpv1.DisruptedNoScheduleTaint), claim.DeepCopy()), clocktesting.NewFakeClock(time.Now())
			err := deleteClaim(t, NewClient(api, interceptor.NewClient(api, fails), clk), clk, claim)
			if !errors.Is(err, down) || disruption.IsUnrecoverableError(err) {
				t.Errorf("got %v", err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), &karpv1.NodeClaim{}); err != nil {
				t.Errorf("the NodeClaim: %v", err)
			}
		})
	}
}
