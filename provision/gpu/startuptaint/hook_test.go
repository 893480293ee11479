package startuptaint_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

const instance = "aws:///a/i-1"

// launched is a NodeClaim with an instance that has GPUs.
func launched() *karpv1.NodeClaim {
	c := claim("gpu", "one")
	c.Labels["karpenter.k8s.aws/instance-gpu-manufacturer"] = "nvidia"
	c.Status.ProviderID = instance
	return c
}

// arrived is the Node that has just come of it.
func arrived(change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{
		ProviderID: instance, Taints: []corev1.Taint{karpv1.UnregisteredNoExecuteTaint},
	}}
	for _, c := range change {
		c(node)
	}
	return node
}

func taints(t *testing.T, c client.Client) int {
	t.Helper()
	node := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "node"}, node); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, taint := range node.Spec.Taints {
		if taint.Key == gpu.StartupTaint && taint.Effect == corev1.TaintEffectNoSchedule {
			n++
		}
	}
	return n
}

func TestANodeDoesNotRegisterWithoutTheTaint(t *testing.T) {
	label := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{key: "true"} }
	}
	byCapacity := launched()
	delete(byCapacity.Labels, "karpenter.k8s.aws/instance-gpu-manufacturer")
	byCapacity.Status.Capacity = list(gpu.Resource, 0, gpu.SharedResource, 8)
	plain := launched()
	plain.Labels["karpenter.k8s.aws/instance-gpu-manufacturer"] = "amd"
	registered := launched()
	registered.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	unread := func(context.Context) (gpu.Sharing, error) { return gpu.Sharing{}, errors.New("no answer") }
	for name, c := range map[string]struct {
		claim   *karpv1.NodeClaim
		node    *corev1.Node
		sharing func(context.Context) (gpu.Sharing, error)
		taints  bool
	}{
		"it came without":                     {launched(), arrived(), sharing("gpu"), true},
		"its GPUs are known by capacity only": {byCapacity, arrived(), sharing("gpu"), true},
		"the sharing cannot be read":          {launched(), arrived(), unread, true},
		"no configuration serves its pool":    {launched(), arrived(), sharing("another"), false},
		"it has no NVIDIA GPU":                {plain, arrived(), sharing("gpu"), false},
		"its claim is registered":             {registered, arrived(), sharing("gpu"), false},
		"it is registered, its claim is not":  {launched(), arrived(label(karpv1.NodeRegisteredLabelKey)), sharing("gpu"), false},
		"it is initialized":                   {launched(), arrived(label(karpv1.NodeInitializedLabelKey)), sharing("gpu"), false},
		"it has been released": {launched(), arrived(func(n *corev1.Node) {
			n.Annotations = map[string]string{gpu.AllocatableAnnotation: "nvidia.com/gpu=10"}
		}), sharing("gpu"), false},
		"it is another instance's": {launched(), arrived(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-2" }), sharing("gpu"), false},
	} {
		t.Run(name, func(t *testing.T) {
			api := kube(t, c.node)
			hook := startuptaint.NewHook(api, c.sharing)
			result, err := hook.Registered(t.Context(), c.claim)
			if err != nil {
				t.Fatal(err)
			}
			if waits := result.RequeueAfter > 0; waits != c.taints || result.Requeue {
				t.Errorf("answers %+v", result)
			}
			if got := taints(t, api) == 1; got != c.taints {
				t.Errorf("tainted is %t", got)
			}
			// Now that it has what it needs, it may register.
			if result, err := hook.Registered(t.Context(), c.claim); err != nil || result.RequeueAfter != 0 {
				t.Errorf("the second time it answers %+v, %v", result, err)
			}
			if n := taints(t, api); n > 1 {
				t.Errorf("tainted %d times", n)
			}
		})
	}
}

func TestTheTaintFromUserDataLetsANodeRegisterAtOnce(t *testing.T) {
	api := kube(t, arrived(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
	}))
	hook := startuptaint.NewHook(interceptor.NewClient(api, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			t.Error("the node was written")
			return nil
		},
	}), sharing("gpu"))
	if result, err := hook.Registered(t.Context(), launched()); err != nil || result.RequeueAfter != 0 {
		t.Errorf("answers %+v, %v", result, err)
	}
}

func TestACacheThatLagsLetsNoNodeRegister(t *testing.T) {
	api := kube(t, arrived())
	old := &corev1.NodeList{}
	if err := api.List(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	lags := interceptor.NewClient(api, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			old.DeepCopyInto(into.(*corev1.NodeList))
			return nil
		},
	})
	// Somebody else's taint, that the cache does not show either, is not lost.
	changed := old.Items[0].DeepCopy()
	changed.Spec.Taints = append(changed.Spec.Taints, corev1.Taint{Key: "else", Effect: corev1.TaintEffectNoSchedule})
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	hook := startuptaint.NewHook(lags, sharing("gpu"))
	for range 3 {
		if result, err := hook.Registered(t.Context(), launched()); err != nil || result.RequeueAfter == 0 {
			t.Errorf("answers %+v, %v", result, err)
		}
	}
	stored := &corev1.Node{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "node"}, stored); err != nil || len(stored.Spec.Taints) != 2 {
		t.Errorf("the node has the taints %v, %v", stored.Spec.Taints, err)
	}
	if err := api.List(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first time it taints, then it sees the node of before that
		if result, err := hook.Registered(t.Context(), launched()); err != nil || result.RequeueAfter == 0 {
			t.Errorf("answers %+v, %v", result, err)
		}
	}
	if n := taints(t, api); n != 1 {
		t.Errorf("tainted %d times", n)
	}
}

func TestAFailureToTaintStopsTheRegistration(t *testing.T) {
	denied := errors.New("denied")
	for name, funcs := range map[string]interceptor.Funcs{
		"the node cannot be written": {Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return denied
		}},
		"the nodes cannot be read": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return denied }},
	} {
		hook := startuptaint.NewHook(interceptor.NewClient(kube(t, arrived()), funcs), sharing("gpu"))
		if _, err := hook.Registered(t.Context(), launched()); !errors.Is(err, denied) {
			t.Errorf("%s: %v", name, err)
		}
		if hook.Name() == "" {
			t.Error("it has no name")
		}
	}
}
