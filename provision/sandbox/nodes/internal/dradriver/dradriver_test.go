package dradriver_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/aws/karpenter-provider-aws/pkg/providers/drametadata"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/dradriver"
)

// recorded are the specs of the ResourceSlices that NVIDIA's driver published on a machine with an H100.
func recorded(t *testing.T) []resourcev1.ResourceSliceSpec {
	t.Helper()
	raw, err := os.ReadFile("../../../../../reconciler/deviceplugin/recording/testdata/dra.json")
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Slices []resourcev1.ResourceSliceSpec
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out.Slices
}

// withoutMachine is without what a machine alone has.
func withoutMachine(spec resourcev1.ResourceSliceSpec) resourcev1.ResourceSliceSpec {
	for i := range spec.Devices {
		spec.Devices[i].Attributes["uuid"] = resourcev1.DeviceAttribute{}
	}
	return spec
}

func TestAnH100IsPublishedAsTheRealDriverPublishedIt(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "1"}}
	slice := dradriver.Slice(node, dradriver.PublishedGPUs{Model: "H100", MemoryMiB: 81920, Count: 1})
	var got resourcev1.ResourceSliceSpec
	raw, err := json.Marshal(slice.Spec)
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := recorded(t)
	if len(want) != 1 {
		t.Fatalf("%d slices were recorded", len(want))
	}
	if diff := cmp.Diff(withoutMachine(want[0]), withoutMachine(got)); diff != "" {
		t.Errorf("-recorded +emulated:\n%s", diff)
	}
	if owner := slice.OwnerReferences; len(owner) != 1 || owner[0].UID != node.UID {
		t.Errorf("the slice stays when its node goes: %+v", owner)
	}
}

// What Karpenter expects of an H100 before there is a node is less than what the driver publishes then: a claim that
// selects by one of these launches no node, or not the one that would do. docs/kinds/deviceplugin.md lists them.
func TestWhatKarpenterDoesNotExpectOfAnH100(t *testing.T) {
	expected := drametadata.GPUMetadataByInstanceType["p5.4xlarge"].Devices[0]
	published := recorded(t)[0].Devices[0]
	differs := map[string]string{}
	for name, value := range published.Attributes {
		if name == "resource.kubernetes.io/pcieRoot" {
			continue // Both have it; which one it is depends on the machine.
		}
		if diff := cmp.Diff(expected.Attributes[name], value); diff != "" {
			differs[string(name)] = "not expected"
		}
	}
	for name := range expected.Attributes {
		if _, ok := published.Attributes[name]; !ok {
			differs[string(name)] = "not published"
		}
	}
	for name, value := range published.Capacity {
		if of := expected.Capacity[name]; of.Value.Cmp(value.Value) != 0 {
			differs[string(name)] = of.Value.String() + " is expected, " + value.Value.String() + " is published"
		}
	}
	want := map[string]string{
		"addressingMode": "not expected", "cudaDriverVersion": "not expected", "driverVersion": "not expected", "uuid": "not expected",
		"resource.kubernetes.io/pciBusID": "not expected", "memory": "81152Mi is expected, 81559Mi is published",
	}
	if diff := cmp.Diff(want, differs); diff != "" {
		t.Errorf("docs/kinds/deviceplugin.md is not true any more (-want +got):\n%s", diff)
	}
}

func TestTheDriversPodsAreFound(t *testing.T) {
	pod := func(image string, command ...string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image, Command: command}}}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"the driver":                    {pod("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1", "gpu-kubelet-plugin", "--x"), true},
		"by a path, from a mirror":      {pod("mirror.example.com/dra-driver-nvidia-gpu@sha256:1", "/usr/bin/gpu-kubelet-plugin"), true},
		"another program of its image":  {pod("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1", "compute-domain-controller"), false},
		"its image without its program": {pod("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1"), false},
		"the device plugin":             {pod("nvcr.io/nvidia/k8s-device-plugin:v0.19.3", "nvidia-device-plugin"), false},
	} {
		if got := dradriver.Runs(c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAnUnknownModelHasWhatEC2States(t *testing.T) {
	devices := dradriver.Slice(&corev1.Node{}, dradriver.PublishedGPUs{Model: "X1", MemoryMiB: 1024, Count: 2}).Spec.Devices
	if len(devices) != 2 || devices[1].Name != "gpu-1" || *devices[1].Attributes["productName"].StringValue != "NVIDIA X1" {
		t.Fatalf("%+v", devices)
	}
	memory := devices[1].Capacity["memory"].Value
	if memory.String() != "1Gi" {
		t.Errorf("the memory is %s", memory.String())
	}
}
