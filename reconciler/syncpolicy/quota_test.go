package syncpolicy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

const gOnDemand = "Running On-Demand G and VT instances"

// gpuPool is a NodePool of g5.xlarge, on demand, with a limit of so many GPUs.
func gpuPool(name string, gpus int64, labels ...string) state.Item {
	in := func(key, value string) any { return m{"key": key, "operator": "In", "values": []any{value}} }
	metadata := m{"name": name}
	for _, l := range labels {
		metadata["labels"] = m{"team": l}
	}
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name},
		Object: m{"metadata": metadata, "spec": m{"limits": m{"nvidia.com/gpu": gpus}, "template": m{"spec": m{"requirements": []any{
			in("node.kubernetes.io/instance-type", "g5.xlarge"), in("karpenter.sh/capacity-type", "on-demand")}}}}},
	}
}

// unlimited is the pool without its limits.
func unlimited(pool state.Item) state.Item {
	delete(pool.Object["spec"].(m), "limits")
	return pool
}

// static is the pool with a fixed number of nodes.
func static(pool state.Item, replicas int64) state.Item {
	pool.Object["spec"].(m)["replicas"] = replicas
	return pool
}

// tenShares is a DevicePlugin that makes ten shares of each GPU.
func tenShares() state.Item {
	return state.Item{Key: state.Key{Target: "kubernetes", Group: v1alpha1.GroupVersion.Group, Kind: "DevicePlugin", Name: "default"},
		Object: m{"spec": m{"configs": []any{m{"name": "ten", "nodePools": []any{"a"}, "timeSlicing": m{"replicas": int64(10)}}}}}}
}

// annotated is the pool with a limit in GPUs.
func annotated(pool state.Item, gpus string) state.Item {
	pool.Object["metadata"].(m)["annotations"] = m{v1alpha1.GPULimitAnnotation: gpus}
	return pool
}

// planned is the plan between live and declared pools under a Sync, with what was read of the quota.
func planned(sync *v1alpha1.Sync, live, declared []state.Item, quota state.Quota) plan.Plan {
	key := state.Key{Target: "aws", Group: "servicequotas", Kind: "Quota", Namespace: "us-east-1", Name: gOnDemand}
	desired := state.NewSet(append(declared, state.Item{Key: key, Object: m{}})...)
	observed := state.NewSet(append(live, state.Item{Key: key, Object: m{}, Observation: state.Observation{Quota: &quota}})...)
	return plan.Compute(desired, observed, ForRun(sync, time.Time{})...)
}

