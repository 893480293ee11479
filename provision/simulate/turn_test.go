package simulate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/enginetest"
	"github.com/poolwright/poolwright/provision/simulate"
)

// selling is a calm cloud with a price list.
type selling struct {
	calm
	types map[string][]*cloudprovider.InstanceType
}

func (s selling) GetInstanceTypes(_ context.Context, p *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return s.types[p.Name], nil
}

// drifting is Karpenter's drift over a snapshot whose nodes are marked, oldest first.
type drifting struct {
	ctx      context.Context
	api      client.Client
	cloud    cloudprovider.CloudProvider
	cluster  *state.Cluster
	clock    *clocktest.FakeClock
	snapshot provision.ClusterSnapshot
}

func newDrifting(t *testing.T, before, after provision.ClusterSnapshot) *drifting {
	t.Helper()
	d := &drifting{ctx: engine.Offline(t.Context(), settings()), clock: clocktest.NewFakeClock(noon), snapshot: before}
	types, err := simulate.Stock(d.ctx, after, prices(t, "g4dn", "g5"))
	if err != nil {
		t.Fatal(err)
	}
	d.cloud = selling{types: types}
	var objects []client.Object
	for _, p := range after.NodePools {
		p = p.DeepCopy()
		p.UID = "pool"
		for _, cond := range []string{karpv1.ConditionTypeNodeClassReady, karpv1.ConditionTypeValidationSucceeded} {
			p.StatusConditions().SetTrue(cond)
		}
		objects = append(objects, p)
	}
	for i := range before.NodeClaims {
		claim := before.NodeClaims[i].DeepCopy()
		claim.Status.Conditions = append(claim.Status.Conditions, statusAt(claim.CreationTimestamp.Add(time.Minute)))
		objects = append(objects, claim, before.Nodes[i].DeepCopy())
	}
	for _, p := range before.Pods {
		objects = append(objects, p.DeepCopy())
	}
	for _, b := range before.PodDisruptionBudgets {
		objects = append(objects, b.DeepCopy())
	}
	d.api = enginetest.NewClientBuilder().WithObjects(objects...).Build()
	d.cluster = state.NewCluster(d.clock, d.api, d.cloud)
	for _, o := range objects {
		switch o := o.(type) {
		case *karpv1.NodeClaim:
			d.cluster.UpdateNodeClaim(o)
		case *corev1.Node:
			err = d.cluster.UpdateNode(d.ctx, o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d.cluster.SetSynced(true)
	return d
}

// statusAt is the mark of a node.
func statusAt(when time.Time) status.Condition {
	return status.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.NewTime(when)}
}

// next is the node that Karpenter takes now, which then goes; empty for none.
func (d *drifting) next(t *testing.T) string {
	t.Helper()
	recorder := events.NewRecorder(&record.FakeRecorder{})
	provisioner := provisioning.NewProvisioner(d.api, recorder, d.cloud, d.cluster, d.clock, deviceallocation.NewController(d.api), nil)
	queue := disruption.NewQueue(d.api, recorder, d.cluster, d.clock, provisioner)
	method := disruption.NewDrift(d.api, d.cluster, provisioner, recorder, d.clock)
	candidates, err := disruption.GetCandidates(d.ctx, d.cluster, d.api, recorder, d.clock, d.cloud, method.ShouldDisrupt, method.Class(), queue)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := method.ComputeCommands(d.ctx, map[string]int{"gpu": 1}, candidates...)
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) == 0 {
		return ""
	}
	taken := commands[0].Candidates[0]
	d.cluster.DeleteNodeClaim(taken.NodeClaim.Name)
	d.cluster.DeleteNode(taken.Node.Name)
	for _, p := range d.snapshot.Pods {
		if p.Spec.NodeName == taken.Node.Name {
			if err := d.api.Delete(d.ctx, p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return taken.NodeClaim.Name
}

// Karpenter's drift is run on the snapshot until it takes no more nodes.
func TestKarpenterTakesTheNodesThatWereForecastInTheirTurn(t *testing.T) {
	tolerant := func(f *provision.ClusterSnapshot) {
		for _, p := range f.Pods {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})
		}
	}
	limit := "nvidia.com/gpu: 8"
	tests := map[string]func(*provision.ClusterSnapshot){
		"nothing in the way":         tolerant,
		"a limit that is used up":    func(f *provision.ClusterSnapshot) { tolerant(f); limit = "nvidia.com/gpu: 3" },
		"a limit below what is used": func(f *provision.ClusterSnapshot) { tolerant(f); limit = "nvidia.com/gpu: 2" },
		"as many nodes as the limit": func(f *provision.ClusterSnapshot) { tolerant(f); limit = "nodes: 3" },
		"more nodes than the limit":  func(f *provision.ClusterSnapshot) { tolerant(f); limit = "nodes: 2" },
		"a full pool, and pods that need no GPU fit elsewhere": func(f *provision.ClusterSnapshot) {
			tolerant(f)
			limit = "nvidia.com/gpu: 2"
			f.Pods[0].Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		},
		"one without pods": func(f *provision.ClusterSnapshot) {
			run(f, "gpu", "empty", time.Minute)
			tolerant(f)
		},
		"a budget in the way": func(f *provision.ClusterSnapshot) { budget(f, "pod-b", 0); tolerant(f) },
		"a protected pod": func(f *provision.ClusterSnapshot) {
			f.Pods[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			tolerant(f)
		},
		"a protected node": func(f *provision.ClusterSnapshot) {
			f.Nodes[2].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			tolerant(f)
		},
		"pods with nowhere to go": func(f *provision.ClusterSnapshot) {},
		"one pod with nowhere to go": func(f *provision.ClusterSnapshot) {
			tolerant(f)
			f.Pods[1].Spec.Tolerations = f.Pods[1].Spec.Tolerations[:1]
		},
		"a grace period before a budget": func(f *provision.ClusterSnapshot) {
			budget(f, "pod-b", 0)
			f.NodeClaims[1].Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			tolerant(f)
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			limit = "nvidia.com/gpu: 8"
			arrange(&before)
			after := read(t, strings.NewReplacer("taints: [", "taints: [{key: x, effect: NoSchedule}, ", "nvidia.com/gpu: 8", limit).Replace(pool), class)
			want := []string{}
			for _, n := range compare(t, before, after).Replaced {
				if !n.Blocked() {
					want = append(want, n.NodeClaim)
				}
			}
			got := []string{}
			karpenter := newDrifting(t, before, after)
			for len(got) <= len(before.NodeClaims) {
				taken := karpenter.next(t)
				if taken == "" {
					break
				}
				got = append(got, taken)
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("(-Karpenter +forecast):\n%s", diff)
			}
		})
	}
}
