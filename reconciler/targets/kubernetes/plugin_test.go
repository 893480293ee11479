package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// newPluginBench is newBench where DevicePlugins are known.
func newPluginBench(t *testing.T) *bench {
	t.Helper()
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_deviceplugins.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, kind := range []string{"poolwright.dev/v1alpha1 DevicePlugin", "karpenter.sh/v1alpha1 NodeOverlay"} {
			group, name, _ := strings.Cut(kind, " ")
			all := &unstructured.Unstructured{}
			all.SetAPIVersion(group)
			all.SetKind(name)
			_ = b.hand.DeleteAllOf(ctx, all, client.MatchingLabels{"poolwright.dev/sync": b.sync})
		}
	})
	return b
}

// timeSlices declares a configuration of time slices on a pool; the configuration is named as the
// test's namespace, because what is made of it goes to kube-system.
func timeSlices(replicas int) string {
	return fmt.Sprintf(`
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: $NS}
spec: {configs: [{name: $NS, nodePools: [$NS], timeSlicing: {replicas: %d}}]}
`, replicas)
}

// order lists the kinds that were patched; one that comes in two places is there
// twice.
func order(log []string) []string {
	var out []string
	for _, line := range log {
		verb, path, _ := strings.Cut(line, " ")
		if verb != "PATCH" || strings.Contains(path, "-inventory") {
			continue
		}
		parts := strings.Split(path, "/")
		if kind := parts[len(parts)-2]; len(out) == 0 || out[len(out)-1] != kind {
			out = append(out, kind)
		}
	}
	return out
}

// inWaves joins what goes in one wave, in any order.
func inWaves(kinds []string) string {
	text := strings.Join(kinds, " ")
	for _, pair := range []string{"daemonsets deviceplugins", "deviceplugins daemonsets"} {
		text = strings.ReplaceAll(text, pair, "plugin")
	}
	return text
}

