package readiness_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

var byDriver = gpu.PluginConfig{Name: "claims", Pools: []string{"shared"}, Strategy: gpu.StrategyDRA, ReadyTimeout: 10 * time.Minute}

// newDriverBench is a node of the DRA driver that has just registered, with the driver's pod and DaemonSet.
func newDriverBench(t *testing.T) (*bench, *corev1.Pod, *appsv1.DaemonSet) {
	node, claim, pod, set := starting()
	node.Spec.Taints = node.Spec.Taints[:1]
	claim.Finalizers = []string{"karpenter.sh/termination"}
	// The label of the DaemonSet is not one of its pods.
	pod.Name, pod.Labels = "driver-1", map[string]string{"app.kubernetes.io/instance": "claims"}
	set.Name, set.Labels = "nvidia-dra-driver-gpu-claims", map[string]string{gpu.DRAConfigLabel: "claims"}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod.Labels}
	b := newBench(t, node, claim, pod, set)
	b.sharing = gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{byDriver}}
	return b, pod, set
}

// published is a ResourceSlice, the only one of its pool, with so many GPUs of a node.
func published(node, driver string, gpus int) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node + driver, OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: node, UID: "node-1"}}},
		Spec: resourcev1.ResourceSliceSpec{NodeName: &node, Driver: driver, Devices: devices("gpu", gpus),
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}},
	}
}

func devices(kind string, n int) []resourcev1.Device {
	out := make([]resourcev1.Device, n)
	for i := range out {
		out[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}}
	}
	return out
}

// publishes has the driver publish so many GPUs of a node, so long ago that they are read.
func (b *bench) publishes(node, driver string, gpus int) {
	b.Helper()
	b.put(published(node, driver, gpus))
	b.clock.Step(5 * time.Second)
}

func initialize(n *corev1.Node) { n.Labels[karpv1.NodeInitializedLabelKey] = "true" }

func TestANodeOfTheDRADriverIsReadyOnceItsGPUsArePublished(t *testing.T) {
	b, _, _ := newDriverBench(t)
	b.publishes("another", "gpu.nvidia.com", 4)
	b.publishes(nodeName, "nic.example.com", 4)
	if wait := b.step(); wait != 5*time.Second {
		t.Errorf("it is read again after %s", wait)
	}
	want := gpu.PoolState{Pool: "shared", Config: "claims", Nodes: 1, Allocatable: gpu.Resources{gpu.Resource: 0}}
	if diff := cmp.Diff([]gpu.PoolState{want}, b.pools()); diff != "" {
		t.Error(diff)
	}
	b.publishes(nodeName, "gpu.nvidia.com", 3)
	if b.step(); b.pools()[0].Updated != 0 {
		t.Error("three of four GPUs are enough")
	}
	b.publishes(nodeName, "gpu.nvidia.com", 4)
	if wait := b.step(); wait != time.Minute {
		t.Errorf("it is read again after %s", wait)
	}
	want.Updated = 1
	if diff := cmp.Diff([]gpu.PoolState{want}, b.pools()); diff != "" {
		t.Error(diff)
	}
	b.clock.Step(time.Hour)
	if b.step(); b.claim().DeletionTimestamp != nil || len(b.takeEvents()) > 0 || b.allocatable() != "" {
		t.Error("a node that is ready is replaced, reported or written to")
	}
}

