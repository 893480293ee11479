package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// gpuPoolText is a NodePool as set-up 001 of the examples has it, for pods that
// ask for the label, with so many nodes at most. They stay until the test takes
// them away.
func gpuPoolText(name string, most int) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  limits: {cpu: "%[2]d"}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never, budgets: [{nodes: "1"}]}
  template:
    metadata: {labels: {nodepool: %[1]s}}
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu-nodeclass}
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn]}
        - {key: karpenter.k8s.aws/instance-size, operator: In, values: [12xlarge]}
`, name, most*cpusPerMachine)
}

// gpuPods creates so many pods NAME-0, NAME-1, ... for the pool, each of which
// asks for count of the resource and for next to nothing else.
func (g gpuSuite) gpuPods(name, pool string, request corev1.ResourceName, count int64, pods int, mods ...func(*corev1.Pod)) {
	g.Helper()
	need := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	if count > 0 {
		need[request] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	grace := int64(1)
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Namespace: "default", Labels: map[string]string{"for": pool, "wave": name}},
			Spec: corev1.PodSpec{
				NodeSelector:                  map[string]string{"nodepool": pool},
				Tolerations:                   []corev1.Toleration{{Key: string(gpu.Resource), Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
				TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{
					Name: "main", Image: "tensorflow/tensorflow:latest-gpu",
					Resources: corev1.ResourceRequirements{Requests: need, Limits: need},
				}},
			},
		}
		for _, mod := range mods {
			mod(pod)
		}
		if err := g.hand.Create(g.Context(), pod); err != nil {
			g.Fatal(err)
		}
	}
}

// apart keeps a pod from the nodes of the pool's other pods.
func apart(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"for": pod.Labels["for"]}}, TopologyKey: corev1.LabelHostname,
		}},
	}}
}

// dropPods deletes a wave and waits until it is gone.
func (g gpuSuite) dropPods(name string) {
	g.Helper()
	if err := g.hand.DeleteAllOf(g.Context(), &corev1.Pod{}, client.InNamespace("default"), client.MatchingLabels{"wave": name}); err != nil {
		g.Fatal(err)
	}
	g.until("the pods "+name+" are gone", func() error {
		pods, err := g.labelled("wave", name)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
}

// labelled lists pods.
func (g gpuSuite) labelled(key, value string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := g.hand.List(g.Context(), &list, client.InNamespace("default"), client.MatchingLabels{key: value})
	return list.Items, err
}

// podCensus counts what a pool's pods are.
type podCensus struct{ all, bound, running, refused int }

func (g gpuSuite) podCensus(pool string) (podCensus, error) {
	pods, err := g.labelled("for", pool)
	c := podCensus{all: len(pods)}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			c.bound++
		}
		if pod.Status.Phase == corev1.PodRunning {
			c.running++
		}
		if pod.Status.Phase == corev1.PodFailed {
			c.refused++
		}
	}
	return c, err
}

// allRun waits until each pod of the pool runs or was refused.
func (g gpuSuite) allRun(pool string) (c podCensus) {
	g.Helper()
	g.until("the pods of "+pool+" run", func() (err error) {
		if c, err = g.podCensus(pool); err == nil && c.running+c.refused != c.all {
			err = fmt.Errorf("they are %+v", c)
		}
		return err
	})
	return c
}

// provisioned waits until the pool's NodeClaims, in Karpenter's own view, have at
// least so much of the resource and their nodes are registered, and returns how
// many there are.
func (g gpuSuite) provisioned(pool string, request corev1.ResourceName, atLeast int64) (n int) {
	g.Helper()
	g.until(fmt.Sprintf("pool %s is to have %d of %s", pool, atLeast, request), func() error {
		claims, err := g.claims(pool)
		if err != nil {
			return err
		}
		n = len(claims)
		sum := int64(0)
		for _, claim := range claims {
			if claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).IsTrue() {
				quantity := claim.Status.Capacity[request]
				sum += quantity.Value()
			}
		}
		if sum < atLeast {
			return fmt.Errorf("%d NodeClaims, those with a node have %d", n, sum)
		}
		return nil
	})
	return n
}

// launched are all instances that a pool ever had.
func (g gpuSuite) launched(pool string) (n int) {
	for _, i := range g.AWS.Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == pool {
			n++
		}
	}
	return n
}

// gpuNodes lists a pool's Nodes.
func (g gpuSuite) gpuNodes(pool string) ([]corev1.Node, error) {
	var list corev1.NodeList
	err := g.hand.List(g.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	return list.Items, err
}

// expectEvent waits for an event of that reason about the object of exactly that name,
// whose message holds the words. With many pods there are too many events to read
// them all again and again.
func (g gpuSuite) expectEvent(name, reason string, texts ...string) {
	g.Helper()
	g.until(fmt.Sprintf("an event %s of %s", reason, name), func() error {
		var events corev1.EventList
		about := client.MatchingFields{"involvedObject.name": name}
		if err := g.hand.List(g.Context(), &events, about); err != nil {
			return err
		}
		var observed []string
		for _, e := range events.Items {
			lacks := func(text string) bool { return !strings.Contains(e.Message, text) }
			if e.Reason == reason && !slices.ContainsFunc(texts, lacks) {
				return nil
			}
			observed = append(observed, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are only %q", observed)
	})
}