func TestASyncHoldsWhatExceedsAQuota(t *testing.T) {
	g := state.Quota{Code: "L-DB2E81BA", LimitVCPUs: 64}
	const two = "NodePools a and b need at least 72 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-DB2E81BA) or lower a limit"
	for _, tt := range []struct {
		name           string
		policy         v1alpha1.QuotaPolicy
		live, declared []state.Item
		quota          state.Quota
		// want are the reasons by the name of the pool.
		want map[string]string
	}{
		{"a pool is added that exceeds it with another", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, g, map[string]string{"b": two}},
		{"a pool is raised that exceeds it with another", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10), gpuPool("b", 2)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, g, map[string]string{"b": two}},
		{"the guard only warns", v1alpha1.QuotaWarn, []state.Item{gpuPool("a", 10)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, g, nil},
		{"the guard is of an older release", "", []state.Item{gpuPool("a", 10)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, g, nil},
		{"the quota is larger", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, state.Quota{LimitVCPUs: 72}, nil},
		{"other instances use a part of it", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, state.Quota{Code: "L", LimitVCPUs: 72, UsedVCPUs: 4},
			map[string]string{"b": "NodePools a and b need at least 72 vCPUs, the quota allows 72, less what other instances use (guard.quota): request a quota increase (quota code L) or lower a limit"}},
		{"pools that are short already get a label", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, []state.Item{gpuPool("a", 10, "ml"), gpuPool("b", 8, "ml")}, g, nil},
		{"of pools that are short already, one is lowered", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 10), gpuPool("b", 9)}, []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, g, nil},
		{"the quota could not be read, and a pool needs more of it", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 1), gpuPool("b", 1)}, []state.Item{gpuPool("a", 2), gpuPool("b", 1, "ml")}, state.Quota{Unknown: "denied: give role poolwright the action servicequotas:ListServiceQuotas"},
			map[string]string{"a": "NodePool a needs more than before of quotas that could not be read: denied: give role poolwright the action servicequotas:ListServiceQuotas (guard.quota)"}},
		{"a pool of shared GPUs is added that is within it", v1alpha1.QuotaHold, []state.Item{tenShares()}, []state.Item{tenShares(), annotated(gpuPool("a", 120), "12")}, g, nil},
		{"a pool of shared GPUs with a limit in shares is added that is within it", v1alpha1.QuotaHold, []state.Item{tenShares()}, []state.Item{tenShares(), gpuPool("a", 160)}, g, nil},
		{"a pool of shared GPUs is added that exceeds it", v1alpha1.QuotaHold, []state.Item{tenShares()}, []state.Item{tenShares(), annotated(gpuPool("a", 170), "17")}, g,
			map[string]string{"a": "NodePool a needs at least 68 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-DB2E81BA) or lower a limit"}},
		{"the last limit of a pool is removed", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 1)}, []state.Item{unlimited(gpuPool("a", 1))}, g,
			map[string]string{"a": "NodePool a would have no limit of CPUs, GPUs or nodes any more, and the quota allows 64 (guard.quota): keep one of the limits"}},
		{"a static pool gets replicas beyond it", v1alpha1.QuotaHold, []state.Item{static(gpuPool("a", 1), 1)}, []state.Item{static(gpuPool("a", 1), 500)}, g,
			map[string]string{"a": "NodePool a needs at least 2000 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-DB2E81BA) or lower a limit"}},
		{"a pool is added that can have no node", v1alpha1.QuotaHold, nil, []state.Item{gpuPool("a", 1)}, state.Quota{Code: "L", LimitVCPUs: 3},
			map[string]string{"a": "NodePool a can have no node: its smallest instance type g5.xlarge has 4 vCPUs, the quota allows 3 (guard.quota): request a quota increase (quota code L) or allow a smaller type"}},
		{"Service Quotas lists no such quota", v1alpha1.QuotaHold, nil, []state.Item{gpuPool("a", 100)}, state.Quota{Unlisted: true}, nil},
		{"the quota could not be read, and the last limit is removed", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 2)}, []state.Item{unlimited(gpuPool("a", 2))}, state.Quota{Unknown: "throttled"},
			map[string]string{"a": "NodePool a needs more than before of quotas that could not be read: throttled (guard.quota)"}},
		{"the quota could not be read, and a pool needs less of it", v1alpha1.QuotaHold, []state.Item{gpuPool("a", 2)}, []state.Item{gpuPool("a", 1)}, state.Quota{Unknown: "throttled"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", UID: "sync"}, Spec: v1alpha1.SyncSpec{Guard: v1alpha1.Guard{Quota: tt.policy}}}
			p := planned(sync, tt.live, tt.declared, tt.quota)
			var got map[string]string
			for _, c := range p.Changes {
				if c.Hold.Has(hold.QuotaExceeded) {
					if got == nil {
						got = map[string]string{}
					}
					got[c.Key.Name] = c.Hold.String()
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Fatalf("(-want +got):\n%s", d)
			}
			if len(got) == 0 {
				return
			}
			sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: p.Confirmation()}
			for _, c := range planned(sync, tt.live, tt.declared, tt.quota).Changes {
				if !c.Admitted() {
					t.Errorf("confirmed: %s is held: %s", c.Key, c.Hold)
				}
			}
		})
	}
}