// A pod may come to such a node at any moment, so that nothing may delete it. The startup taint is that of a node that was launched
// while the DevicePlugin could not be read.
func TestANodeWhoseDRADriverNeverPublishesIsReportedAndNeverReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(b *bench, pod *corev1.Pod, set *appsv1.DaemonSet)
		reason, text string
	}{
		"a driver that finds nothing":    {func(*bench, *corev1.Pod, *appsv1.DaemonSet) {}, readiness.NotPublished, "published 0 of 4 GPUs"},
		"a GPU that is missing":          {func(b *bench, _ *corev1.Pod, _ *appsv1.DaemonSet) { b.publishes(nodeName, "gpu.nvidia.com", 3) }, readiness.NotPublished, "published 3 of 4 GPUs"},
		"a driver that is not ready":     {func(b *bench, pod *corev1.Pod, _ *appsv1.DaemonSet) { pod.Status.Conditions = nil; b.put(pod) }, readiness.PluginFailing, "driver-1 is not ready yet"},
		"no pod of the driver":           {func(b *bench, pod *corev1.Pod, _ *appsv1.DaemonSet) { b.drop(pod) }, readiness.NoPluginPod, "no pod of the DRA driver"},
		"a pod of another configuration": {func(b *bench, pod *corev1.Pod, _ *appsv1.DaemonSet) { pod.Labels = nil; b.put(pod) }, readiness.NoPluginPod, "no pod of the DRA driver"},
		"a taint": {func(b *bench, pod *corev1.Pod, _ *appsv1.DaemonSet) {
			b.drop(pod)
			b.edit(func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "team", Effect: corev1.TaintEffectNoSchedule})
			})
		}, readiness.NoPluginPod, "do not cover team:NoSchedule"},
		"the startup taint": {func(b *bench, _ *corev1.Pod, _ *appsv1.DaemonSet) {
			b.edit(func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
			})
			b.fails = func(verb string, o client.Object) error {
				if _, of := o.(*corev1.Node); of && verb == "patch" {
					return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, nodeName, errors.New("somebody wrote"))
				}
				return nil
			}
		}, "", ""},
		"no DaemonSet": {func(b *bench, _ *corev1.Pod, set *appsv1.DaemonSet) { b.drop(set) }, readiness.NotApplied, "no DaemonSet of the DRA driver"},
		"a DaemonSet of other pools": {func(b *bench, _ *corev1.Pod, set *appsv1.DaemonSet) {
			set.Spec.Template.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "other"}
			b.put(set)
		}, readiness.NotApplied, "does not select the node"},
		"a node that pods may use": {func(b *bench, _ *corev1.Pod, _ *appsv1.DaemonSet) { b.edit(initialize) }, readiness.NotPublished, "published 0 of 4 GPUs"},
		"a kubelet that is not ready": {func(b *bench, _ *corev1.Pod, _ *appsv1.DaemonSet) {
			b.publishes(nodeName, "gpu.nvidia.com", 4)
			b.edit(func(n *corev1.Node) { n.Status.Conditions = nil })
		}, readiness.NodeNotReady, "never reported"},
		"GPUs that the kubelet advertises, too": {func(b *bench, _ *corev1.Pod, _ *appsv1.DaemonSet) {
			b.publishes(nodeName, "gpu.nvidia.com", 4)
			b.edit(advertising(4))
		}, readiness.Mismatch, "a second time"},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod, set := newDriverBench(t)
			c.change(b, pod, set)
			b.step()
			b.clock.Step(9*time.Minute + 30*time.Second)
			b.step()
			if events := b.takeEvents(); len(events) > 0 || len(b.pools()[0].Unhealthy) > 0 {
				t.Fatalf("it is reported before its time is up: %v", events)
			}
			var waits []time.Duration
			for range 20 {
				b.clock.Step(10 * time.Minute)
				waits = append(waits, b.step())
			}
			if claim := b.claim(); claim == nil || claim.DeletionTimestamp != nil || len(claim.Annotations) > 0 || len(b.book.failed) > 0 {
				t.Fatalf("it is replaced: %+v, failures %v", claim, b.book.failed)
			}
			if c.reason == "" {
				return
			}
			if waits[19] != time.Minute {
				t.Errorf("it is read again after %s", waits[19])
			}
			// One on the node and one on the claim.
			if events := b.takeEvents(); len(events) != 2 || !strings.Contains(events[0], c.reason) || !strings.Contains(events[0], c.text) {
				t.Errorf("events: %q", events)
			}
			state := b.pools()[0]
			if len(state.Unhealthy) != 1 || state.Unhealthy[0].Reason != c.reason || state.Updated != 0 || state.Failures != 0 {
				t.Errorf("%+v", state)
			}
		})
	}
}

