package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Set-up 002: one class for general and GPU nodes, the image pinned; a GPU node
// stays, a general one goes 30 seconds after its last pod, and not because its pod
// would fit elsewhere. These are live, and are
// made fewer by a commit before the nodes are empty.
func TestSetupPiksel(t *testing.T) {
	t.Parallel()
	s := applyExample(t, "piksel")
	s.runsThePage("Verify")
	s.creates("workloads/gpu.yaml")
	s.creates("workloads/general.yaml")
	gpuNode, general := s.lands("landcover-model"), s.lands("tile-export")

	want := machine{
		Pool: "gpu", Type: "g5.xlarge", Capacity: spot, Taints: []string{"nvidia.com/gpu=true:NoSchedule"},
		Volume:   volume{Device: "/dev/xvda", Size: "120", Type: "gp3", Encrypted: "true"},
		Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "1", IPv6: "disabled"},
		Image:    s.al2023("nvidia", "v20250505"),
	}
	gpuNode.is(want)
	want.Pool, want.Type, want.Taints, want.Image = "default", general.instance.Type, nil, s.al2023("standard", "v20250505")
	general.is(want)
	if c := general.node.Labels["karpenter.k8s.aws/instance-category"]; !strings.Contains("cmrt", c) || c == "" {
		t.Errorf("the general node is a %s", general.instance.Type)
	}
	if cpus := general.node.Status.Capacity.Cpu().Value(); cpus < 4 || cpus > 192 {
		t.Errorf("the general node has %d CPUs", cpus)
	}
	s.countsGPUs("gpu", "30", "1")
	s.runsThePage("Monitor")
	s.waitsFor("default", "30s")
	s.waitsFor("gpu", karpv1.Never)
	s.edits("Let empty general nodes go sooner", "base/nodepools.yaml", "consolidateAfter: 30s", "consolidateAfter: 5s")
	s.waitsFor("gpu", karpv1.Never)
	general, underutilized := s.underutilizes(general)
	s.onlyGeneralGoes(gpuNode, general)
	s.staysThough(underutilized)

	// The README says how one ends.
	if err := s.hand.Delete(t.Context(), &gpuNode.claim); err != nil {
		t.Fatal(err)
	}
	s.zero()
}

// countsGPUs: the limit is under the name by which Karpenter counts, so it binds.
func (s setupSuite) countsGPUs(pool, limit, used string) {
	s.Helper()
	s.eventually("pool "+pool+" counts its GPUs", func() error {
		var of karpv1.NodePool
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: pool}, &of); err != nil {
			return err
		}
		most, now := of.Spec.Limits["nvidia.com/gpu"], of.Status.Resources["nvidia.com/gpu"]
		if most.String() != limit || now.String() != used {
			return fmt.Errorf("it has %s GPUs of %s", now.String(), most.String())
		}
		return nil
	})
}

// waitsFor: the pool's nodes go so long after they are empty.
func (s setupSuite) waitsFor(pool, long string) {
	s.Helper()
	var of karpv1.NodePool
	if err := s.hand.Get(s.Context(), client.ObjectKey{Name: pool}, &of); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(karpv1.MustParseNillableDuration(long).Duration, of.Spec.Disruption.ConsolidateAfter.Duration); diff != "" {
		s.Errorf("consolidateAfter of pool %s (-declared +live):\n%s", pool, diff)
	}
}

// underutilizes brings two more general nodes, and leaves one of the three with a small pod
// only, for which there is capacity on another. It returns one that is still full, and that one.
func (s setupSuite) underutilizes(first landing) (full, underutilized landing) {
	s.Helper()
	all := []landing{first}
	// One after the other: two that wait together may get one larger node.
	for _, name := range []string{"tile-export-2", "tile-export-3"} {
		s.creates("workloads/general.yaml", func(o *unstructured.Unstructured) { o.SetName(name) })
		all = append(all, s.lands(name))
	}
	s.plainPod("tile-index", func(pod *corev1.Pod) {
		need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
		pod.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "default"}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: need, Limits: need}
	})
	small := s.lands("tile-index")
	at := slices.IndexFunc(all, func(l landing) bool { return l.node.Name == small.node.Name })
	nodes := map[string]bool{}
	for _, l := range all {
		nodes[l.node.Name] = true
	}
	if at < 0 || len(nodes) != 3 {
		s.Fatalf("the small pod is on %s, the others are on %v", small.node.Name, nodes)
	}
	s.removes(all[at])
	return all[(at+1)%len(all)], small
}

// staysThough is called after another node of the pool became empty, and was terminated.
func (s setupSuite) staysThough(underutilized landing) {
	s.Helper()
	s.expectEvent(underutilized.claim.Name, "Unconsolidatable", `NodePool "default" has consolidation policy WhenEmpty, but node is not empty`)
	for _, one := range s.history.all(s.gpuSuite) {
		claim := one.object.(*karpv1.NodeClaim)
		if claim.Name == underutilized.claim.Name && (claim.DeletionTimestamp != nil || claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason) != nil) {
			s.Fatalf("NodeClaim %s was disrupted: %+v", claim.Name, claim.Status.Conditions)
		}
	}
	if now := s.lands(underutilized.pod.Name); now.pod.UID != underutilized.pod.UID || now.node.Name != underutilized.node.Name {
		s.Errorf("pod %s is on %s, and was on %s", now.pod.Name, now.node.Name, underutilized.node.Name)
	}
}

// removes deletes the pod of a landing, and returns when it is gone.
func (s setupSuite) removes(l landing) {
	s.Helper()
	if err := s.hand.Delete(s.Context(), &l.pod); err != nil {
		s.Fatal(err)
	}
	s.eventually("pod "+l.pod.Name+" is gone", func() error {
		err := s.hand.Get(s.Context(), client.ObjectKeyFromObject(&l.pod), &corev1.Pod{})
		if err == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// onlyGeneralGoes empties both nodes, the GPU node first. The round of Karpenter's
// disruption in which the general node is found empty has the GPU node before it,
// too, empty for longer, and passes over it; an event says so. That is the proof:
// no length of time would be one that nothing comes later.
func (s setupSuite) onlyGeneralGoes(gpuNode, general landing) {
	s.Helper()
	for _, l := range []landing{gpuNode, general} {
		s.removes(l)
	}
	begin := time.Now()
	s.until("the general node is gone", func() error {
		err := s.hand.Get(s.Context(), client.ObjectKeyFromObject(&general.claim), &karpv1.NodeClaim{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	s.Logf("the general node was gone %s after its pod", since(begin))
	s.lasted("default", 5*time.Second)
	s.expectEvent(general.claim.Name, "DisruptionTerminating", "Empty")
	s.expectEvent(gpuNode.claim.Name, "Unconsolidatable", `NodePool "gpu" has consolidation disabled`)

	var claim karpv1.NodeClaim
	if err := s.hand.Get(s.Context(), client.ObjectKeyFromObject(&gpuNode.claim), &claim); err != nil {
		s.Fatal(err)
	}
	ready := claim.StatusConditions().Root()
	if claim.DeletionTimestamp != nil || claim.StatusConditions().Get(karpv1.ConditionTypeConsolidatable) != nil || ready.Status != metav1.ConditionTrue {
		s.Errorf("the empty GPU node's NodeClaim is deleted %v, with %+v", claim.DeletionTimestamp, claim.Status.Conditions)
	}
	if living := s.living("gpu"); len(living) != 1 || living[0].ID != gpuNode.instance.ID || len(s.terminations(gpuNode.instance.ID)) > 0 {
		s.Errorf("of the GPU pool there is %v", living)
	}
}
