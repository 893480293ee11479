package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// predictPools declares the pools and the class of one of them. Nothing but the
// change takes nodes away.
func predictPools(taint string, gibibytes, weight int) string {
	class := fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: volumes}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-gpu-timeslicing
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: gpu-timeslicing}}]
  securityGroupSelectorTerms: [{tags: {kubernetes.io/cluster/gpu-timeslicing: owned}}]
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: %dGi, volumeType: gp3}}]
`, gibibytes)
	pool := func(name, class, taint string, weight int) string {
		return fmt.Sprintf(`---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  weight: %[4]d
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never, budgets: [{nodes: "100%%"}]}
  template:
    metadata: {labels: {nodepool: %[1]s}}
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[2]s}
      taints: [{key: test, value: %[3]s, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
`, name, class, taint, weight)
	}
	return class + pool(taintsPool, "default", taint, 1) + pool(volumesPool, "volumes", "same", 1) + pool(calmPool, "default", "same", weight)
}

// waitForNodes has each pool get its nodes: one pod each, and in the first pool one
// node without any.
func (g gpuSuite) waitForNodes() {
	g.Helper()
	want := map[string]int{taintsPool: 3, volumesPool: 2, calmPool: 2}
	for pool, replicas := range want {
		g.addDeployment(pool, int32(replicas))
	}
	g.oneNodeEach(want, false)
	g.gpuPods("idle", taintsPool, "", 0, 1, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "test", Operator: corev1.TolerationOpExists}}
		p.Labels["app"] = taintsPool
		p.Spec.Affinity = podsApart("app", taintsPool)
	})
	want[taintsPool]++
	g.oneNodeEach(want, false)
	g.dropPods("idle")
}

func podsApart(key, value string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}, TopologyKey: corev1.LabelHostname,
		}},
	}}
}

// oneNodeEach waits until so many pods of each pool run on as many nodes, and
// Karpenter is through with these. Where nodes were replaced it may have bought spare
// ones: a pod that was evicted waits for a moment, and its new node may not be there.
func (g gpuSuite) oneNodeEach(want map[string]int, spare bool) {
	g.Helper()
	for pool, many := range want {
		g.until("pool "+pool+" has its nodes", func() error {
			claims, err := g.engineSuite.claims(pool)
			if err != nil {
				return err
			}
			pods, err := g.pods(pool)
			if err != nil {
				return err
			}
			on := map[string]bool{}
			for _, pod := range pods {
				if pod.Status.Phase == corev1.PodRunning {
					on[pod.Spec.NodeName] = true
				}
			}
			ready := 0
			for _, claim := range claims {
				if claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() && on[claim.Status.NodeName] {
					ready++
				}
			}
			if ready != many || len(claims) < many || len(claims) > many && !spare || len(pods) != many {
				return fmt.Errorf("%d NodeClaims, of which %d are ready with a pod, and %d pods", len(claims), ready, len(pods))
			}
			return nil
		})
	}
}

// protect keeps two nodes: one by its pod's annotation, one by a budget without
// room.
func (g gpuSuite) protect() {
	g.Helper()
	g.patchPod(g.firstPod(taintsPool), `{"metadata":{"annotations":{"`+karpv1.DoNotDisruptAnnotationKey+`":"true"}}}`)
	g.patchPod(g.firstPod(volumesPool), `{"metadata":{"labels":{"guard":"yes"}}}`)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guard": "yes"}}},
	}
	if err := g.hand.Create(g.Context(), budget); err != nil {
		g.Fatal(err)
	}
	g.eventually("the budget is counted", func() error {
		if err := g.hand.Get(g.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if budget.Status.ObservedGeneration != budget.Generation || budget.Status.ExpectedPods != 1 {
			return fmt.Errorf("its status is %+v", budget.Status)
		}
		return nil
	})
}

// firstPod is that with the first name, so that all agree which one it is.
func (g gpuSuite) firstPod(pool string) *corev1.Pod {
	g.Helper()
	pods, err := g.pods(pool)
	if err != nil || len(pods) == 0 {
		g.Fatalf("%d pods, %v", len(pods), err)
	}
	return &slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })[0]
}

func (g gpuSuite) patchPod(pod *corev1.Pod, patch string) {
	g.Helper()
	if err := g.hand.Patch(g.Context(), pod, mergePatch(patch)); err != nil {
		g.Fatal(err)
	}
}