func TestTheStartupTaintOfANodeOfTheDRADriverIsRemoved(t *testing.T) {
	b, _, _ := newDriverBench(t)
	b.edit(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
		n.Annotations = map[string]string{gpu.AllocatableAnnotation: advertised40}
	})
	if b.step(); b.taints() != "nvidia.com/gpu" || b.allocatable() != "" {
		t.Errorf("taints %s, recorded %q", b.taints(), b.allocatable())
	}
}

func TestGPUsThatAreNoLongerPublishedAreReported(t *testing.T) {
	b, _, _ := newDriverBench(t)
	b.publishes(nodeName, "gpu.nvidia.com", 4)
	b.step()
	b.edit(initialize)
	b.clock.Step(time.Hour)
	b.publishes(nodeName, "gpu.nvidia.com", 2)
	if b.step(); len(b.pools()[0].Unhealthy) > 0 {
		t.Error("it is reported within what a restart takes")
	}
	b.clock.Step(2 * time.Minute)
	if wait := b.step(); wait != time.Minute || b.claim().DeletionTimestamp != nil {
		t.Errorf("it is read again after %s, or replaced", wait)
	}
	if unhealthy := b.pools()[0].Unhealthy; len(unhealthy) != 1 || unhealthy[0].Reason != readiness.NotPublished {
		t.Errorf("%+v", unhealthy)
	}
	b.publishes(nodeName, "gpu.nvidia.com", 4)
	if b.step(); len(b.pools()[0].Unhealthy) > 0 || b.pools()[0].Updated != 1 {
		t.Errorf("%+v", b.pools())
	}
}

// kube-scheduler counts the same: an older generation, a pool that lacks slices and those of an earlier node offer nothing.
func TestGPUsAreCountedOfTheNewestGenerationThatIsComplete(t *testing.T) {
	slice := func(name, pool string, generation, of int64, kind string, n int) *resourcev1.ResourceSlice {
		out := published(nodeName, "gpu.nvidia.com", 0)
		out.Name, out.Spec.Devices = name, devices(kind, n)
		out.Spec.Pool = resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: of}
		return out
	}
	change := func(s *resourcev1.ResourceSlice, change func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		ready  bool
	}{
		"one slice":                               {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 4)}, true},
		"two slices of a pool":                    {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 2, "gpu", 2), slice("b", "p", 1, 2, "gpu", 2)}, true},
		"two pools":                               {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 2), slice("b", "q", 7, 1, "gpu", 2)}, true},
		"a slice that is missing":                 {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 2, "gpu", 4)}, false},
		"an older generation that has more":       {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 4), slice("b", "p", 2, 1, "gpu", 3)}, false},
		"the same in the other order":             {[]*resourcev1.ResourceSlice{slice("a", "p", 2, 1, "gpu", 3), slice("b", "p", 1, 1, "gpu", 4)}, false},
		"two generations that are four together":  {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 2), slice("b", "p", 2, 1, "gpu", 2)}, false},
		"a newer generation beside an older rest": {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 1), slice("b", "p", 2, 1, "gpu", 4)}, true},
		"a newer generation that is incomplete":   {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "gpu", 4), slice("b", "p", 2, 2, "gpu", 4)}, false},
		"MIG devices":                             {[]*resourcev1.ResourceSlice{slice("a", "p", 1, 1, "mig", 4)}, false},
		"devices of no type": {[]*resourcev1.ResourceSlice{change(slice("a", "p", 1, 1, "gpu", 4), func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices = make([]resourcev1.Device, 4)
		})}, false},
		"slices of an earlier node of the name": {[]*resourcev1.ResourceSlice{change(slice("a", "p", 1, 1, "gpu", 4), func(s *resourcev1.ResourceSlice) {
			s.OwnerReferences[0].UID = "node-0"
		})}, false},
		"slices of no node": {[]*resourcev1.ResourceSlice{change(slice("a", "p", 1, 1, "gpu", 4), func(s *resourcev1.ResourceSlice) {
			s.Spec.NodeName = nil
		})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, _ := newDriverBench(t)
			for _, s := range c.slices {
				b.put(s)
			}
			if b.step(); b.pools()[0].Updated == 1 != c.ready {
				t.Errorf("%+v", b.pools())
			}
		})
	}
}

