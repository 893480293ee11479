package gpu_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Karpenter counts a pod's requests with Kubernetes' own helper, and buys nodes by it.
func TestAPodRequestsAsManyGPUsAsKarpenterCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 11))
	always := corev1.ContainerRestartPolicyAlways
	names := []corev1.ResourceName{gpu.Resource, gpu.SharedResource, "nvidia.com/mig-1g.5gb", corev1.ResourceCPU}
	container := func() corev1.Container {
		list := corev1.ResourceList{}
		for range r.IntN(3) {
			list[names[r.IntN(len(names))]] = *resource.NewQuantity(int64(r.IntN(4)), resource.DecimalSI)
		}
		// The API server copies limits into requests.
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}}
	}
	for range 500 {
		var spec corev1.PodSpec
		for range r.IntN(4) {
			c := container()
			if r.IntN(2) == 0 {
				c.RestartPolicy = &always
			}
			spec.InitContainers = append(spec.InitContainers, c)
		}
		for range 1 + r.IntN(2) {
			spec.Containers = append(spec.Containers, container())
		}
		want := gpu.Resources{}
		for name, quantity := range resources.Ceiling(&corev1.Pod{Spec: spec}).Requests {
			if strings.HasPrefix(string(name), "nvidia.com/") && !quantity.IsZero() {
				want[name] = quantity.Value()
			}
		}
		if diff := cmp.Diff(want, gpu.Requests(spec)); diff != "" {
			t.Fatalf("of %+v (-Karpenter +ours):\n%s", spec, diff)
		}
	}
}
