package simulate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/provision/simulate"
)

// fault is a condition that the node monitoring agent of EKS sets, as long ago as given.
func fault(condition corev1.NodeConditionType, reason string, ago time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: condition, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}
}

func TestUnhealthyNodesAreRepairedAsKarpenterDoes(t *testing.T) {
	xid := fault("AcceleratedHardwareReady", "NvidiaXID79Error", 5*time.Minute)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	one := func(from time.Time, reason string, blocked noderepair.BlockReason) []noderepair.Repair {
		return []noderepair.Repair{{Node: "node-0", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: reason, From: from, Blocked: blocked}}
	}
	heldUntil := func(from, until int) []noderepair.Repair {
		out := one(at(from), "NvidiaXID79Error", noderepair.BlockedByBackoff)
		out[0].Until = at(until)
		return out
	}
	twoWent := fmt.Sprintf(`{"unhealthySince":%q,"repaired":["x","y"],"lastRepair":%q}`, at(-240).Format(time.RFC3339), at(-60).Format(time.RFC3339))
	backedOff := func(until int) string {
		return fmt.Sprintf(`{"unhealthySince":%q,"lastRepair":%q,"backoffs":1,"until":%q}`, at(-240).Format(time.RFC3339), at(-60).Format(time.RFC3339), at(until).Format(time.RFC3339))
	}
	for name, c := range map[string]struct {
		gate      bool
		faults    []corev1.NodeCondition // of as many nodes, of six
		annotated bool
		budgets   []karpv1.Budget
		// going are nodes that go already, of the last of them; notReady and uninitialized the first.
		going                   int
		notReady, uninitialized bool
		// backoff is the engine's annotation of the NodePool, and initialized how long ago the first node was.
		backoff     string
		initialized time.Duration
		want        []noderepair.Repair
	}{
		"a fault by which the GPU is lost": {gate: true, faults: []corev1.NodeCondition{xid}, want: one(at(5), "NvidiaXID79Error", "")},
		"a fault that has another toleration": {
			gate: true, faults: []corev1.NodeCondition{fault("AcceleratedHardwareReady", "DCGMFieldError", 40*time.Minute)}, want: one(at(-10), "DCGMFieldError", ""),
		},
		"without the feature gate":                  {faults: []corev1.NodeCondition{xid}},
		"a condition that nobody repairs":           {gate: true, faults: []corev1.NodeCondition{fault("SomethingElse", "", time.Hour)}},
		"an annotation keeps the node":              {gate: true, faults: []corev1.NodeCondition{xid}, annotated: true, want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByAnnotation)},
		"a budget that allows no repair":            {gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnhealthy}}}, want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByBudget)},
		"a budget of another reason":                {gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}, want: one(at(5), "NvidiaXID79Error", "")},
		"a budget that a node which goes has taken": {gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "1"}}, going: 1, want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByBudget)},
		"a budget with one left":                    {gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "2"}}, going: 1, want: one(at(5), "NvidiaXID79Error", "")},
		"a node that is not ready takes nothing of the budget for its repair": {
			gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "1"}}, notReady: true,
			want: []noderepair.Repair{{Node: "node-0", Pool: "gpu", Condition: "Ready", From: at(-150)}},
		},
		"a node that is not initialized needs no budget": {
			gate: true, faults: []corev1.NodeCondition{xid}, budgets: []karpv1.Budget{{Nodes: "0"}}, uninitialized: true, want: one(at(5), "NvidiaXID79Error", ""),
		},
		"a node that goes already is not repaired, and counts as unhealthy": {
			gate: true, faults: []corev1.NodeCondition{xid, {}, {}, {}, xid, xid}, going: 2, want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByThreshold),
		},
		"a pool that is backed off":                         {gate: true, faults: []corev1.NodeCondition{xid}, backoff: backedOff(20), want: heldUntil(5, 20)},
		"a back-off that ends before the node's toleration": {gate: true, faults: []corev1.NodeCondition{xid}, backoff: backedOff(4), want: one(at(5), "NvidiaXID79Error", "")},
		"a replacement that became unhealthy soon, after two went": {
			gate: true, faults: []corev1.NodeCondition{fault("AcceleratedHardwareReady", "NvidiaXID79Error", 40*time.Minute)},
			backoff: twoWent, initialized: 50 * time.Minute, want: heldUntil(-30, 5),
		},
		"a replacement that becomes unhealthy soon, after two went, and is tolerated until later": {
			gate: true, faults: []corev1.NodeCondition{xid}, backoff: twoWent, initialized: 50 * time.Minute, want: heldUntil(5, 10),
		},
		"a replacement that became unhealthy late, after two went": {
			gate: true, faults: []corev1.NodeCondition{xid}, backoff: twoWent, initialized: 2 * time.Hour, want: one(at(5), "NvidiaXID79Error", ""),
		},
		"a back-off that cannot be read is none": {gate: true, faults: []corev1.NodeCondition{xid}, backoff: "x", want: one(at(5), "NvidiaXID79Error", "")},
		"a back-off of a pool whose budget allows no repair": {
			gate: true, faults: []corev1.NodeCondition{xid}, backoff: backedOff(20), budgets: []karpv1.Budget{{Nodes: "0"}}, want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByBudget),
		},
		"a back-off of a pool with too many unhealthy nodes": {
			gate: true, faults: []corev1.NodeCondition{xid, {}, {}, {}, xid, xid}, going: 2, backoff: backedOff(20), want: one(at(5), "NvidiaXID79Error", noderepair.BlockedByThreshold),
		},
		"more than a fifth of six, rounded": {gate: true, faults: []corev1.NodeCondition{xid, xid, xid}, want: []noderepair.Repair{
			{Node: "node-0", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: at(5), Blocked: noderepair.BlockedByThreshold},
			{Node: "node-1", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: at(5), Blocked: noderepair.BlockedByThreshold},
			{Node: "node-2", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: at(5), Blocked: noderepair.BlockedByThreshold},
		}},
		"a fifth of six, rounded": {gate: true, faults: []corev1.NodeCondition{xid, xid}, want: []noderepair.Repair{
			{Node: "node-0", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: at(5)},
			{Node: "node-1", Pool: "gpu", Condition: "AcceleratedHardwareReady", Reason: "NvidiaXID79Error", From: at(5)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t, class, pool)
			for i := range 6 {
				claim, node := run(&before, "gpu", fmt.Sprint(i), 3*time.Hour)
				if i < len(c.faults) && c.faults[i].Type != "" {
					node.Status.Conditions = append(node.Status.Conditions, c.faults[i])
				}
				if i >= 6-c.going {
					now := metav1.NewTime(noon)
					claim.DeletionTimestamp = &now
				}
				if i == 0 && c.notReady {
					node.Status.Conditions[0].Status = corev1.ConditionFalse
				}
				if i == 0 && c.uninitialized {
					delete(node.Labels, karpv1.NodeInitializedLabelKey)
				}
				if i == 0 && c.initialized != 0 {
					for at := range claim.Status.Conditions {
						claim.Status.Conditions[at].LastTransitionTime = metav1.NewTime(noon.Add(-c.initialized))
					}
				}
				if c.annotated {
					node.Annotations = map[string]string{karpv1.DoNotRepairAnnotationKey: "true"}
				}
			}
			if c.budgets != nil {
				before.NodePools[0].Spec.Disruption.Budgets = c.budgets
			}
			after := before
			if c.backoff != "" {
				// The change declares the NodePool without what the engine has recorded on it.
				after.NodePools = []*karpv1.NodePool{before.NodePools[0].DeepCopy()}
				before.NodePools[0].Annotations = map[string]string{noderepair.BackoffAnnotation: c.backoff}
			}
			s := settings()
			s.FeatureGates["NodeRepair"] = c.gate
			got, err := simulate.Compare(engine.Offline(t.Context(), s), before, after, prices(t, "g4dn", "g5"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Repairs); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Replaced)+len(got.Drifted) > 0 {
				t.Errorf("%d nodes are replaced by the change, and %d drifted", len(got.Replaced), len(got.Drifted))
			}
		})
	}
}

// TestTheUnhealthyThresholdIsUpstreams holds the figure against Karpenter's own code, which does not export it.
func TestTheUnhealthyThresholdIsUpstreams(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/controllers/disruption/repair.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), `repairUnhealthyThreshold = "20%"`) {
		t.Error("Karpenter has another threshold of unhealthy nodes")
	}
}