// ResourceSlices that cannot be read are not the other pools' matter.
func TestAPoolWhoseResourceSlicesCannotBeReadIsUnknown(t *testing.T) {
	group := schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"no permission to list them":              {apierrors.NewForbidden(group, "", errors.New("no role")), "may not be listed"},
		"an API server without the kind":          {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: group.Group, Kind: "ResourceSlice"}}, "does not serve"},
		"an API server that has the kind no more": {apierrors.NewNotFound(group, ""), "does not serve"},
		"an API server that is not reachable":     {errors.New("it is away"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, _ := newDriverBench(t)
			other, _, plugin, set := running()
			other.Name, other.UID, other.OwnerReferences, other.Labels[karpv1.NodePoolLabelKey] = "other", "node-2", nil, "sliced"
			plugin.Name, plugin.Spec.NodeName = "plugin-2", "other"
			for _, o := range []client.Object{other, plugin, set} {
				b.put(o)
			}
			slicedPool := sliced
			slicedPool.Pools = []string{"sliced"}
			b.sharing.Configs = append(b.sharing.Configs, slicedPool)
			b.noSlices = c.err
			if c.text == "" {
				if _, err := b.reconcile(); !errors.Is(err, c.err) {
					t.Errorf("returned %v", err)
				}
				return
			}
			for range 3 {
				if wait := b.step(); wait != time.Minute {
					t.Errorf("it is read again after %s", wait)
				}
				b.clock.Step(time.Hour)
			}
			pools := b.pools()
			if len(pools) != 2 || !strings.Contains(pools[0].Unknown, c.text) || pools[0].Nodes != 1 || pools[0].Updated != 0 || len(pools[0].Unhealthy) > 0 {
				t.Fatalf("%+v", pools)
			}
			if pools[1].Unknown != "" || pools[1].Updated != 1 || pools[1].Allocatable[gpu.Resource] != 40 {
				t.Errorf("the other pool: %+v", pools[1])
			}
			if events := b.takeEvents(); len(events) > 0 || b.claim().DeletionTimestamp != nil {
				t.Errorf("events %v", events)
			}
			b.noSlices = nil
			b.publishes(nodeName, "gpu.nvidia.com", 4)
			if b.step(); b.pools()[0].Unknown != "" || b.pools()[0].Updated != 1 {
				t.Errorf("once they can be read: %+v", b.pools()[0])
			}
		})
	}
}

func TestOneReadOfTheDRADriverIsForAllNodes(t *testing.T) {
	b, _, _ := newDriverBench(t)
	names := []string{nodeName}
	for _, name := range []string{"b", "c", "d"} {
		node, _, _, _ := starting()
		node.Name, node.UID, node.OwnerReferences, node.Spec.Taints = name, types.UID(name), nil, nil
		b.put(node)
		names = append(names, name)
	}
	const slices, sets = "*v1.ResourceSliceList", "*v1.DaemonSetList"
	before := b.lists[sets]
	for range 3 {
		for _, name := range names {
			if _, err := b.controller.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		b.pools()
	}
	// Each pass lists the device plugin's DaemonSets, which a cache has elsewhere.
	if own := b.lists[sets] - before - 3*(len(names)+1); b.lists[slices] != 1 || own != 1 {
		t.Errorf("within five seconds: %d lists of ResourceSlices, %d of the driver's DaemonSets", b.lists[slices], own)
	}
	b.clock.Step(50 * time.Second)
	if b.pools(); b.lists[slices] != 1 {
		t.Errorf("a report lists ResourceSlices again, %d times", b.lists[slices])
	}
	if b.step(); b.lists[slices] != 2 {
		t.Errorf("a node that starts is judged by what is old: %d lists", b.lists[slices])
	}
}

// A node in use is not read every few seconds without end.
func TestANodeInUseWhoseGPUsAreNotPublishedIsReadLessOftenAfterAWhile(t *testing.T) {
	b, _, _ := newDriverBench(t)
	b.edit(initialize)
	for _, want := range []time.Duration{5 * time.Second, time.Minute} {
		if wait := b.step(); wait != want {
			t.Errorf("it is read again after %s, want %s", wait, want)
		}
		b.clock.Step(2 * time.Minute)
	}
}
