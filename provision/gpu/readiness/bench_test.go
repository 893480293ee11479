package readiness_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

const (
	nodeName     = "ip-10-0-1-7.ec2.internal"
	claimName    = "shared-x7k2p"
	advertised40 = "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"
)

// epoch is when the node of each test registers.
var epoch = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

var sliced = gpu.PluginConfig{
	Name: "sliced", Pools: []string{"shared"}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10, ReadyTimeout: 10 * time.Minute,
}

// bench is an API server, a cache of it that may lag, and what the Controller needs.
type bench struct {
	*testing.T
	controller *readiness.Controller
	api        client.WithWatch
	cache      *lagging
	clock      *clocktesting.FakeClock
	book       *book
	events     *record.FakeRecorder
	registry   *prometheus.Registry
	sharing    gpu.Sharing
	// live is what is read past caches instead of sharing, where it is given.
	live *gpu.Sharing
	// foreign is true while another Karpenter's nodes are looked at.
	foreign bool
	// unknown is returned instead of sharing.
	unknown error
	// fails answers writes and live reads instead of the server.
	fails func(verb string, object client.Object) error
	// lists counts the lists by type; noSlices answers those of ResourceSlices.
	lists    map[string]int
	noSlices error
	reported int
}

// lagging is a cache that shows the API server, or what froze.
type lagging struct {
	*informertest.FakeInformers
	reader client.Reader
	fails  error
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if l.fails != nil {
		return l.fails
	}
	return l.reader.Get(ctx, key, o, opts...)
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if l.fails != nil {
		return l.fails
	}
	return l.reader.List(ctx, list, opts...)
}

// book writes down what it is told.
type book struct {
	failed, advertised []string
	until              time.Time
	last               string
}

func (b *book) Failed(pool, diagnosis string) (int, time.Time) {
	b.failed, b.last = append(b.failed, pool), diagnosis
	return len(b.failed), b.until
}

func (b *book) Reset(pool string) { b.advertised = append(b.advertised, pool) }

func (b *book) State(pool string) (int, time.Time, string) {
	n := 0
	for _, p := range b.failed {
		if p == pool {
			n++
		}
	}
	if n == 0 {
		return 0, time.Time{}, ""
	}
	return n, b.until, b.last
}

func (b *book) Pools() []string {
	return slices.Compact(slices.Sorted(slices.Values(b.failed)))
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{
		T: t, lists: map[string]int{}, clock: clocktesting.NewFakeClock(epoch.Add(7 * time.Second)), book: &book{},
		sharing: gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{sliced}},
	}
	fail := func(verb string, o client.Object) error {
		if b.fails == nil {
			return nil
		}
		return b.fails(verb, o)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&resourcev1.ResourceSlice{}, "spec.driver", func(o client.Object) []string { return []string{o.(*resourcev1.ResourceSlice).Spec.Driver} })
	b.api = builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := fail("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			b.lists[fmt.Sprintf("%T", list)]++
			if _, of := list.(*resourcev1.ResourceSliceList); of && b.noSlices != nil {
				return b.noSlices
			}
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := fail("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	b.cache = &lagging{FakeInformers: &informertest.FakeInformers{}, reader: b.api}
	b.restart()
	return b
}

// restart drops all memory, as in a new process would.
func (b *bench) restart() {
	b.Helper()
	b.events, b.registry = record.NewFakeRecorder(100), prometheus.NewRegistry()
	cached := func(context.Context) (gpu.Sharing, error) { return b.sharing, b.unknown }
	cfg := readiness.Config{
		Cache: b.cache, Client: b.api, Live: b.api, Backoff: b.book, Recorder: b.events, Registry: b.registry, Clock: b.clock,
		ReplaceEnabled: func() bool { return !b.foreign },
		OnChange:       func() { b.reported++ }, Log: logr.Discard(),
	}
	cfg.ReadSharing, cfg.CachedSharing = cached, cached
	cfg.LiveSharing = func(context.Context) (gpu.Sharing, error) {
		if b.live != nil {
			return *b.live, b.unknown
		}
		return b.sharing, b.unknown
	}
	var err error
	b.controller, err = readiness.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
}

// freeze makes the cache show only what is there now; the returned function
// lets it catch up.
func (b *bench) freeze() (thaw func()) {
	b.Helper()
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}, &appsv1.DaemonSetList{}, &karpv1.NodeClaimList{}} {
		if err := b.api.List(b.Context(), list); err != nil {
			b.Fatal(err)
		}
		builder.WithLists(list)
	}
	b.cache.reader = builder.Build()
	return func() { b.cache.reader = b.api }
}

// step reconciles the node once, without an error.
func (b *bench) step() time.Duration {
	b.Helper()
	result, err := b.reconcile()
	if err != nil {
		b.Fatal(err)
	}
	return result.RequeueAfter
}

func (b *bench) reconcile() (reconcile.Result, error) {
	return b.controller.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
}

