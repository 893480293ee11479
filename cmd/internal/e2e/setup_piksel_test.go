package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Set-up 002: one class for general and GPU nodes, the image pinned; a GPU node
// stays, a general one goes 30 seconds after its last pod. These are live, and are
// made fewer by a commit before the nodes are empty.
func TestSetupPiksel(t *testing.T) {
	t.Parallel()
	s := newSetupSuite(t, "piksel")
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
	s.waitsFor("default", "30s")
	s.waitsFor("gpu", karpv1.Never)
	s.edits("Let empty general nodes go sooner", "base/nodepools.yaml", "consolidateAfter: 30s", "consolidateAfter: 5s")
	s.waitsFor("gpu", karpv1.Never)
	s.onlyGeneralGoes(gpuNode, general)

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

// onlyGeneralGoes empties both nodes, the GPU node first. The round of Karpenter's
// disruption in which the general node is found empty has the GPU node before it,
// too, empty for longer, and passes over it; an event says so. That is the proof:
// no length of time would be one that nothing comes later.
func (s setupSuite) onlyGeneralGoes(gpuNode, general landing) {
	s.Helper()
	for _, l := range []landing{gpuNode, general} {
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
