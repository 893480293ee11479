package status_test

import (
	"context"
	"errors"
	"testing"
	"time"

	awsstatus "github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/status"
)

// read is a cache that only reads.
type read struct {
	cache.Cache
	from client.Client
}

func (r read) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return r.from.Get(ctx, key, into, opts...)
}

func (r read) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.from.List(ctx, into, opts...)
}

func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func plugin(name string, age time.Duration) *v1alpha1.DevicePlugin {
	return &v1alpha1.DevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(now().Add(-age))}}
}

func overlay(name string, labels map[string]string, conditions ...metav1.Condition) *overlayv1alpha1.NodeOverlay {
	o := &overlayv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, c := range conditions {
		c.LastTransitionTime = metav1.NewTime(now())
		o.Status.Conditions = append(o.Status.Conditions, awsstatus.Condition(c))
	}
	return o
}

type fixture struct {
	client   client.Client
	pools    []gpu.PoolState
	rollouts map[string]string
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	overlays := schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"}
	scheme.AddKnownTypes(overlays, &overlayv1alpha1.NodeOverlay{}, &overlayv1alpha1.NodeOverlayList{})
	metav1.AddToGroupVersion(scheme, overlays)
	return &fixture{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.DevicePlugin{}).Build()}
}

func (f *fixture) run(t *testing.T) ctrl.Result {
	t.Helper()
	r := &status.Reconciler{
		Cache: read{from: f.client}, Writer: f.client,
		Pools:         func(context.Context) ([]gpu.PoolState, error) { return f.pools, nil },
		PluginUpdates: func() map[string]string { return f.rollouts },
		Clock:         testclock.NewFakePassiveClock(now()),
	}
	result, err := r.Reconcile(t.Context(), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (f *fixture) status(t *testing.T, name string) v1alpha1.DevicePluginStatus {
	t.Helper()
	var got v1alpha1.DevicePlugin
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: name}, &got); err != nil {
		t.Fatal(err)
	}
	return got.Status
}

// What a node, a plugin or the API server wrote may hold a token, or move a terminal's cursor.
func TestTheStatusOfADevicePluginIsSanitized(t *testing.T) {
	const hostile, clean = "x\x1b[2K ghp_0123456789abcdefABCDEF", `x\x1b[2K (masked)`
	f := newFixture(t, plugin("nvidia", time.Hour))
	f.rollouts = map[string]string{"a": hostile}
	f.pools = []gpu.PoolState{{Pool: "a", Config: "whole", Nodes: 1, Updated: 1, LastFailure: hostile}}
	f.run(t)
	got := f.status(t, "nvidia")
	for _, kind := range []string{"Ready", "Progressing"} {
		if c := meta.FindStatusCondition(got.Conditions, kind); c.Message != "a: "+clean {
			t.Errorf("%s is %q", kind, c.Message)
		}
	}
	f.pools[0].Unhealthy = []gpu.UnhealthyNode{{Node: "n1", Reason: hostile, Message: hostile, Since: now()}}
	f.run(t)
	got = f.status(t, "nvidia")
	if c := meta.FindStatusCondition(got.Conditions, "Ready"); c.Message != "n1: "+clean {
		t.Errorf("Ready is %q", c.Message)
	}
	pool := got.Pools[0]
	if d := cmp.Diff([]string{clean, clean, clean}, []string{pool.PluginUpdate, pool.LastFailure, pool.UnhealthyNodes[0].Message}); d != "" {
		t.Errorf("status.pools (-want +got):\n%s", d)
	}
}