func (b *bench) node() *corev1.Node {
	b.Helper()
	node := &corev1.Node{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Name: nodeName}, node); err != nil {
		b.Fatal(err)
	}
	return node
}

// claim returns the node's claim, nil when it is gone.
func (b *bench) claim() *karpv1.NodeClaim {
	b.Helper()
	claim := &karpv1.NodeClaim{}
	err := b.api.Get(b.Context(), client.ObjectKey{Name: claimName}, claim)
	if client.IgnoreNotFound(err) != nil {
		b.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return claim
}

// edit changes the node on the server.
func (b *bench) edit(change func(*corev1.Node)) {
	b.Helper()
	node := b.node()
	change(node)
	status := node.Status.DeepCopy()
	if err := b.api.Update(b.Context(), node); err != nil {
		b.Fatal(err)
	}
	node.Status = *status
	if err := b.api.Status().Update(b.Context(), node); err != nil {
		b.Fatal(err)
	}
}

// put puts an object in the place of the one with its name.
func (b *bench) put(o client.Object) {
	b.Helper()
	b.drop(o)
	o.SetResourceVersion("")
	if err := b.api.Create(b.Context(), o); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) drop(o client.Object) {
	b.Helper()
	fails := b.fails
	b.fails = nil
	defer func() { b.fails = fails }()
	if err := b.api.Delete(b.Context(), o.DeepCopyObject().(client.Object)); client.IgnoreNotFound(err) != nil {
		b.Fatal(err)
	}
}

// messageSuffix takes the events so far.
func (b *bench) takeEvents() []string {
	var out []string
	for {
		select {
		case e := <-b.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (b *bench) pools() []gpu.PoolState {
	b.Helper()
	pools, err := b.controller.Pools(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return pools
}

func (b *bench) allocatable() string { return b.node().Annotations[gpu.AllocatableAnnotation] }

func (b *bench) taints() string {
	var out []string
	for _, t := range b.node().Spec.Taints {
		out = append(out, t.Key)
	}
	return strings.Join(out, " ")
}

// starting are the objects of a node that has just registered, held by the
// startup taint, with a plugin that runs.
func starting() (*corev1.Node, *karpv1.NodeClaim, *corev1.Pod, *appsv1.DaemonSet) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName, UID: "node-1", CreationTimestamp: metav1.NewTime(epoch.Add(-time.Second)),
			Labels: map[string]string{
				karpv1.NodePoolLabelKey: "shared", karpv1.NodeRegisteredLabelKey: "true",
				"karpenter.k8s.aws/instance-gpu-count": "4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claimName, UID: "claim-1"}},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule},
			{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule},
			{Key: "team", Value: "ml", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, UID: "claim-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "shared"}},
		Status: karpv1.NodeClaimStatus{NodeName: nodeName, Conditions: []status.Condition{
			{Type: karpv1.ConditionTypeRegistered, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)},
		}},
	}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "nvidia-device-plugin-sliced", Namespace: gpu.PluginNamespace, CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)),
			Labels: map[string]string{gpu.ConfigLabel: "sliced"}, Annotations: map[string]string{gpu.SharingAnnotation: sliced.EncodeSharing()},
		},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gpu.PluginHashAnnotation: "r1"}},
			Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}, {Key: gpu.StartupTaint, Operator: corev1.TolerationOpExists}},
			},
		}},
	}
	return node, claim, plugin("plugin-1", "r1", true), set
}

func plugin(name, revision string, ready bool) *corev1.Pod {
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if ready {
		condition.Status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: gpu.PluginNamespace, UID: types.UID(name), CreationTimestamp: metav1.NewTime(epoch),
			Labels: map[string]string{gpu.ConfigLabel: "sliced"}, Annotations: map[string]string{gpu.PluginHashAnnotation: revision},
		},
		Spec:   corev1.PodSpec{NodeName: nodeName},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{condition}},
	}
}

// advertising sets what the kubelet says of nvidia.com/gpu.
func advertising(n int64) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable = corev1.ResourceList{gpu.Resource: *resource.NewQuantity(n, resource.DecimalSI)}
	}
}

// running are the objects of a node that was released and initialized.
func running() (*corev1.Node, *karpv1.NodeClaim, *corev1.Pod, *appsv1.DaemonSet) {
	node, claim, pod, set := starting()
	node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	node.Spec.Taints = slices.Delete(node.Spec.Taints, 1, 2)
	node.Annotations = map[string]string{gpu.AllocatableAnnotation: advertised40}
	advertising(40)(node)
	return node, claim, pod, set
}

// metric reads the series of a family, "config=sliced,nodepool=shared 1".
func (b *bench) metric(name string) string {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			var texts []string
			for _, l := range slices.Sorted(maps.Keys(labels)) {
				texts = append(texts, l+"="+labels[l])
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out = append(out, fmt.Sprintf("%s %.0f", strings.Join(texts, ","), value))
		}
	}
	return strings.Join(out, "; ")
}
