package pluginupdate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/poolwright/poolwright/provision/gpu"
)

// noon is when every test begins.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// shares are the stage's configurations: pools a and c are sliced in ten, pool b in
// five, under another name.
func shares() gpu.Sharing {
	return gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{
		{Name: "ten", Pools: []string{"a", "c"}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10, ReadyTimeout: 10 * time.Minute},
		{Name: "five", Pools: []string{"b"}, Strategy: gpu.SharingStrategyMPS, Replicas: 5, Renamed: true, ReadyTimeout: 5 * time.Minute},
	}}
}

// stage is an Updater on a cluster of objects that nobody else acts on.
type stage struct {
	*testing.T
	client.Client
	clock   *clocktesting.FakeClock
	sharing gpu.Sharing
	roller  *Updater
	events  *record.FakeRecorder
	// deleted are the nodes whose plugin was deleted, in order.
	deleted []string
	// onDelete, if set, is called after a deletion.
	onDelete func(pod *corev1.Pod)
	// pages counts the lists of pending pods.
	pages int
	// broken is what these lists fail with.
	broken   error
	reported int
}

// stale is a cache; where it is set, it shows another cluster's state.
type stale struct {
	cache.Cache
	from client.Reader
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return s.from.Get(ctx, key, o, opts...)
}

func (s stale) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.from.List(ctx, list, opts...)
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := &stage{T: t, clock: clocktesting.NewFakeClock(noon), sharing: shares(), events: record.NewFakeRecorder(100)}
	s.Client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string { return []string{string(o.(*corev1.Pod).Status.Phase)} }).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{Delete: s.delete, List: s.list}).Build()
	s.restart()
	return s
}

// restart is a new process.
func (s *stage) restart() {
	s.roller = New(Config{
		Cache: stale{from: s.Client}, Client: s.Client, Live: s.Client,
		Sharing:  func(context.Context) (gpu.Sharing, error) { return s.sharing, nil },
		Recorder: s.events, Clock: s.clock, Log: logr.Discard(), OnChange: func() { s.reported++ },
	})
}

// delete does what the fake lacks: it minds the UID.
func (s *stage) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), pod); err != nil {
		return err
	}
	if p := options.Preconditions; p == nil || p.UID == nil || *p.UID != pod.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, o.GetName(), fmt.Errorf("another UID"))
	}
	if options.GracePeriodSeconds != nil {
		s.Errorf("pod %s is given %d s", pod.Name, *options.GracePeriodSeconds)
	}
	s.deleted = append(s.deleted, pod.Spec.NodeName)
	if err := c.Delete(ctx, o, opts...); err != nil {
		return err
	}
	if s.onDelete != nil {
		s.onDelete(pod)
	}
	return nil
}

// list gives pending pods one at a time.
func (s *stage) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.List(ctx, list, opts...); err != nil {
		return err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	pods, ok := list.(*corev1.PodList)
	if !ok || options.Limit == 0 {
		return nil
	}
	if s.broken != nil {
		return s.broken
	}
	s.pages++
	from := 0
	if options.Continue != "" {
		if _, err := fmt.Sscan(options.Continue, &from); err != nil {
			return err
		}
	}
	all := pods.Items
	pods.Items, pods.Continue = nil, ""
	if from < len(all) {
		pods.Items = all[from : from+1]
	}
	if from+1 < len(all) {
		pods.Continue = fmt.Sprint(from + 1)
	}
	return nil
}

// step reconciles once.
func (s *stage) step() reconcile.Result {
	s.Helper()
	result, err := s.roller.Reconcile(s.Context(), reconcile.Request{})
	if err != nil {
		s.Fatal(err)
	}
	return result
}

// marked reads the record of a node.
func (s *stage) marked(name string) gpu.PluginUpdate {
	s.Helper()
	return gpu.ParsePluginUpdate(s.node(name).Annotations[gpu.PluginUpdateAnnotation])
}

func (s *stage) node(name string) *corev1.Node {
	s.Helper()
	node := &corev1.Node{}
	if err := s.Get(s.Context(), client.ObjectKey{Name: name}, node); err != nil {
		s.Fatal(err)
	}
	return node
}

// recordedCapacity is what is vouched for of a node.
func (s *stage) recordedCapacity(name string) string {
	s.Helper()
	return s.node(name).Annotations[gpu.AllocatableAnnotation]
}

// change reads, changes and writes an object, its status too.
func change[T client.Object](s *stage, o T, with func(T)) {
	s.Helper()
	if err := s.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		s.Fatal(err)
	}
	with(o)
	desired := o.DeepCopyObject().(T)
	if err := s.Update(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	desired.SetResourceVersion(o.GetResourceVersion())
	if err := s.Status().Update(s.Context(), desired); err != nil {
		s.Fatal(err)
	}
}

