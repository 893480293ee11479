package kubernetes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

func wantOffline(t *testing.T, from targets.Target, declared state.Set) state.Set {
	t.Helper()
	desired, err := from.Desired(t.Context(), declared)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

const offlinePlugin = `
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: gpus}
spec:
  configs:
  - name: shared
    nodePools: [gpu]
    sharing: {timeSlicing: {replicas: 4}}
`

const gpuPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {nvidia.com/gpu: 8}
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
`

func TestOfflineDesiresWhatTheClusterWould(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config, web, pool, widgets, `
apiVersion: v1
kind: ConfigMap
metadata: {name: nowhere, uid: u, resourceVersion: "1", managedFields: [], ownerReferences: [{uid: u}], annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}
status: {a: b}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS, namespace: $NS}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: $NS}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 3}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: o}
spec: {capacity: {nvidia.com/gpu: "4"}}
`)
	want, got := b.want(declared), wantOffline(t, kubernetes.Offline(b.sync, nil), declared)
	if d := cmp.Diff(want.Items(), got.Items()); d != "" {
		t.Error(d)
	}
	if got.Len() != declared.Len() {
		t.Errorf("%d things of %d", got.Len(), declared.Len())
	}
}

func TestOfflineDesiresWhatADevicePluginExpandsTo(t *testing.T) {
	b := newBench(t)
	declared := b.declare(offlinePlugin, gpuPool)
	got := map[string]int{}
	for _, item := range wantOffline(t, kubernetes.Offline("s", nil), declared).Items() {
		got[item.Key.Kind]++
	}
	if got["DaemonSet"] != 1 || got["ConfigMap"] != 1 || got["NodeOverlay"] == 0 || got["DevicePlugin"] != 1 || got["NodePool"] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestOfflineHasWhichKindsAreNamespaced(t *testing.T) {
	b := newBench(t)
	disco, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	from, checked := kubernetes.Offline("s", nil), 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			ours := gv.Group == "poolwright.dev" || strings.HasPrefix(gv.Group, "karpenter.")
			if !ours && len(scheme.Scheme.VersionsForGroupKind(schema.GroupKind{Group: gv.Group, Kind: r.Kind})) == 0 {
				continue
			}
			if r.Kind == "DevicePlugin" {
				continue // where another test has installed it; one without a spec is refused
			}
			checked++
			item := namedThing(gv.WithKind(r.Kind))
			namespace := wantOffline(t, from, state.NewSet(item)).Items()[0].Key.Namespace
			if want := map[bool]string{true: "default"}[r.Namespaced]; namespace != want {
				t.Errorf("%s of %s: the namespace is %q, want %q", r.Kind, gv, namespace, want)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d kinds", checked)
	}
	item := namedThing(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"})
	for _, namespace := range []string{"", b.ns} {
		item.Key.Namespace = namespace
		got := wantOffline(t, from, state.NewSet(item)).Items()
		if len(got) != 1 || got[0].Key != item.Key {
			t.Errorf("a kind that nobody knows became %v", got)
		}
	}
}

func namedThing(kind schema.GroupVersionKind) state.Item {
	return state.Item{
		Key:     state.Key{Target: kubernetes.Name, Group: kind.Group, Kind: kind.Kind, Name: "x"},
		Version: kind.Version, Object: map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{"name": "x"}},
	}
}

func TestOfflineASecretShowsThatItChangesAndNotToWhat(t *testing.T) {
	b := newBench(t)
	from := kubernetes.Offline("s", nil)
	before := wantOffline(t, from, b.declare(secret))
	same := wantOffline(t, from, b.declare(strings.Replace(secret, "stringData: {password: hunter2}", "data: {password: aHVudGVyMg==}", 1)))
	after := wantOffline(t, from, b.declare(strings.Replace(secret, "password: hunter2", "password: hunter3", 1)))
	if p := plan.Compute(same, before); len(p.Changes) != 0 {
		t.Errorf("the same secret differs: %s", show(p))
	}
	p := plan.Compute(after, before)
	if len(p.Changes) != 1 || len(p.Changes[0].Fields) != 1 || p.Changes[0].Fields[0].Path != "data.password" {
		t.Errorf("another secret: %s", show(p))
	}
	for _, secret := range []string{"hunter", "aHVudGVy"} {
		if strings.Contains(dump([]any{before.Items(), after.Items()}), secret) {
			t.Errorf("%s is in the open", secret)
		}
	}
	other := wantOffline(t, kubernetes.Offline("s", nil), b.declare(secret))
	if d := cmp.Diff(before.Items()[0].Object["data"], other.Items()[0].Object["data"]); d == "" {
		t.Error("two keys give one digest")
	}
}

func TestOfflineProblemsAreNamedWithTheirFile(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config, `
apiVersion: v1
kind: ConfigMap
metadata: {generateName: g, namespace: $NS}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: twice}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: twice, namespace: default}
`, offlinePlugin, strings.Replace(offlinePlugin, "name: gpus", "name: more", 1), gpuPool)
	set, err := kubernetes.Offline("s", nil).Desired(t.Context(), declared)
	var problems *targets.ProblemsError
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range problems.Problems {
		got = append(got, p.String())
	}
	text := strings.Join(got, "\n")
	for _, part := range []string{"file1.yaml:1: ConfigMap has no metadata.name", "file2.yaml:2: ConfigMap/default/twice is declared twice, first at file2.yaml:1", "file4.yaml:1: DevicePlugin.poolwright.dev/more is a second DevicePlugin"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if _, ok := set.Get(state.Key{Target: kubernetes.Name, Kind: "ConfigMap", Namespace: b.ns, Name: "settings"}); !ok {
		t.Error("one problem takes the others with it")
	}
}

func TestOfflineNothingIsObservedOrCorrected(t *testing.T) {
	from := kubernetes.Offline("s", nil)
	if _, err := from.Observe(t.Context(), state.Set{}); err == nil {
		t.Error("an observation without a cluster")
	}
	if err := from.Apply(t.Context(), plan.Change{Key: state.Key{Kind: "ConfigMap", Name: "x"}}); err == nil {
		t.Error("a correction without a cluster")
	}
}
