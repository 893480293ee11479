package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	explainedPool = "explained"
	explainedType = "m5.2xlarge"
)

func TestPodsAndNodesAreExplained(t *testing.T) {
	t.Parallel()
	s := newEngineFixture(t)
	s.addPool(explainedPool, []string{onDemand}, explainedType)
	s.pendingPodsAreExplained()
	s.nodesAreExplained()
	s.soldOutCapacityIsExplained()
}

// first waits until the first cause that the command prints is this one, possible or not, and something else is printed beside it.
func (s engineSuite) first(reason, beside string, args ...string) {
	s.Helper()
	s.eventually("explain "+strings.Join(args, " ")+" prints "+reason, func() error {
		got := typed(s.T, s.Environment, s.Dir, append([]string{"explain"}, args...)...)
		first := strings.Contains(got.out, "\n1. "+reason+": ") || strings.Contains(got.out, "\n1. possible: "+reason+": ")
		if got.code != 0 || !first || !strings.Contains(got.out, beside) {
			return fmt.Errorf("exit code %d, stdout:\n%s\nstderr:\n%s", got.code, got.out, got.err)
		}
		return nil
	})
}

// explainedPod is a pod for the pool, changed.
func (s engineSuite) explainedPod(name string, change func(*corev1.PodSpec)) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}}, Spec: podSpec(explainedPool)}
	change(&pod.Spec)
	if err := s.hand.Create(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}

// pendingPodsAreExplained: none of these pods has a node, each for another reason.
func (s engineSuite) pendingPodsAreExplained() {
	for _, one := range []struct {
		name, reason, beside string
		change               func(*corev1.PodSpec)
	}{
		{"volcano", "OtherScheduler", "volcano", func(p *corev1.PodSpec) { p.SchedulerName = "volcano" }},
		{"intolerant", "TaintNotTolerated", "test=" + explainedPool, func(p *corev1.PodSpec) { p.Tolerations = nil }},
		{"elsewhere", "ZoneNotOffered", "eu-west-1z", func(p *corev1.PodSpec) { p.NodeSelector[corev1.LabelTopologyZone] = "eu-west-1z" }},
		{"other-type", "InstanceTypeNotOffered", "p5.48xlarge", func(p *corev1.PodSpec) { p.NodeSelector[corev1.LabelInstanceTypeStable] = "p5.48xlarge" }},
		{"large", "RequestTooLarge", "500", func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500")
			p.Containers[0].Resources.Limits = nil
		}},
	} {
		s.explainedPod(one.name, one.change)
		s.first(one.reason, one.beside, "pod", "default/"+one.name)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: one.name, Namespace: "default"}}
		if err := s.hand.Delete(s.Context(), pod); err != nil {
			s.Fatal(err)
		}
	}
}

// nodesAreExplained: one node, which stays for one reason after the other; and a pod that its pool's limit leaves no second one.
func (s engineSuite) nodesAreExplained() {
	s.addPod(explainedPool)
	node := s.waitForNodeWithPod(explainedPool).DNSName
	s.first("BarePod", "kubectl -n default delete pod "+explainedPool, "node", node)
	s.patchPool(`{"spec":{"limits":{"nodes":"1"}}}`)
	s.explainedPod("second", func(p *corev1.PodSpec) {
		p.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7")
		p.Containers[0].Resources.Limits = nil
	})
	s.first("AtLimit", `spec.limits["nodes"] of NodePool/`+explainedPool, "pod", "second", "-n", "default")
	s.first("AtLimit", "", "pool", explainedPool)
	page := newPage(s.T, "howto/explain.md")
	u := newShell(s.fixture, &repo{dir: s.TempDir()}, "pod train-7 -n ml", "pod second -n default", "node ip-10-0-1-2.eu-west-1.compute.internal", "node "+node)
	u.prints(u.block(page.take("poolwright explain pod"), exitCode{0}), "AtLimit")
	u.prints(u.block(page.take("poolwright explain node"), exitCode{0}), "BarePod")
	if err := s.hand.Delete(s.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: "default"}}); err != nil {
		s.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: explainedPool, Namespace: "default"}}
	if err := s.hand.Patch(s.Context(), pod, mergePatch(`{"metadata":{"labels":{"app":"explained"}}}`)); err != nil {
		s.Fatal(err)
	}
	one := intstr.FromInt32(1)
	if err := s.hand.Create(s.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "explained"}}},
	}); err != nil {
		s.Fatal(err)
	}
	s.patchPool(`{"spec":{"disruption":{"consolidateAfter":"1h","consolidationPolicy":"WhenEmptyOrUnderutilized"}}}`)
	s.first("PodDisruptionBudget", "default/kept", "node", node)
	s.dropPod(explainedPool)
	s.first("ConsolidateAfter", "1h0m0s", "node", node)
	live := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := s.hand.Patch(s.Context(), live, mergePatch(`{"metadata":{"annotations":{"`+karpv1.DoNotDisruptAnnotationKey+`":"true"}}}`)); err != nil {
		s.Fatal(err)
	}
	s.first("DoNotDisrupt", "kubectl annotate node "+node, "node", node)
}

// soldOutCapacityIsExplained: AWS has none of the only instance type.
func (s engineSuite) soldOutCapacityIsExplained() {
	const pool, kind = "sold-out", "m5.4xlarge"
	if err := s.AWS.SetCapacity(sandboxaws.Offering{Type: kind}, 0); err != nil {
		s.Fatal(err)
	}
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(pool)
	s.first("InsufficientCapacity", "NodePool/"+pool, "pod", pool, "-n", "default")
}

// patchPool changes the pool of this test.
func (s engineSuite) patchPool(patch string) {
	s.Helper()
	if err := s.hand.Patch(s.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: explainedPool}}, mergePatch(patch)); err != nil {
		s.Fatal(err)
	}
}
