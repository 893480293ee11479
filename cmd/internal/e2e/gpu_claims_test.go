package e2e

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// claimedPool is the pool of the DRA driver.
const claimedPool = "claimed"

// The template of the claims, each of a whole GPU.
const claimTemplate = `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
`

// draFiles declare the pool, its configuration beside the others, and Karpenter's feature gate.
func (l *gpuSteps) draFiles() map[string]string {
	return map[string]string{
		"cluster.yaml": strings.TrimSuffix(gpuCluster, "}\n") + ", engine: {featureGates: {DRANVIDIAGPU: true}}}\n",
		"device-plugin.yaml": l.text() + "    - {name: " + claimedPool + ", nodePools: [" + claimedPool + "], draDriver: {}}\n" +
			"    - {name: " + partitionedPool + ", nodePools: [" + partitionedPool + "], mig: {devices: {1g.10gb: 7}}}\n",
		partitionedPool + ".yaml": strings.NewReplacer("[g4dn]", "[p5]", "[12xlarge]", "[48xlarge]").Replace(gpuPoolText(partitionedPool, 4)),
		claimedPool + ".yaml":     gpuPoolText(claimedPool, 3),
		"claim-template.yaml":     claimTemplate,
	}
}

// claims gives a pod a claim made from the template.
func claimsGPU(pod *corev1.Pod) {
	name := "gpu"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

// podsClaimGPUs: five pods with a claim each are two nodes of four GPUs, whose devices NVIDIA's driver publishes, and
// nothing is launched for a claim in a pool of the device plugin.
func (l *gpuSteps) podsClaimGPUs(g gpuSuite) {
	g.declare("Offer GPUs by the DRA driver", l.draFiles())
	g.engineRuns()
	before := len(g.living(changedPool))
	g.gpuPods("of-plugin", changedPool, "", 0, 1, claimsGPU)
	g.gpuPods("claimants", claimedPool, "", 0, gpusPerMachine+1, claimsGPU)
	if c := g.allRun(claimedPool); c.refused > 0 {
		g.Errorf("a kubelet refused pods: %+v", c)
	}
	claims, err := g.claims(claimedPool)
	if err != nil || len(claims) != 2 {
		g.Fatalf("there are %d NodeClaims, %v", len(claims), err)
	}
	g.until("the nodes are initialized", func() error {
		claims, err := g.claims(claimedPool)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() || claim.Annotations[karpv1.DRADriversAnnotationKey] != "gpu.nvidia.com" {
				return fmt.Errorf("NodeClaim %s: %+v %v", claim.Name, claim.Status.Conditions, claim.Annotations)
			}
		}
		return nil
	})
	g.hasDistinctGPUs(gpusPerMachine + 1)
	g.until("the status counts the nodes of the DRA driver", func() error { return g.statusIs(claimedPool, 2, nil) })
	pods, err := g.labelled("wave", "of-plugin")
	if err != nil || len(pods) != 1 || pods[0].Spec.NodeName != "" {
		g.Errorf("the pod for the device plugin's pool: %+v, %v", pods, err)
	}
	if now := len(g.living(changedPool)); now > before {
		g.Errorf("the device plugin's pool has %d instances and had %d", now, before)
	}
	g.dropPods("claimants")
	g.dropPods("of-plugin")
}

// hasDistinctGPUs: so many claims have a GPU each, no two the same, on nodes that offer none as a resource.
func (g gpuSuite) hasDistinctGPUs(want int) {
	g.Helper()
	var claims resourcev1.ResourceClaimList
	if err := g.hand.List(g.Context(), &claims, client.InNamespace("default")); err != nil {
		g.Fatal(err)
	}
	allocated := map[string]bool{}
	for _, claim := range claims.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			allocated[r.Pool+"/"+r.Device] = true
			var node corev1.Node
			if err := g.hand.Get(g.Context(), client.ObjectKey{Name: r.Pool}, &node); err != nil {
				g.Fatal(err)
			}
			if diff := cmp.Diff(gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0}, allocatableGPUs(&node)); diff != "" {
				g.Errorf("node %s offers its GPUs a second time: %s", node.Name, diff)
			}
		}
	}
	if len(allocated) != want {
		g.Errorf("%d GPUs are allocated: %v", len(allocated), allocated)
	}
}