func TestAChangeOfSharesGoesThroughInItsOrder(t *testing.T) {
	b := newPluginBench(t)
	for _, step := range []struct {
		name     string
		replicas int
		want     string
	}{
		{"the first time, the plugin goes before its overlay and both before the pool", 10, "configmaps plugin nodeoverlays nodepools"},
		{"to more shares, the plugin goes first", 20, "configmaps plugin nodeoverlays"},
		{"to fewer shares, the overlay goes first", 5, "configmaps nodeoverlays plugin"},
	} {
		set := b.declare(timeSlices(step.replicas), pool)
		b.wire.take()
		b.applyAll(b.plan(set))
		if got := inWaves(order(b.wire.take())); got != step.want {
			t.Errorf("%s: %s", step.name, got)
		}
		// The configuration that pods were made with goes when nothing mounts it.
		p := b.plan(set)
		for _, c := range p.Changes {
			if c.Action != plan.Delete || c.Key.Kind != "ConfigMap" {
				t.Errorf("%s: afterwards there is left to %s %s", step.name, c.Action, c.Key)
			}
		}
		b.applyAll(p)
		b.converged(set)
		overlay := b.get("karpenter.sh/v1alpha1", "NodeOverlay", "poolwright-gpu-4-"+b.ns)
		if got, _, _ := unstructured.NestedString(overlay.Object, "spec", "capacity", "nvidia.com/gpu"); got != fmt.Sprint(4*step.replicas) {
			t.Errorf("%s: the overlay says %s", step.name, got)
		}
	}
	b.restart()
	b.converged(b.declare(timeSlices(5), pool))
	// Of three contents the last is left: nothing mounted the others.
	if left := b.configurations(); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// configurations are the names of the plugin's ConfigMaps.
func (b *bench) configurations() []string {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("ConfigMapList")
	if err := b.hand.List(b.Context(), list, client.InNamespace("kube-system"), client.MatchingLabels{"poolwright.dev/gpu-profile": b.ns}); err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, u := range list.Items {
		out = append(out, u.GetName())
	}
	return out
}

func TestNobodyWaitsForThePodsOfAPlugin(t *testing.T) {
	b := newPluginBench(t)
	set := b.declare(timeSlices(10))
	p := b.plan(set)
	b.applyAll(p)
	plugin := state.Key{Target: kubernetes.Name, Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "nvidia-device-plugin-" + b.ns}
	late, err := b.target.Ready(t.Context(), []state.Key{plugin})
	if err != nil || len(late) != 0 {
		t.Errorf("late %v, error %v", late, err)
	}
}

func TestAConfigurationStaysWhileAPodMountsIt(t *testing.T) {
	b := newPluginBench(t)
	b.applyAll(b.plan(b.declare(timeSlices(10))))
	old := b.configurations()
	if len(old) != 1 {
		t.Fatalf("%v", old)
	}
	b.make(strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: plugin-$NS, namespace: kube-system, labels: {poolwright.dev/gpu-profile: $NS}}
spec:
  nodeName: nowhere-$NS
  containers: [{name: c, image: i}]
  volumes: [{name: config, configMap: {name: $OLD}}]
`, "$OLD", old[0]), "kubectl-create")
	b.applyAll(b.plan(b.declare(timeSlices(20))))
	b.converged(b.declare(timeSlices(20)))
	if now := b.configurations(); len(now) != 2 || !slices.Contains(now, old[0]) {
		t.Errorf("with a pod that mounts %v there are %v", old, now)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	pod.SetNamespace("kube-system")
	pod.SetName("plugin-" + b.ns)
	if err := b.hand.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.applyAll(b.plan(b.declare(timeSlices(20))))
	if now := b.configurations(); len(now) != 1 || slices.Contains(now, old[0]) {
		t.Errorf("without a pod there are %v", now)
	}
}

func TestAPluginIsNotRemovedFromNodesUnconfirmed(t *testing.T) {
	b := newPluginBench(t)
	b.applyAll(b.plan(b.declare(timeSlices(10))))
	b.make(`
apiVersion: v1
kind: Node
metadata: {name: gpu-$NS, labels: {karpenter.sh/nodepool: $NS, karpenter.k8s.aws/instance-gpu-manufacturer: nvidia}}
---
apiVersion: v1
kind: Node
metadata: {name: cpu-$NS, labels: {karpenter.sh/nodepool: $NS}}
`, "kubectl-create")
	impacts := func(p plan.Plan) map[string]string {
		out := map[string]string{}
		for _, c := range p.Changes {
			if c.Action == plan.Delete {
				name := strings.ReplaceAll(c.Key.Name, b.ns, "$NS")
				if c.Key.Kind == "ConfigMap" {
					name = name[:strings.LastIndex(name, "-")]
				}
				out[c.Key.Kind+" "+name] = c.Before.Impact
			}
		}
		return out
	}
	const lost = "no plugin advertises the GPUs of 1 node any more"
	ofTheConfig := map[string]string{"DaemonSet nvidia-device-plugin-$NS": lost, "ConfigMap nvidia-device-plugin-$NS": lost}
	for _, n := range []string{"1", "2", "4", "8", "16"} {
		ofTheConfig["NodeOverlay poolwright-gpu-"+n+"-$NS"] = lost
	}
	everything := maps.Clone(ofTheConfig)
	everything["DevicePlugin $NS"] = lost
	p := b.plan(b.declare())
	if d := cmp.Diff(everything, impacts(p)); d != "" {
		t.Errorf("without the DevicePlugin: %s", d)
	}
	for _, c := range plan.ConfirmLosses("")(p).Changes {
		if c.Admitted() {
			t.Errorf("%s goes while the others wait", c.Key)
		}
		// All of these deletions name the one node, which is lost once.
		for _, token := range c.Hold.Tokens() {
			if d := cmp.Diff(loss.Counts{"Node": 1}, token.Losses); d != "" {
				t.Errorf("%s is confirmed with (-want +got):\n%s", c.Key, d)
			}
		}
	}
	var kinds []string
	for _, c := range p.Changes {
		if len(kinds) == 0 || kinds[len(kinds)-1] != c.Key.Kind {
			kinds = append(kinds, c.Key.Kind)
		}
	}
	if d := cmp.Diff("NodeOverlay DaemonSet DevicePlugin ConfigMap", strings.Join(kinds, " ")); d != "" {
		t.Error(d)
	}
	another := strings.NewReplacer("{name: $NS, nodePools: [$NS]", "{name: x-$NS, nodePools: [x-$NS]").Replace(timeSlices(10))
	if d := cmp.Diff(ofTheConfig, impacts(b.plan(b.declare(another)))); d != "" {
		t.Errorf("without the configuration: %s", d)
	}
	// Another name for the same configuration loses nobody.
	renamed := strings.Replace(timeSlices(10), "{name: $NS, nodePools", "{name: x-$NS, nodePools", 1)
	nobody := map[string]string{"DaemonSet nvidia-device-plugin-$NS": "", "ConfigMap nvidia-device-plugin-$NS": ""}
	if d := cmp.Diff(nobody, impacts(b.plan(b.declare(renamed)))); d != "" {
		t.Errorf("for a configuration that is renamed: %s", d)
	}
	b.applyAll(p)
	b.converged(b.declare())
	if left := b.configurations(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// Without the DRA driver the kubelet does not unprepare claims: the driver's pods, account and permissions stay until the
// nodes of a pool that goes in the same commit are drained. With nodes that stay, its removal is a loss.
func TestTheDRADriverGoesAfterItsNodes(t *testing.T) {
	b := newPluginBench(t)
	b.noNodeClaims()
	claims := strings.Replace(timeSlices(10), "timeSlicing: {replicas: 10}", "draDriver: {}", 1)
	b.applyAll(b.plan(b.declare(claims, pool)))
	b.make(`
apiVersion: v1
kind: Node
metadata: {name: gpu-$NS, labels: {karpenter.sh/nodepool: $NS, karpenter.k8s.aws/instance-gpu-manufacturer: nvidia}}
`, "kubectl-create")
	driver := []string{"ClusterRole", "ClusterRoleBinding", "DaemonSet", "DeviceClass", "ServiceAccount"}
	deleted := func(p plan.Plan, match func(plan.Change) bool) (kinds []string) {
		for _, c := range p.Changes {
			if c.Action == plan.Delete && match(c) {
				kinds = append(kinds, c.Key.Kind)
			}
		}
		slices.Sort(kinds)
		return slices.Compact(kinds)
	}
	p := b.plan(b.declare(pool))
	if d := cmp.Diff(driver, deleted(p, func(c plan.Change) bool { return c.Before.AfterNodes && !c.Before.EndsEngine })); d != "" {
		t.Errorf("comes after nodes (-want +got):\n%s", d)
	}
	lossy := slices.Sorted(slices.Values(append([]string{"DevicePlugin", "NodeOverlay"}, driver...)))
	if d := cmp.Diff(lossy, deleted(p, func(c plan.Change) bool { return c.Before.Losses["Node"] == 1 })); d != "" {
		t.Errorf("is confirmed with the node (-want +got):\n%s", d)
	}
	plugin := b.plan(b.declare(timeSlices(10), pool))
	if got := deleted(plugin, func(c plan.Change) bool { return c.Key.Kind == "DaemonSet" && c.Before.Losses["Node"] == 1 }); len(got) != 1 {
		t.Errorf("where the device plugin takes the nodes over, no loss is counted:\n%s", show(plugin))
	}
	gone := b.ownedClaim(string(b.get("karpenter.sh/v1", "NodePool", b.ns).GetUID()))
	declared := b.declare()
	confirmed := func() plan.Plan { return b.guarded(declared, b.guarded(declared, "").Confirmation()) }
	exists := func() bool {
		err := b.hand.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "nvidia-dra-driver-gpu-" + b.ns}, &appsv1.DaemonSet{})
		account := b.hand.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "nvidia-dra-driver-gpu"}, &corev1.ServiceAccount{})
		if apierrors.IsNotFound(err) != apierrors.IsNotFound(account) {
			t.Errorf("the DaemonSet: %v, its account: %v", err, account)
		}
		return err == nil
	}
	if err := b.outcome(confirmed()).Err(); reasonOf(err) != "EngineNeeded" || !exists() {
		t.Errorf("with the pool's nodes there, the driver is there: %v: %v", exists(), err)
	}
	gone()
	if err := b.outcome(confirmed()).Err(); err != nil || exists() {
		t.Errorf("with the nodes gone, the driver is there: %v: %v", exists(), err)
	}
	b.converged(declared)
}

func TestAConfigurationStaysWhileADaemonSetMakesPodsWithIt(t *testing.T) {
	b := newPluginBench(t)
	b.applyAll(b.plan(b.declare(timeSlices(10))))
	changed := b.declare(timeSlices(20))
	goes := func(p plan.Plan) bool {
		return slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Action == plan.Delete && c.Key.Kind == "ConfigMap" })
	}
	for range 2 {
		// Nothing is written, as where drift is only reported.
		b.restart()
		if p := b.plan(changed); goes(p) {
			t.Fatalf("the DaemonSet still has it:\n%s", show(p))
		}
	}
	b.applyAll(b.plan(changed))
	if p := b.plan(changed); !goes(p) {
		t.Errorf("no DaemonSet has it:\n%s", show(p))
	}
	// A DaemonSet that somebody wants to keep is no reason to take its configuration.
	b.applyAll(b.plan(changed))
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet"}}
	kept.SetNamespace("kube-system")
	kept.SetName("nvidia-device-plugin-" + b.ns)
	if err := b.hand.Patch(t.Context(), kept, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"poolwright.dev/prune": "disabled"}}}`))); err != nil {
		t.Fatal(err)
	}
	if p := b.plan(b.declare()); goes(p) {
		t.Errorf("the DaemonSet is kept:\n%s", show(p))
	}
	if err := b.hand.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
}

