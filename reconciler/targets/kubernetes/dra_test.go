package kubernetes_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// devicePlugin declares configurations; the name is the test's namespace.
func devicePlugin(spec string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: $NS}\nspec: " + spec
}

// gpuClaim is a NodeClaim of the test's pool, of an instance type with GPUs of a manufacturer.
func gpuClaim(manufacturer string) string {
	return `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim-$NS, labels: {karpenter.sh/nodepool: $NS, karpenter.k8s.aws/instance-gpu-manufacturer: ` + manufacturer + `}}
spec:
  requirements: []
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
`
}

// remove deletes an object of the whole cluster.
func (b *bench) remove(apiVersion, kind, name string) {
	b.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName(name)
	if err := client.IgnoreNotFound(b.hand.Delete(context.WithoutCancel(b.Context()), u)); err != nil {
		b.Error(err)
	}
}

// A pool changes between the device plugin and the DRA driver while it has no GPU nodes, and only then: what is refused is
// sent in no part, and what was there stays.
func TestNeitherDRADriverNorPartitionsComeToAPoolWithGPUNodes(t *testing.T) {
	b := newPluginBench(t)
	t.Cleanup(func() {
		b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
		b.remove("resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com")
		b.remove("rbac.authorization.k8s.io/v1", "ClusterRole", "nvidia-dra-driver-gpu")
		b.remove("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "nvidia-dra-driver-gpu")
	})
	const (
		byPlugin = "{configs: [{name: $NS, nodePools: [$NS]}]}"
		byDriver = "{configs: [{name: $NS, nodePools: [$NS], draDriver: {}}]}"
	)
	source := &revisions{}
	apply := func(manifest string) reconciler.Result {
		t.Helper()
		set := b.declare(manifest)
		loop := reconciler.NewLoop(source, func(context.Context, gitsource.Snapshot) (declared.Declared, error) {
			return declared.Declared{Set: set}, nil
		}, reconciler.NamedTarget{Name: kubernetes.Name, Target: b.target})
		result, err := loop.RunOnce(t.Context(), reconciler.Options{})
		if err != nil || result.Outcome.Err() != nil {
			t.Fatal(err, result.Outcome.Err())
		}
		return result
	}
	run := func(spec string) reconciler.Result {
		t.Helper()
		return apply(devicePlugin(spec))
	}
	applied := func(spec string) {
		t.Helper()
		if result := run(spec); len(result.Problems) > 0 || len(result.Plan.Changes) == 0 {
			t.Fatalf("%s: problems %v, changes\n%s", spec, result.Problems, show(result.Plan))
		}
	}
	code := finding.Code("DRADriverPoolHasNodes")
	refused := func(name, spec string) {
		t.Helper()
		result := run(spec)
		if len(result.Problems) != 1 || len(result.Plan.Changes) != 0 {
			t.Fatalf("%s: problems %v, changes\n%s", name, result.Problems, show(result.Plan))
		}
		p := result.Problems[0]
		pools, _ := p.Facts.Map()["nodePools"].([]any)
		if p.Code != code || p.Origin.String() != "file0.yaml:1" || len(pools) != 1 || pools[0] != b.ns {
			t.Errorf("%s: %s %v: %s", name, p.Code, pools, p)
		}
	}

	runs := func(daemonSet string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet"}}
		if err := b.hand.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: daemonSet}, u); err != nil {
			t.Error(err)
		}
	}

	applied(byPlugin)
	b.make(gpuClaim("nvidia"), "kubectl-create")
	toDriver := map[string]string{
		"a configuration gets draDriver":            byDriver,
		"a configuration of another name":           strings.Replace(byDriver, "name: $NS", "name: x-$NS", 1),
		"the pool moves":                            "{configs: [{name: $NS, nodePools: [other-$NS]}, {name: x-$NS, nodePools: [$NS], draDriver: {}}]}",
		"the pool is dropped under another default": "{defaultConfig: x-$NS, configs: [{name: $NS, nodePools: [other-$NS]}, {name: x-$NS, draDriver: {}}]}",
	}
	for _, name := range slices.Sorted(maps.Keys(toDriver)) {
		refused(name, toDriver[name])
	}
	b.restart()
	refused("after a restart", byDriver)
	runs("nvidia-device-plugin-" + b.ns)

	b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
	b.make(gpuClaim("amd"), "kubectl-create")
	applied(byDriver)
	runs("nvidia-dra-driver-gpu-" + b.ns)
	b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
	b.make(gpuClaim("nvidia"), "kubectl-create")
	refused("back to the device plugin", byPlugin)
	refused("without the driver", "{configs: [{name: x-$NS, nodePools: [other-$NS]}]}")
	if result := run(byDriver); len(result.Problems) > 0 {
		t.Errorf("as it is: %v", result.Problems)
	}
	b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
	applied(byPlugin)

	// Partitions of GPUs are changed under the same condition.
	const sevenths = "{configs: [{name: $NS, nodePools: [$NS], mig: {devices: {1g.10gb: 7}}}]}"
	code = "MIGPoolHasNodes"
	b.make(gpuClaim("nvidia"), "kubectl-create")
	refused("whole GPUs are partitioned", sevenths)
	b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
	applied(sevenths)
	b.make(gpuClaim("nvidia"), "kubectl-create")
	refused("other partitions", strings.Replace(sevenths, "1g.10gb: 7", "1g.20gb: 4", 1))
	b.restart()
	refused("whole GPUs again, after a restart", byPlugin)
	// No DevicePlugin of the new name is live, with which partitions could be compared: while the old one is, no other is made.
	renamed := apply(strings.Replace(devicePlugin(byPlugin), "name: $NS", "name: x-$NS", 1))
	if len(renamed.Problems) != 1 || renamed.Problems[0].Code != "DevicePluginRenamed" || len(renamed.Plan.Changes) != 0 {
		t.Errorf("another name, without mig: problems %v, changes\n%s", renamed.Problems, show(renamed.Plan))
	}
	runs("nvidia-device-plugin-" + b.ns)
	if result := run(sevenths); len(result.Problems) > 0 {
		t.Errorf("as it is: %v", result.Problems)
	}
	b.remove("karpenter.sh/v1", "NodeClaim", "claim-"+b.ns)
	applied(byPlugin)
}
