package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Set-up 000: inference on spot GPUs, none while nobody asks and four at most,
// beside nodes for everyday work and for what must not be interrupted. How long
// empty nodes stay is made shorter by a commit, when the pods run.
func TestSetupAltanova(t *testing.T) {
	t.Parallel()
	s := applyExample(t, "altanova")
	s.runsThePage("Before you start", "Verify")
	launches := s.AWS.Watch(t.Context())
	pods, list := s.record(&corev1.PodList{}, client.InNamespace("default")), s.record(&corev1.NodeList{})
	s.creates("workloads/tinyllama.yaml")
	gpuNode := s.lands("tinyllama-inference")
	s.startsCold(gpuNode, pods, list, s.awaits(launches, gpuPool, sandboxaws.Pending))

	disk := volume{Device: "/dev/xvda", Size: "200", Type: "gp3", IOPS: "4000", Throughput: "200", Encrypted: "true", DeletedWith: "true"}
	want := machine{
		Pool: gpuPool, Type: "g4dn.xlarge", Capacity: spot,
		Labels: map[string]string{"nodepool": gpuPool, "NodeType": "gpu"}, Taints: []string{"nvidia.com/gpu=true:NoSchedule"},
		Volume: disk, Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "1", IPv6: "disabled"},
		Image: s.al2023("nvidia", s.latest()),
	}
	gpuNode.is(want)
	s.runsThePage("Monitor")

	s.plainPod("everyday")
	s.plainPod("important", func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"nodepool": "critical"}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "workload", Value: "critical", Effect: corev1.TaintEffectNoSchedule}}
	})
	s.neverAFifth()
	s.runsThePage("Troubleshoot")

	want.Pool, want.Type, want.Labels, want.Taints = "general", "t3.small", map[string]string{"nodepool": "general"}, nil
	want.Volume.Size, want.Volume.IOPS, want.Volume.Throughput, want.Image = "50", "3000", "125", s.al2023("standard", s.latest())
	s.lands("everyday").is(want)
	want.Pool, want.Capacity, want.Labels, want.Taints = "critical", onDemand, map[string]string{"nodepool": "critical"}, []string{"workload=critical:NoSchedule"}
	s.lands("important").is(want)

	s.waitsFor(gpuPool, "5m")
	s.waitsFor("critical", "5m")
	s.waitsFor("general", "1m")
	s.edits("Let empty nodes go sooner", "base/nodepools.yaml", "consolidateAfter: 5m", "consolidateAfter: 5s", "consolidateAfter: 1m", "consolidateAfter: 5s")
	s.zero()
	for _, pool := range []string{gpuPool, "general", "critical"} {
		s.lasted(pool, 5*time.Second)
	}
	if n := s.launched(gpuPool); n != 4 {
		t.Errorf("%d GPU nodes were launched in all", n)
	}
}

