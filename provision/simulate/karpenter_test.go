package simulate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
)

// calm is a cloud in which no node drifts by itself.
type calm struct{ cloudprovider.CloudProvider }

func (calm) IsDrifted(context.Context, *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

func (calm) GetSupportedNodeClasses() []status.Object { return []status.Object{&awsv1.EC2NodeClass{}} }

// The controller that marks nodes in a cluster is run on what was forecast.
func TestKarpentersControllerMarksTheNodesThatWereForecast(t *testing.T) {
	tests := map[string][2]string{
		"nothing":                 {"x", "x"},
		"a taint":                 {"taints: [", "taints: [{key: x, effect: NoSchedule}, "},
		"taints in another order": {"taints: [{key: nvidia.com/gpu, effect: NoSchedule}]", "taints: [{effect: NoSchedule, key: nvidia.com/gpu}]"},
		"a startup taint":         {"      taints:", "      startupTaints: [{key: x, effect: NoSchedule}]\n      taints:"},
		"a label":                 {"{team: ml}", "{team: vision}"},
		"an annotation":           {"metadata: {labels: {team: ml}}", "metadata: {labels: {team: ml}, annotations: {a: b}}"},
		"a life span":             {"      taints:", "      expireAfter: 24h\n      taints:"},
		"the default life span":   {"      taints:", "      expireAfter: 720h\n      taints:"},
		"a grace period":          {"      taints:", "      terminationGracePeriod: 1h\n      taints:"},
		"another class":           {"name: gpu}\n      taints", "name: other}\n      taints"},
		"fewer types":             {"[g4dn.xlarge, g5.xlarge]", "[g4dn.xlarge]"},
		"other types":             {"[g4dn.xlarge, g5.xlarge]", "[g6.xlarge]"},
		"another capacity type":   {"values: [on-demand]", "values: [spot]"},
		"a requirement on what nodes do not have": {
			"{key: kubernetes.io/os, operator: In, values: [linux]}", "{key: example.com/rack, operator: Exists}"},
		"a requirement that nothing of a kind is there": {
			"{key: kubernetes.io/os, operator: In, values: [linux]}", "{key: example.com/rack, operator: DoesNotExist}"},
		"a limit":   {"nvidia.com/gpu: 8", "nvidia.com/gpu: 1"},
		"a weight":  {"  limits:", "  weight: 9\n  limits:"},
		"a budget":  {"consolidateAfter: 1m", "consolidateAfter: Never, budgets: [{nodes: '0'}]"},
		"minValues": {"values: [g4dn.xlarge, g5.xlarge]", "values: [g4dn.xlarge, g5.xlarge], minValues: 2"},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, pool, class)
			for i, name := range []string{"a", "b"} {
				claim, _ := run(&before, "gpu", name, time.Duration(20-i)*time.Minute)
				if name == "b" {
					claim.Labels["node.kubernetes.io/instance-type"] = "g5.xlarge"
				}
			}
			text := strings.Replace(pool, change[0], change[1], 1)
			after := read(t, text, class, strings.Replace(class, "name: gpu", "name: other", 1))
			forecast := map[string]string{}
			for _, n := range compare(t, before, after).Replaced {
				forecast[n.NodeClaim] = n.Reason
			}
			if diff := cmp.Diff(marks(t, before, after.NodePools[0]), forecast); diff != "" {
				t.Errorf("(-Karpenter +forecast):\n%s", diff)
			}
		})
	}
}

// marks are the reasons that Karpenter writes on NodeClaims under the pool.
func marks(t *testing.T, snapshot provision.ClusterSnapshot, under *karpv1.NodePool) map[string]string {
	t.Helper()
	under = under.DeepCopy()
	// What its hash controller would write.
	under.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: under.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion}
	objects := []client.Object{under}
	for _, claim := range snapshot.NodeClaims {
		objects = append(objects, claim.DeepCopy())
	}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{}).WithObjects(objects...).Build()
	controller := disruption.NewController(clocktest.NewFakeClock(noon), api, calm{})
	out := map[string]string{}
	for _, claim := range snapshot.NodeClaims {
		live := &karpv1.NodeClaim{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), live); err != nil {
			t.Fatal(err)
		}
		if _, err := controller.Reconcile(engine.Offline(t.Context(), settings()), live); err != nil {
			t.Fatal(err)
		}
		if found := live.StatusConditions().Get(karpv1.ConditionTypeDrifted); found.IsTrue() {
			out[live.Name] = found.Reason
		}
	}
	return out
}