// revisions is a source of one after the other.
type revisions struct{ n int }

func (o *revisions) Fetch(context.Context) (gitsource.Snapshot, error) {
	o.n++
	return gitsource.Snapshot{FS: fstest.MapFS{}, Revision: fmt.Sprint(o.n)}, nil
}

func TestABrokenDevicePluginDeletesNothingAndLiftsNoLimit(t *testing.T) {
	b := newPluginBench(t)
	limitedPool := strings.Replace(pool, "annotations: {", `annotations: {poolwright.dev/gpu-limit: "4", `, 1)
	if limitedPool == pool {
		t.Fatal("the pool of these tests has another shape")
	}
	set := b.declare(timeSlices(10), limitedPool)
	loop := reconciler.NewLoop(&revisions{}, func(context.Context, gitsource.Snapshot) (declared.Declared, error) {
		return declared.Declared{Set: set}, nil
	}, reconciler.NamedTarget{Name: kubernetes.Name, Target: b.target})
	run := func() reconciler.Result {
		result, err := loop.RunOnce(t.Context(), reconciler.Options{})
		if err != nil || result.Outcome.Err() != nil {
			t.Fatal(err, result.Outcome.Err())
		}
		return result
	}
	if result := run(); len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
	for name, broken := range map[string][]string{
		"a pool in two configurations": {strings.Replace(timeSlices(10), "configs: [", "configs: [{name: other, nodePools: [$NS]}, ", 1), limitedPool},
		"one that is unreadable":       {strings.Replace(timeSlices(10), "replicas: 10", "replicas: ten", 1), limitedPool},
		"a second one":                 {timeSlices(10), strings.NewReplacer("metadata: {name: $NS}", "metadata: {name: more-$NS}", "{name: $NS, nodePools: [$NS]", "{name: more, nodePools: [more]").Replace(timeSlices(10)), limitedPool},
		"none any more":                {limitedPool},
	} {
		set = b.declare(broken...)
		result := run()
		if len(result.Problems) != 1 || len(result.Plan.Changes) != 0 {
			t.Errorf("%s: problems %v, changes\n%s", name, result.Problems, show(result.Plan))
		}
	}
	live := b.get("karpenter.sh/v1", "NodePool", b.ns)
	if limit, _, _ := unstructured.NestedString(live.Object, "spec", "limits", "nvidia.com/gpu"); limit != "40" {
		t.Errorf("the pool's limit is %q", limit)
	}
	b.get("karpenter.sh/v1alpha1", "NodeOverlay", "poolwright-gpu-8-"+b.ns)
}

