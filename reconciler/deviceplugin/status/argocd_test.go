package status_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// The DevicePlugins that the scripts of config/argocd are tested with, in .ci/argocd.
func TestTheDevicePluginsThatArgoCDsScriptsAreTestedWithHaveTheStatusOfRealRuns(t *testing.T) {
	fine := gpu.PoolState{Pool: "a", Config: "sliced", Nodes: 2, Updated: 2, Allocatable: gpu.Resources{gpu.Resource: 80}}
	starting := gpu.PoolState{Pool: "b", Config: "sliced", Nodes: 2, Updated: 1}
	failing := gpu.PoolState{Pool: "c", Config: "whole", Nodes: 1, Unhealthy: []gpu.UnhealthyNode{{Node: "n1", Claim: "c-1", Reason: "NoDriver", Message: "no libnvidia-ml", Since: now()}}}
	held := gpu.PoolState{Pool: "d", Config: "whole", Failures: 2, BackoffUntil: now().Add(5 * time.Minute), LastFailure: "NoDriver: x"}
	refused := overlay("poolwright-gpu-4-a", map[string]string{gpu.ConfigLabel: "sliced"}, metav1.Condition{Type: "ValidationSucceeded", Status: metav1.ConditionFalse, Reason: "Conflict"})
	type rows []struct {
		Name   string                 `json:"name"`
		Object *v1alpha1.DevicePlugin `json:"object"`
	}
	var all rows
	for _, test := range []struct {
		name     string
		pools    []gpu.PoolState
		rollouts map[string]string
		others   []client.Object
		unread   bool
		changed  bool
	}{
		{name: "the controller has not observed it", unread: true},
		{name: "all nodes advertise their GPUs", pools: []gpu.PoolState{fine}},
		{name: "the spec was changed since", pools: []gpu.PoolState{fine}, changed: true},
		{name: "a node starts", pools: []gpu.PoolState{fine, starting}},
		{name: "plugins are replaced", pools: []gpu.PoolState{fine}, rollouts: map[string]string{"a": "1 of 2 replaced"}},
		{name: "a node has no driver", pools: []gpu.PoolState{starting, failing}},
		{name: "a pool is in back-off", pools: []gpu.PoolState{held}},
		{name: "Karpenter refuses an overlay", pools: []gpu.PoolState{fine}, others: []client.Object{refused}},
		{name: "an older DevicePlugin counts", pools: []gpu.PoolState{fine}, others: []client.Object{plugin("older", 2*time.Hour)}},
	} {
		f := newFixture(t, append([]client.Object{plugin("nvidia", time.Hour)}, test.others...)...)
		f.pools, f.rollouts = test.pools, test.rollouts
		if !test.unread {
			f.run(t)
		}
		got := &v1alpha1.DevicePlugin{}
		if err := f.client.Get(t.Context(), client.ObjectKey{Name: "nvidia"}, got); err != nil {
			t.Fatal(err)
		}
		if test.changed {
			got.Generation++
		}
		got.APIVersion, got.Kind, got.ResourceVersion = v1alpha1.GroupVersion.String(), "DevicePlugin", ""
		for i := range got.Status.Conditions { // The API machinery takes them from the clock of the machine.
			got.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now())
		}
		all = append(all, rows{{test.name, got}}...)
	}
	raw, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../../.ci/argocd/testdata/deviceplugins.yaml", raw)
}