// startsCold follows the pod from nowhere to its node. What the API server shows is
// in its own order, and EC2's launch shows in the NodeClaim.
func (s setupSuite) startsCold(l landing, pods, nodes *recording, launch sandboxaws.Instance) {
	s.Helper()
	ofPod := func(is func(*corev1.Pod) bool) func(client.Object) bool {
		return func(o client.Object) bool { return o.GetName() == l.pod.Name && is(o.(*corev1.Pod)) }
	}
	ofNode := func(is func(*corev1.Node) bool) func(client.Object) bool {
		return func(o client.Object) bool { return o.GetName() == l.node.Name && is(o.(*corev1.Node)) }
	}
	ofClaim := func(is func(*karpv1.NodeClaim) bool) func(client.Object) bool {
		return func(o client.Object) bool { return o.GetName() == l.claim.Name && is(o.(*karpv1.NodeClaim)) }
	}
	offered := ofNode(func(n *corev1.Node) bool { return allocatableGPUs(n)[gpu.Resource] == 1 })
	isInitialized := ofNode(func(n *corev1.Node) bool { return n.Labels[karpv1.NodeInitializedLabelKey] == "true" })
	steps := []struct {
		name string
		in   *recording
		is   func(client.Object) bool
	}{
		{"the pod finds no node", pods, ofPod(func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable })
		})},
		{"Karpenter decides on a node", s.history, ofClaim(func(*karpv1.NodeClaim) bool { return true })},
		{"the node registers without a GPU", nodes, ofNode(func(n *corev1.Node) bool { return allocatableGPUs(n)[gpu.Resource] == 0 })},
		{"the device plugin advertises its GPU", nodes, offered},
		{"the pod is bound", pods, ofPod(func(p *corev1.Pod) bool { return p.Spec.NodeName == l.node.Name })},
		{"the pod runs", pods, ofPod(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })},
	}
	s.until("the films show the end", func() error {
		last := steps[len(steps)-1]
		_, runs := last.in.first(s.gpuSuite, 0, last.is)
		_, ready := nodes.first(s.gpuSuite, 0, isInitialized)
		if !runs || !ready {
			return fmt.Errorf("the pod runs: %t; the node is initialized: %t", runs, ready)
		}
		return nil
	})
	at := uint64(0)
	for _, step := range steps {
		revision, observed := step.in.first(s.gpuSuite, 0, step.is)
		if !observed || revision <= at {
			s.Errorf("not in the chain's order: %s (seen: %t, at %d, after %d)", step.name, observed, revision, at)
		}
		at = max(at, revision)
	}
	// The engine calls the node initialized beside the pod's start, but never
	// before the GPU is there.
	gpuAt, _ := nodes.first(s.gpuSuite, 0, offered)
	initialized, observed := nodes.first(s.gpuSuite, 0, isInitialized)
	if !observed || initialized < gpuAt {
		s.Errorf("the node was initialized at %d (%t), its GPU came at %d", initialized, observed, gpuAt)
	}
	// EC2 launches it after the decision and before the node is there. The NodeClaim
	// tells of the launch beside the node's own start; times in the API are whole seconds.
	if at := launch.Launched.Truncate(time.Second); at.Before(l.claim.CreationTimestamp.Time) || at.After(l.node.CreationTimestamp.Time) {
		s.Errorf("decided at %s, launched at %s, registered at %s", l.claim.CreationTimestamp, launch.Launched, l.node.CreationTimestamp)
	}
	if l.claim.Status.ProviderID == "" || launch.ID != l.instance.ID {
		s.Errorf("EC2 launched %v, and the node is %v", launch, l.instance)
	}
}

// neverAFifth asks for five GPUs where four are allowed.
func (s setupSuite) neverAFifth() {
	s.Helper()
	for i := range 4 {
		s.creates("workloads/tinyllama.yaml", func(o *unstructured.Unstructured) { o.SetName(fmt.Sprintf("%s-%d", o.GetName(), i)) })
	}
	waits := ""
	s.until("four pods have a GPU and one waits", func() error {
		pods, err := s.labelled("app", "tinyllama")
		if err != nil {
			return err
		}
		running := 0
		for _, pod := range pods {
			switch pod.Status.Phase {
			case corev1.PodRunning:
				running++
			default:
				waits = pod.Name
			}
		}
		if running != 4 || len(pods) != 5 {
			return fmt.Errorf("%d of %d run", running, len(pods))
		}
		return nil
	})
	s.expectEvent(waits, "FailedScheduling", "all available instance types exceed limits for nodepool", gpuPool)
	s.countsGPUs(gpuPool, "4", "4")
	s.awaitSeries(s.until, s.metrics, "PoolwrightNodePoolNearLimit")
	s.awaitSeries(s.until, s.metrics, "PoolwrightPodsUnschedulable")
	var pod corev1.Pod
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: waits}, &pod); err != nil {
		s.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodPending || pod.Spec.NodeName != "" {
		s.Errorf("pod %s is %s on %q", waits, pod.Status.Phase, pod.Spec.NodeName)
	}
	if n := s.launched(gpuPool); n != 4 {
		s.Errorf("%d GPU nodes were launched", n)
	}
}

// plainPod creates a pod that needs no GPU, and says nothing of nodes but what
// the changes say.
func (s setupSuite) plainPod(name string, changes ...func(*corev1.Pod)) {
	s.Helper()
	grace := int64(1)
	need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/" + name + ":1", Resources: corev1.ResourceRequirements{Requests: need, Limits: need},
		}}},
	}
	for _, change := range changes {
		change(pod)
	}
	s.makes(pod)
}