func TestWithoutNodeOverlaysTheErrorNamesWhatIsMissing(t *testing.T) {
	b := newPluginBench(t)
	definition := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		u.SetName("nodeoverlays.karpenter.sh")
		return u
	}
	if err := b.hand.Delete(t.Context(), definition()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		var anew []*apiextensionsv1.CustomResourceDefinition
		for _, crd := range awsapis.CRDs {
			anew = append(anew, crd.DeepCopy())
			anew[len(anew)-1].ResourceVersion = ""
		}
		if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{CRDs: anew}); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, func() bool {
		return apierrors.IsNotFound(b.hand.Get(t.Context(), client.ObjectKeyFromObject(definition()), definition()))
	})
	set := b.declare(timeSlices(10))
	eventually(t, func() bool {
		b.restart()
		_, err := b.target.Desired(t.Context(), set)
		// While it goes, the definition is listed for a moment without its verbs.
		var problems *targets.ProblemsError
		return errors.As(err, &problems) && strings.Contains(err.Error(), "no NodeOverlays")
	})
	got := b.problems(set)
	if len(got) != 1 || !strings.HasPrefix(got[0], "file0.yaml:1: NodeOverlay.karpenter.sh/poolwright-gpu-1-$NS: the cluster has NodePools and no NodeOverlays") {
		t.Errorf("%q", got)
	}
}