func TestTheConditionReadyNamesTheWorst(t *testing.T) {
	fine := gpu.PoolState{Pool: "a", Config: "sliced", Nodes: 2, Updated: 2, Allocatable: gpu.Resources{gpu.Resource: 80, gpu.SharedResource: 0}}
	starting := gpu.PoolState{Pool: "b", Config: "sliced", Nodes: 2, Updated: 1}
	failure := gpu.PoolState{Pool: "c", Config: "whole", Nodes: 1, Unhealthy: []gpu.UnhealthyNode{{Node: "n1", Claim: "c-1", Reason: "NoDriver", Message: "no libnvidia-ml", Since: now()}}}
	held := gpu.PoolState{Pool: "d", Config: "whole", Failures: 2, BackoffUntil: now().Add(5 * time.Minute), LastFailure: "NoDriver: x"}
	freed := gpu.PoolState{Pool: "d", Config: "whole", Failures: 2, BackoffUntil: now().Add(-time.Minute)}
	unknown := gpu.PoolState{Pool: "e", Config: "claims", Nodes: 1, Unknown: "ResourceSlices may not be listed"}
	ours := map[string]string{gpu.ConfigLabel: "sliced"}
	refused := metav1.Condition{Type: "ValidationSucceeded", Status: metav1.ConditionFalse, Reason: "Conflict"}
	for name, c := range map[string]struct {
		pools    []gpu.PoolState
		rollouts map[string]string
		overlay  client.Object
		want     string
	}{
		"no node at all":                {nil, nil, nil, "True Allocatable: 0 of 0 nodes advertise the resources of their configuration"},
		"all is advertised":             {[]gpu.PoolState{fine}, nil, nil, "True Allocatable: 2 of 2 nodes advertise the resources of their configuration"},
		"a node starts":                 {[]gpu.PoolState{fine, starting}, nil, nil, "True NodesStarting: 3 of 4 nodes advertise the resources of their configuration, the others are starting"},
		"a pool is unknown":             {[]gpu.PoolState{fine, starting, unknown}, nil, nil, "Unknown ResourceSlicesNotReadable: e: ResourceSlices may not be listed"},
		"a node has failed beside it":   {[]gpu.PoolState{unknown, failure}, nil, nil, "False NodesUnhealthy: n1: NoDriver"},
		"an update waits":               {[]gpu.PoolState{fine}, map[string]string{"a": "1 of 2 replaced"}, nil, "False UpdatingPlugins: a: 1 of 2 replaced"},
		"a node has failed":             {[]gpu.PoolState{starting, failure}, nil, nil, "False NodesUnhealthy: n1: NoDriver"},
		"a pool is held":                {[]gpu.PoolState{failure, held}, nil, nil, "False PoolsBackingOff: No GPU node is launched for d until 2026-11-20T12:05:00Z, because nodes never advertised their GPUs; status.pools has the details"},
		"a hold is over":                {[]gpu.PoolState{freed}, nil, nil, "True Allocatable: 0 of 0 nodes advertise the resources of their configuration"},
		"an overlay is refused":         {[]gpu.PoolState{held}, nil, overlay("poolwright-gpu-sliced-4", ours, refused), "False OverlayNotReady: Karpenter does not honour poolwright-gpu-sliced-4 (Conflict), so it would count other numbers than the nodes advertise; another NodeOverlay may set the same resources"},
		"an overlay is not checked yet": {nil, nil, overlay("poolwright-gpu-sliced-4", ours, metav1.Condition{Type: "ValidationSucceeded", Status: metav1.ConditionUnknown, Reason: "AwaitingReconciliation"}), "True Allocatable: 0 of 0 nodes advertise the resources of their configuration"},
		"another's overlay is refused":  {nil, nil, overlay("theirs", nil, refused), "True Allocatable: 0 of 0 nodes advertise the resources of their configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{plugin("nvidia", time.Hour)}
			if c.overlay != nil {
				objects = append(objects, c.overlay)
			}
			f := newFixture(t, objects...)
			f.pools, f.rollouts = c.pools, c.rollouts
			f.run(t)
			got := f.status(t, "nvidia")
			ready := meta.FindStatusCondition(got.Conditions, "Ready")
			if message := string(ready.Status) + " " + ready.Reason + ": " + ready.Message; message != c.want {
				t.Errorf("got  %s\nwant %s", message, c.want)
			}
			if got.ObservedGeneration != 3 || ready.ObservedGeneration != 3 {
				t.Errorf("the status is about generation %d, the condition about %d", got.ObservedGeneration, ready.ObservedGeneration)
			}
		})
	}
}

func TestPoolsAreReportedWithTheirNodesFailuresAndHolds(t *testing.T) {
	f := newFixture(t, plugin("nvidia", time.Hour))
	until := now().Add(5 * time.Minute)
	var failures []gpu.UnhealthyNode
	for i := range 12 {
		failures = append(failures, gpu.UnhealthyNode{Node: string(rune('a' + i)), Reason: "Mismatch", Since: now()})
	}
	f.pools = []gpu.PoolState{
		{Pool: "gpu", Config: "sliced", Nodes: 12, Updated: 1, Allocatable: gpu.Resources{gpu.Resource: 40, gpu.SharedResource: 0}, Unhealthy: failures},
		{Pool: "held", Config: "sliced", Failures: 2, BackoffUntil: until, LastFailure: "NoDriver: x"},
		{Pool: "quiet", Config: "sliced"},
	}
	f.rollouts = map[string]string{"gpu": "1 of 12 plugins replaced"}
	if result := f.run(t); result.RequeueAfter != 30*time.Second {
		t.Errorf("it looks again after %s, and nodes may be late before", result.RequeueAfter)
	}
	got := f.status(t, "nvidia")
	if got.Nodes != 12 || got.UpdatedNodes != 1 || len(got.Pools) != 2 {
		t.Fatalf("%+v", got)
	}
	first := got.Pools[0]
	if diff := cmp.Diff(map[string]int64{"nvidia.com/gpu": 40}, first.Allocatable); diff != "" || first.PluginUpdate != "1 of 12 plugins replaced" || len(first.UnhealthyNodes) != 10 {
		t.Errorf("%+v %s", first, diff)
	}
	if diff := cmp.Diff([]gpu.PoolState{{Pool: "held", Config: "sliced", Failures: 2, BackoffUntil: until, LastFailure: "NoDriver: x"}},
		status.BackoffStates(got), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("what the next process would remember: %s", diff)
	}
}