// put creates an object with its status.
func (s *stage) put(o client.Object) {
	s.Helper()
	with := o.DeepCopyObject().(client.Object)
	if err := s.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	with.SetResourceVersion(o.GetResourceVersion())
	if err := s.Status().Update(s.Context(), with); err != nil {
		s.Fatal(err)
	}
}

// takeEvents are the events so far.
func (s *stage) takeEvents() string {
	var out []string
	for {
		select {
		case text := <-s.events.Events:
			out = append(out, text)
		default:
			return strings.Join(out, "\n")
		}
	}
}

// set is a configuration's DaemonSet, all of whose annotations say the revision.
func set(config, revision string) *appsv1.DaemonSet {
	annotations := map[string]string{gpu.PluginHashAnnotation: revision}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gpu.PluginNamespace, Name: "nvidia-device-plugin-" + config, UID: types.UID("set-" + config), Generation: 2,
			Labels: map[string]string{gpu.ConfigLabel: config}, Annotations: annotations,
		},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{gpu.ConfigLabel: config}, Annotations: annotations,
		}}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 2},
	}
}

// node is an initialized node with four GPUs, advertising what its pool's configuration
// says. Its name begins with its pool.
func node(name string, with ...func(*corev1.Node)) *corev1.Node {
	pool := name[:1]
	config, _ := shares().ConfigForPool(pool)
	allocatable := config.Allocatable(4)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name),
			Labels: map[string]string{
				poolLabel: pool, registeredLabel: "true", "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name,
				"karpenter.k8s.aws/instance-gpu-count": "4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
			},
			Annotations: map[string]string{gpu.AllocatableAnnotation: allocatable.String()},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: allocatable.ApplyTo(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("48")}),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}},
		},
	}
	for _, change := range with {
		change(n)
	}
	return n
}

// plugin is a ready plugin pod of the node's pool's configuration, that old.
func plugin(on, revision string, age time.Duration, with ...func(*corev1.Pod)) *corev1.Pod {
	config, _ := shares().ConfigForPool(on[:1])
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gpu.PluginNamespace, Name: "plugin-" + on + "-" + revision, UID: types.UID("pod-" + on + "-" + revision),
			CreationTimestamp: metav1.NewTime(noon.Add(-age)),
			Labels:            map[string]string{gpu.ConfigLabel: config.Name}, Annotations: map[string]string{gpu.PluginHashAnnotation: revision},
		},
		Spec:   corev1.PodSpec{NodeName: on},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range with {
		change(pod)
	}
	return pod
}

// requesting is a pending pod that asks for so many of a resource and tolerates the
// nodes' taint.
func requesting(name string, n int64, of corev1.ResourceName, with ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{of: *resource.NewQuantity(n, resource.DecimalSI)}}}},
			Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range with {
		change(pod)
	}
	return pod
}

// What is done to nodes.

func starting(n *corev1.Node) {
	delete(n.Labels, "karpenter.sh/initialized")
	delete(n.Annotations, gpu.AllocatableAnnotation)
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func disrupted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule})
}

func going(n *corev1.Node) {
	n.Finalizers = []string{"karpenter.sh/termination"}
	n.DeletionTimestamp = &metav1.Time{Time: noon}
}

// advertising makes the node's allocatable that many of a resource.
func advertising(count int64, of corev1.ResourceName) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable[gpu.Resource] = *resource.NewQuantity(0, resource.DecimalSI)
		n.Status.Allocatable[of] = *resource.NewQuantity(count, resource.DecimalSI)
	}
}

// marking is a node whose plugin pod of a revision was to be replaced by another,
// so long ago.
func marking(from, to string, ago time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations[gpu.PluginUpdateAnnotation] = gpu.PluginUpdate{Hash: to, Pod: types.UID("pod-" + n.Name + "-" + from), Time: noon.Add(-ago)}.String()
	}
}

func withoutAllocatable(n *corev1.Node) { delete(n.Annotations, gpu.AllocatableAnnotation) }

// What is done to pods.

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func ofConfig(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Name += "-" + name
		p.Labels[gpu.ConfigLabel] = name
	}
}

// serving is a plugin's pod with the MPS daemon in it.
func serving(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{{Name: "shm", Command: []string{"mps-control-daemon", "mount-shm"}}}
	p.Spec.Containers = []corev1.Container{{Name: "mps", Command: []string{"/usr/bin/mps-control-daemon"}}, {Name: "plugin", Command: []string{"nvidia-device-plugin"}}}
}

func ending(p *corev1.Pod) {
	p.Finalizers = []string{"kubernetes"}
	p.DeletionTimestamp = &metav1.Time{Time: noon}
}

func schedulable(is bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
		if !is {
			condition.Status, condition.Reason = corev1.ConditionFalse, corev1.PodReasonUnschedulable
		}
		p.Status.Conditions = slices.Clone(append(p.Status.Conditions, condition))
	}
}
