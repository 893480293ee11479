package gpupool

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

func TestThePoolHasWhatItsMachinesNeed(t *testing.T) {
	for name, tt := range map[string]struct {
		config   Config
		kinds    []string
		image    string
		capacity string
	}{
		"of Bottlerocket, which has a plugin of its own": {Config{}, []string{"Cluster", "EC2NodeClass", "NodePool"}, "bottlerocket@latest", "on-demand"},
		"of spot": {Config{CapacityType: "spot"}, []string{"Cluster", "EC2NodeClass", "NodePool"}, "bottlerocket@latest", "spot"},
		"shared, by the DevicePlugin that a commit declares":  {Config{Shared: true}, []string{"Cluster", "EC2NodeClass", "NodePool"}, "al2023@latest", "on-demand"},
		"with a DevicePlugin where machines never offer GPUs": {Config{NeverOffers: true}, []string{"Cluster", "EC2NodeClass", "NodePool", "DevicePlugin"}, "bottlerocket@latest", "on-demand"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := tt.config.Objects("dev", "eu-west-1", "111122223333")
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			by := map[string]*unstructured.Unstructured{}
			for _, o := range objects {
				kinds = append(kinds, o.GetKind())
				by[o.GetKind()] = o
			}
			if d := cmp.Diff(tt.kinds, kinds); d != "" {
				t.Fatalf("kinds (-want +got):\n%s", d)
			}
			spec := map[string]string{}
			for _, field := range []string{"name", "region", "account"} {
				spec[field], _, _ = unstructured.NestedString(by["Cluster"].Object, "spec", field)
			}
			if d := cmp.Diff(map[string]string{"name": "dev", "region": "eu-west-1", "account": "111122223333"}, spec); d != "" {
				t.Errorf("the Cluster (-want +got):\n%s", d)
			}
			text, err := yaml.Marshal(objects)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"alias: " + tt.image, "- " + tt.capacity + "\n"} {
				if !strings.Contains(string(text), want) {
					t.Errorf("there is no %q in:\n%s", want, text)
				}
			}
			if by["NodePool"].GetName() != Pool {
				t.Errorf("the NodePool is %s", by["NodePool"].GetName())
			}
		})
	}
}

func TestOnlyTheCheapestMachinesOfAFaultyPoolNeverOfferTheirGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		machine nodes.Machine
		want    nodes.Fault
	}{
		"the cheapest type of a faulty pool":       {nodes.Machine{Type: CheapestType, UserData: "labels: " + faultyLabel + "=true"}, nodes.Fault{MissingGPUs: 1}},
		"a larger type of it, which replaces that": {nodes.Machine{Type: "g4dn.2xlarge", UserData: "labels: " + faultyLabel + "=true"}, nodes.Fault{}},
		"the cheapest type of another pool":        {nodes.Machine{Type: CheapestType, UserData: "labels: a=b"}, nodes.Fault{}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, FaultOf(tt.machine)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A pod tolerates the pool's taint, is for the pool alone, and ends at once.
func TestAPodIsForThePool(t *testing.T) {
	spec, err := PodSpec()
	if err != nil {
		t.Fatal(err)
	}
	gpus := spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
	if spec.NodeSelector["karpenter.sh/nodepool"] != Pool || gpus.Value() != 1 || *spec.TerminationGracePeriodSeconds != 0 {
		t.Errorf("it is %+v", spec)
	}
	var plugin map[string]any
	if err := yaml.Unmarshal([]byte("spec:\n"+PluginSpec(3)), &plugin); err != nil {
		t.Fatal(err)
	}
	if text, err := yaml.Marshal(plugin); err != nil || !strings.Contains(string(text), "replicas: 3") || !strings.Contains(string(text), "- "+Pool) {
		t.Errorf("the DevicePlugin has %s, %v", text, err)
	}
}

func TestWhenANodeRegisteredIsReadFromItsNodeClaim(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	claim := func(conditions ...metav1.Condition) *unstructured.Unstructured {
		list := make([]any, len(conditions))
		for i, c := range conditions {
			list[i] = map[string]any{"type": c.Type, "status": string(c.Status), "reason": "R", "message": "", "lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339)}
		}
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "c"}, "status": map[string]any{"conditions": list}}}
	}
	launched := metav1.Condition{Type: "Launched", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Add(-time.Minute))}
	registered := metav1.Condition{Type: "Registered", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}
	waiting := metav1.Condition{Type: "Registered", Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(at)}
	if got, err := Registered(claim(launched, registered)); err != nil || !got.Equal(at) {
		t.Errorf("it registered at %v, %v", got, err)
	}
	for name, conditions := range map[string][]metav1.Condition{"launched": {launched}, "not yet": {launched, waiting}, "new": nil} {
		if got, err := Registered(claim(conditions...)); err == nil {
			t.Errorf("a NodeClaim that is %s registered at %v", name, got)
		}
	}
	found, err := Conditions(claim(launched, registered))
	if err != nil || !slices.ContainsFunc(found, func(c metav1.Condition) bool { return c.Type == "Launched" }) {
		t.Errorf("the conditions are %v, %v", found, err)
	}
}
