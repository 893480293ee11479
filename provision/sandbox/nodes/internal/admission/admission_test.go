package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/admission"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/recording"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// pod has one container that asks for, and is limited to, the same.
func pod(pairs ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: list(pairs...), Limits: list(pairs...)}}}}}
}

func TestAdmission(t *testing.T) {
	allocatable := list("cpu", "3920m", "memory", "14Gi", "pods", "3", "ephemeral-storage", "10Gi")
	devices := func(capacity, healthy int) map[corev1.ResourceName]admission.Device {
		return map[corev1.ResourceName]admission.Device{gpu: {Capacity: capacity, Healthy: healthy}}
	}
	shared := map[corev1.ResourceName]admission.Device{gpu: {Capacity: 10, Healthy: 10, OnePerRequest: true}}
	twice := pod("nvidia.com/gpu", "1")
	twice.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: twice.Spec.Containers[0].Resources}}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		devices map[corev1.ResourceName]admission.Device
		others  []*corev1.Pod
		reason  string
		message string
	}{
		"a pod without requests":                          {pod(), nil, nil, "", ""},
		"as many GPUs as there are":                       {pod("nvidia.com/gpu", "4"), devices(4, 4), nil, "", ""},
		"an init container's GPU serves the next one too": {twice, devices(1, 1), nil, "", ""},
		"more GPUs than there are":                        {pod("nvidia.com/gpu", "5"), devices(4, 4), nil, "UnexpectedAdmissionError", "Requested: 5, Available: 4"},
		"GPUs that others hold":                           {pod("nvidia.com/gpu", "2"), devices(4, 4), []*corev1.Pod{pod("nvidia.com/gpu", "3")}, "UnexpectedAdmissionError", "Requested: 2, Available: 1"},
		"GPUs whose plugin is gone":                       {pod("nvidia.com/gpu", "1"), devices(4, 0), nil, "UnexpectedAdmissionError", "no healthy devices"},
		"GPUs whose plugin is long gone":                  {pod("nvidia.com/gpu", "1"), devices(0, 0), nil, "OutOfnvidia.com/gpu", "capacity: 0"},
		"GPUs that the node never had":                    {pod("nvidia.com/gpu", "1"), nil, nil, "", ""},
		"a pod without GPUs where the plugin is gone":     {pod("cpu", "1"), devices(4, 0), nil, "", ""},
		"two shared GPUs where one is the most":           {pod("nvidia.com/gpu", "2"), shared, nil, "UnexpectedAdmissionError", "maximum request size for shared resources is 1; found 2"},
		"one shared GPU":                                  {pod("nvidia.com/gpu", "1"), shared, nil, "", ""},
		"more CPU than is left":                           {pod("cpu", "2"), nil, []*corev1.Pod{pod("cpu", "2")}, "OutOfcpu", "requested: 2000, used: 2000, capacity: 3920"},
		"more memory than there is":                       {pod("memory", "15Gi"), nil, nil, "OutOfmemory", "memory"},
		"more storage than there is":                      {pod("ephemeral-storage", "11Gi"), nil, nil, "OutOfephemeral-storage", ""},
		"one pod too many":                                {pod(), nil, []*corev1.Pod{pod(), pod(), pod()}, "OutOfpods", "requested: 1, used: 3, capacity: 3"},
		"a resource of the cluster":                       {pod("example.com/licence", "1"), nil, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := admission.Check(c.pod, admission.Node{Allocatable: allocatable, Devices: c.devices, Others: c.others})
			if got == nil {
				got = &admission.Rejection{}
			}
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %q: %s; want %q with %q", got.Reason, got.Message, c.reason, c.message)
			}
		})
	}
}

func TestARequestForTwoSharesIsRefusedWithTheErrorOfTheRealPlugin(t *testing.T) {
	recorded, err := recording.Load()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, run := range recorded.Runs {
		for _, r := range run.Resources {
			refusal, _ := r.Refused(2)
			code, text, ok := strings.Cut(refusal, ": ")
			if !ok {
				continue
			}
			refused++
			name := corev1.ResourceName(r.Name)
			got := admission.Check(pod(r.Name, "2"), admission.Node{Allocatable: list("pods", "3"), Devices: map[corev1.ResourceName]admission.Device{
				name: {Capacity: len(r.Devices), Healthy: len(r.Devices), OnePerRequest: true}}})
			if got == nil || !strings.Contains(got.Message, "rpc error: code = "+code+" desc = "+text+",") {
				t.Errorf("%s: %+v, and the real plugin returns %q", run.Name, got, refusal)
			}
		}
	}
	if refused == 0 {
		t.Error("no refusal was recorded")
	}
}