func TestTheEndOfAHoldIsDetectedWithoutAnEvent(t *testing.T) {
	f := newFixture(t, plugin("nvidia", time.Hour))
	f.pools = []gpu.PoolState{{Pool: "held", Config: "sliced", Failures: 2, BackoffUntil: now().Add(5 * time.Minute)}}
	if result := f.run(t); result.RequeueAfter != 5*time.Minute {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
}

func TestOfSeveralDevicePluginsTheOldestCounts(t *testing.T) {
	f := newFixture(t, plugin("new", time.Minute), plugin("old", time.Hour))
	f.pools = []gpu.PoolState{{Pool: "gpu", Config: "sliced", Nodes: 1, Updated: 1}}
	f.run(t)
	if got := f.status(t, "old"); got.Nodes != 1 {
		t.Errorf("the older one has %d nodes", got.Nodes)
	}
	got := f.status(t, "new")
	if ready := meta.FindStatusCondition(got.Conditions, "Ready"); ready == nil || ready.Reason != "SeveralDevicePlugins" || got.Nodes != 0 {
		t.Errorf("%+v", got)
	}
}

// What an earlier process wrote is what a new one remembers its failures by.
func TestNoStatusIsWrittenBeforeThePoolsAreRead(t *testing.T) {
	objects := []client.Object{plugin("new", time.Minute), plugin("old", time.Hour)}
	for _, o := range objects {
		o.(*v1alpha1.DevicePlugin).Status.Pools = []v1alpha1.GPUPoolStatus{{Name: "gpu", Failures: 3}}
	}
	f, away := newFixture(t, objects...), errors.New("the book is not read yet")
	r := &status.Reconciler{
		Cache: read{from: f.client}, Writer: f.client, Clock: testclock.NewFakePassiveClock(now()),
		Pools:         func(context.Context) ([]gpu.PoolState, error) { return nil, away },
		PluginUpdates: func() map[string]string { return nil },
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, away) {
		t.Errorf("returned %v", err)
	}
	for _, o := range objects {
		if diff := cmp.Diff(v1alpha1.DevicePluginStatus{Pools: []v1alpha1.GPUPoolStatus{{Name: "gpu", Failures: 3}}}, f.status(t, o.GetName())); diff != "" {
			t.Errorf("%s: %s", o.GetName(), diff)
		}
	}
}

func TestAStatusThatIsTrueIsNotWrittenAgain(t *testing.T) {
	f := newFixture(t, plugin("nvidia", time.Hour))
	f.run(t)
	version := func() string {
		var got v1alpha1.DevicePlugin
		if err := f.client.Get(t.Context(), client.ObjectKey{Name: "nvidia"}, &got); err != nil {
			t.Fatal(err)
		}
		return got.ResourceVersion
	}
	before := version()
	f.run(t)
	if after := version(); after != before {
		t.Errorf("version %s became %s", before, after)
	}
}

func TestOneThatIsBeingDeletedDoesNotCountBesideAnother(t *testing.T) {
	old := plugin("old", time.Hour)
	old.Finalizers, old.DeletionTimestamp = []string{"foregroundDeletion"}, &metav1.Time{Time: now()}
	old.Spec.Configs = []v1alpha1.DevicePluginConfig{{Name: "old", NodePools: []string{"gpu"}}}
	successor := plugin("new", time.Minute)
	successor.Spec.Configs = []v1alpha1.DevicePluginConfig{{Name: "new", NodePools: []string{"gpu"}}}
	sharing, err := status.LiveSharing(newFixture(t, old, successor).client)(t.Context())
	if pluginConfig, _ := sharing.ConfigForPool("gpu"); err != nil || pluginConfig.Name != "new" {
		t.Errorf("configuration %q counts, %v", pluginConfig.Name, err)
	}
	sharing, err = status.LiveSharing(newFixture(t, old).client)(t.Context())
	if _, served := sharing.ConfigForPool("gpu"); err != nil || served {
		t.Errorf("one that goes alone serves %t, %v", served, err)
	}
}
