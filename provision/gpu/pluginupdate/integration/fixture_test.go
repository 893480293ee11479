// Package integration runs the update of device plugins against a real API server,
// DaemonSet controller and scheduler; the kubelets are emulated. It has only tests;
// they are apart from the package's own because they link a whole sandbox. Start
// reading at TestPluginUpdatesInASandbox.
package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/pluginupdate"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
)

// timeout is how long anything may take.
const timeout = 5 * time.Minute

// nodes are by pool.
var nodes = func() map[string]string { return map[string]string{"a1": "a", "a2": "a", "b1": "b"} }

// fixture is a control plane with three nodes, two pools and two configurations.
type fixture struct {
	*testing.T
	client.Client
	roller *pluginupdate.Updater

	mu      sync.Mutex
	sharing gpu.Sharing
	// without are the nodes that had no running plugin at some time.
	log []string
}

// quick is a clock on which things settle soon.
type quick struct{ from time.Time }

func (q quick) Now() time.Time                  { return q.from.Add(20 * time.Since(q.from)) }
func (q quick) Since(t time.Time) time.Duration { return q.Now().Sub(t) }

func TestPluginUpdatesInASandbox(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts a control plane")
	}
	w := newFixture(t)
	w.apply("ten", "one", "a", "b")
	w.until("every node has its plugin", func() error { return w.runs(map[string]string{"a1": "ten/one", "a2": "ten/one", "b1": "ten/one"}) })

	w.Run("a new revision goes from node to node, and waits for a pod that is not admitted", w.upgrade)
	w.Run("a pool that moves to another configuration loses all plugins at once, whatever the updateStrategy", w.move)
}

func (w *fixture) upgrade(t *testing.T) {
	w.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"karpenter.sh/nodepool": "b"},
			Containers:   []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu.Resource: resource.MustParse("1")}}}},
		},
	})
	train := &corev1.Pod{}
	w.until("the pod is bound", func() error {
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "train"}, train); err != nil || train.Spec.NodeName != "b1" {
			return fmt.Errorf("bound to %q: %w", train.Spec.NodeName, err)
		}
		return nil
	})
	w.expectEvent(3)
	w.apply("ten", "two", "a", "b")
	w.until("pool a has gone on, pool b waits", func() error {
		if got := w.roller.States()["b"]; !strings.HasPrefix(got, "0 of 1 plugins replaced; waits: pod default/train waits for GPUs") {
			return fmt.Errorf("pool b: %q", got)
		}
		return w.runs(map[string]string{"a1": "ten/two", "a2": "ten/two", "b1": "ten/one"})
	})
	train.Status.StartTime = &metav1.Time{Time: time.Now()}
	if err := w.Status().Update(t.Context(), train); err != nil {
		t.Fatal(err)
	}
	w.until("pool b has gone on", func() error {
		if got := w.roller.States(); len(got) > 0 {
			return fmt.Errorf("states %v", got)
		}
		return w.runs(map[string]string{"a1": "ten/two", "a2": "ten/two", "b1": "ten/two"})
	})
	// One node after the other: gone, come; gone, come; gone, come.
	got := w.expectEvent(6)
	if len(got) != 6 {
		t.Fatalf("plugins went and came: %v", got)
	}
	for i := 0; i < len(got); i += 2 {
		node, _ := strings.CutPrefix(got[i], "gone ")
		if got[i] != "gone "+node || got[i+1] != "come "+node {
			t.Errorf("plugins went and came: %v", got)
		}
	}
	w.madeFrom(t, "2")
	w.until("the nodes are recorded", func() error {
		return w.recordedCapacity(map[string]string{"a1": "nvidia.com/gpu=40,nvidia.com/gpu.shared=0", "a2": "nvidia.com/gpu=40,nvidia.com/gpu.shared=0", "b1": "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"})
	})
}

// madeFrom checks which of the DaemonSet's templates the plugins say they are of:
// the update tells by it a plugin that was made again from an earlier one.
func (w *fixture) madeFrom(t *testing.T, template string) {
	t.Helper()
	set := &appsv1.DaemonSet{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: gpu.PluginNamespace, Name: "nvidia-device-plugin-ten"}, set); err != nil {
		t.Fatal(err)
	}
	if got := set.Annotations[appsv1.DeprecatedTemplateGeneration]; got != template {
		t.Errorf("the DaemonSet's template is %q, want %q", got, template)
	}
	pods, err := w.plugins(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatal("no plugins: ", err)
	}
	for _, p := range pods {
		if got := p.Labels["pod-template-generation"]; got != template {
			t.Errorf("the plugin on %s is of template %q, want %q", p.Spec.NodeName, got, template)
		}
	}
}

func (w *fixture) move(t *testing.T) {
	w.mu.Lock()
	w.sharing = gpu.Sharing{Configs: []gpu.PluginConfig{
		{Name: "ten", Pools: []string{"b"}, Replicas: 10, ReadyTimeout: time.Hour}, {Name: "five", Pools: []string{"a"}, Replicas: 5, ReadyTimeout: time.Hour},
	}}
	w.mu.Unlock()
	w.apply("ten", "two", "b")
	w.apply("five", "three", "a")
	w.until("pool a has the other configuration's plugin", func() error {
		return w.runs(map[string]string{"a1": "five/three", "a2": "five/three", "b1": "ten/two"})
	})
	message := w.expectEvent(4)
	slices.Sort(message)
	if got := strings.Join(message, ", "); got != "come a1, come a2, gone a1, gone a2" {
		t.Errorf("plugins went and came: %s", got)
	}
	w.until("what is recorded is the lesser number", func() error {
		return w.recordedCapacity(map[string]string{"a1": "nvidia.com/gpu=20,nvidia.com/gpu.shared=0", "a2": "nvidia.com/gpu=20,nvidia.com/gpu.shared=0", "b1": "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"})
	})
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.WithoutGit = true
	started := sandboxtest.Start(t, config)
	w := &fixture{T: t, sharing: gpu.Sharing{Configs: []gpu.PluginConfig{{Name: "ten", Pools: []string{"a", "b"}, Replicas: 10, ReadyTimeout: time.Hour}}}}
	life, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		end()
		running.Wait()
	})
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(started.REST(), ctrl.Options{Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if w.Client, err = client.New(started.REST(), client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	w.roller = pluginupdate.New(pluginupdate.Config{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Sharing: func(context.Context) (gpu.Sharing, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.sharing, nil
		},
		Recorder: mgr.GetEventRecorderFor("poolwright"), //nolint:staticcheck // The newer events API drops repeated notes into one series.
		Clock:    quick{time.Now()}, Log: logr.Discard(),
	})
	if err := w.roller.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	for name, pool := range nodes() {
		w.create(gpuNode(name, pool))
	}
	w.start(life, &running, mgr)
	return w
}

// start runs the manager and the kubelets.
func (w *fixture) start(life context.Context, running *sync.WaitGroup, mgr manager.Manager) {
	for _, run := range []func() error{func() error { return mgr.Start(life) }, func() error { return w.simulate(life) }} {
		running.Go(func() {
			if err := run(); err != nil && life.Err() == nil {
				w.Error(err)
			}
		})
	}
}

func gpuNode(name, pool string) *corev1.Node {
	allocatable := gpu.PluginConfig{Replicas: 10}.Allocatable(4)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"kubernetes.io/hostname": name, "karpenter.sh/nodepool": pool, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
				"karpenter.k8s.aws/instance-gpu-count": "4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
			},
			Annotations: map[string]string{gpu.AllocatableAnnotation: allocatable.String()},
		},
		Status: corev1.NodeStatus{
			Capacity:    allocatable.ApplyTo(capacity()),
			Allocatable: allocatable.ApplyTo(capacity()),
			Conditions:  []corev1.NodeCondition{ready(time.Now())},
		},
	}
}

func capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("48"), corev1.ResourceMemory: resource.MustParse("192Gi"), corev1.ResourcePods: resource.MustParse("100")}
}

func ready(now time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
}

// apply makes or changes a configuration's DaemonSet.
func (w *fixture) apply(config, revision string, pools ...string) {
	w.Helper()
	labels, annotations := map[string]string{gpu.ConfigLabel: config}, map[string]string{gpu.PluginHashAnnotation: revision}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: gpu.PluginNamespace, Name: "nvidia-device-plugin-" + config}}
	_, err := ctrl.CreateOrUpdate(w.Context(), w.Client, set, func() error {
		set.Labels = labels
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		set.Spec.Template.Labels, set.Spec.Template.Annotations = labels, annotations
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "plugin", Image: "plugin:" + revision}}
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpIn, Values: pools}}}},
		}}}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// create retries while the control plane's own objects (service accounts) are not
// there yet.
func (w *fixture) create(o client.Object) {
	w.Helper()
	w.until("creating "+o.GetName(), func() error {
		if err := w.Create(w.Context(), o.DeepCopyObject().(client.Object)); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// runs says how the running plugins differ from configuration/revision by node.
func (w *fixture) runs(want map[string]string) error {
	pods, err := w.plugins(w.Context())
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, p := range pods {
		if p.DeletionTimestamp.IsZero() && p.Status.Phase == corev1.PodRunning {
			got[p.Spec.NodeName] = p.Labels[gpu.ConfigLabel] + "/" + p.Annotations[gpu.PluginHashAnnotation]
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("plugins %v, states %v", got, w.roller.States())
	}
	return nil
}

func (w *fixture) plugins(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := w.List(ctx, &pods, client.InNamespace(gpu.PluginNamespace), client.HasLabels{gpu.ConfigLabel})
	return pods.Items, err
}

func (w *fixture) recordedCapacity(want map[string]string) error {
	var all corev1.NodeList
	if err := w.List(w.Context(), &all, client.HasLabels{"karpenter.sh/nodepool"}); err != nil {
		return err
	}
	var errs []error
	for _, n := range all.Items {
		if got := n.Annotations[gpu.AllocatableAnnotation]; got != want[n.Name] {
			errs = append(errs, fmt.Errorf("node %s is vouched for with %s", n.Name, got))
		}
		if mark, ok := n.Annotations["poolwright.dev/gpu-plugin-update"]; ok {
			errs = append(errs, fmt.Errorf("node %s is marked %s", n.Name, mark))
		}
	}
	return errors.Join(errs...)
}

// takeEvents returns which plugins went and came since the last call.
func (w *fixture) takeEvents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.log
	w.log = nil
	return out
}

// expectEvent waits until so many plugins went or came since the last call: the watch that
// notes them is not the client that sees them run. It returns what there is by then.
func (w *fixture) expectEvent(many int) []string {
	w.Helper()
	w.until(fmt.Sprintf("%d plugins went or came", many), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.log) < many {
			return fmt.Errorf("there are %v", w.log)
		}
		return nil
	})
	return w.takeEvents()
}

// until polls, and has the update look again: on the quick clock nothing comes at
// its time by itself.
func (w *fixture) until(what string, check func() error) {
	w.Helper()
	deadline := time.After(timeout)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if w.roller != nil {
			w.roller.Refresh()
		}
		select {
		case <-deadline:
			w.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}
