package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAQuotaIsNewlyExceededByWhatNeedsMoreThanBefore(t *testing.T) {
	r := readers(t)
	gpus := func(name, n string, requirements ...string) Pool {
		return r.pool(name, `{"nvidia.com/gpu":`+n+`}`, append(requirements, xlarge)...)
	}
	onDemand := func(name, n string) Pool { return gpus(name, n, onDemandOnly) }
	unlimited := func(name string) Pool { return r.pool(name, "{}", family("p5"), onDemandOnly) }
	limits := map[string]Limit{gOnDemand: {Code: "L-G", VCPUs: 64}, gSpot: {Code: "L-S", VCPUs: 64}, pOnDemand: {Code: "L-P"}}
	alone := func(needed int64, pool string) ExceededQuota {
		return ExceededQuota{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{pool}, IncreasedPools: []string{pool}, NeededVCPUs: needed, LimitVCPUs: 64}
	}
	together := func(needed int64, causing ...string) ExceededQuota {
		return ExceededQuota{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{"a", "b"}, IncreasedPools: causing, NeededVCPUs: needed, LimitVCPUs: 64}
	}
	unbound := func(pool string) ExceededQuota {
		out := alone(0, pool)
		out.Unlimited = true
		return out
	}
	for _, tt := range []struct {
		name          string
		before, after []Pool
		want          []ExceededQuota
	}{
		{"a pool within the quota is added", nil, []Pool{onDemand("a", "16")}, nil},
		{"a pool beyond the quota is added", nil, []Pool{onDemand("a", "17")}, []ExceededQuota{alone(68, "a")}},
		{"the limit of a pool is raised beyond the quota", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "17")}, []ExceededQuota{alone(68, "a")}},
		{"the limit of a pool is raised that was short before", []Pool{onDemand("a", "17")}, []Pool{onDemand("a", "18")}, []ExceededQuota{alone(72, "a")}},
		{"the limit of a pool is lowered that is short still", []Pool{onDemand("a", "20")}, []Pool{onDemand("a", "18")}, nil},
		{"nothing changes where one is short", []Pool{onDemand("a", "17")}, []Pool{onDemand("a", "17")}, nil},
		{"a pool is added beside another, and both are beyond the quota", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "10"), onDemand("b", "8")}, []ExceededQuota{together(72, "b")}},
		{"two pools are added that are beyond the quota together", nil, []Pool{onDemand("a", "10"), onDemand("b", "8")}, []ExceededQuota{together(72, "a", "b")}},
		{"a pool is added where others were short before", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), onDemand("c", "1")},
			[]ExceededQuota{{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{"a", "b", "c"}, IncreasedPools: []string{"c"}, NeededVCPUs: 76, LimitVCPUs: 64}}},
		{"a pool of another quota is added where others were short before", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "16", spotOnly)}, nil},
		{"a pool of both quotas is added where one was short before, and the other has enough", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "16")}, nil},
		{"a pool of both quotas is added where one was short before, and the other has less", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "17")},
			[]ExceededQuota{{Quotas: []string{gSpot, gOnDemand}, Codes: []string{"L-S", "L-G"}, Pools: []string{"a", "b", "c"}, IncreasedPools: []string{"c"}, NeededVCPUs: 140, LimitVCPUs: 128}}},
		{"capacity moves from one pool to another where both are short", []Pool{onDemand("a", "10"), onDemand("b", "8")}, []Pool{onDemand("a", "8"), onDemand("b", "10")}, nil},
		{"a pool that is short gets another name", []Pool{onDemand("a", "17")}, []Pool{onDemand("b", "17")}, nil},
		{"a pool of both quotas is restricted to one", []Pool{gpus("a", "17")}, []Pool{onDemand("a", "17")}, []ExceededQuota{alone(68, "a")}},
		{"a pool without a limit is added that can have no node", nil, []Pool{unlimited("p")},
			[]ExceededQuota{{Quotas: []string{pOnDemand}, Codes: []string{"L-P"}, Pools: []string{"p"}, IncreasedPools: []string{"p"}, NeededVCPUs: 16, SmallestType: "p5.4xlarge"}}},
		{"a pool without a limit could have no node before", []Pool{unlimited("p")}, []Pool{unlimited("p")}, nil},
		{"a pool without a limit is added where others are short", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), r.pool("c", "{}", xlarge, onDemandOnly)}, nil},
		{"a pool is removed", []Pool{onDemand("a", "17"), onDemand("b", "8")}, []Pool{onDemand("a", "17")}, nil},
		{"a pool that is short alone is not named again together with others", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "10"), onDemand("b", "17")}, []ExceededQuota{alone(68, "b")}},
		{"a pool loses its last limit", []Pool{onDemand("a", "1")}, []Pool{r.pool("a", "{}", xlarge, onDemandOnly)}, []ExceededQuota{unbound("a")}},
		{"a pool loses its last limit that counts", []Pool{onDemand("a", "1")}, []Pool{r.pool("a", `{"memory":"1Ti"}`, xlarge, onDemandOnly)}, []ExceededQuota{unbound("a")}},
		{"a pool whose limit is 0 loses it", []Pool{onDemand("a", "0")}, []Pool{r.pool("a", "{}", xlarge, onDemandOnly)}, []ExceededQuota{unbound("a")}},
		{"a pool loses its last limit beside one without a limit", []Pool{onDemand("a", "1"), r.pool("b", "{}", xlarge, onDemandOnly)}, []Pool{r.pool("a", "{}", xlarge, onDemandOnly), r.pool("b", "{}", xlarge, onDemandOnly)}, []ExceededQuota{unbound("a")}},
		{"a pool with another limit loses one", []Pool{r.pool("a", `{"cpu":64,"nvidia.com/gpu":1}`, xlarge, onDemandOnly)}, []Pool{r.pool("a", `{"cpu":64}`, xlarge, onDemandOnly)}, nil},
		{"a pool without a limit gets one beyond the quota", []Pool{r.pool("a", "{}", xlarge, onDemandOnly)}, []Pool{onDemand("a", "17")}, nil},
		{"a pool without a limit gets one that is beyond the quota with another's", []Pool{r.pool("a", "{}", xlarge, onDemandOnly), onDemand("b", "8")}, []Pool{onDemand("a", "10"), onDemand("b", "8")}, nil},
		{"a static pool beyond the quota is added", nil, []Pool{r.static("a", "17", xlarge, onDemandOnly)}, []ExceededQuota{alone(68, "a")}},
		{"a static pool gets more replicas than the quota allows", []Pool{r.static("a", "2", xlarge, onDemandOnly)}, []Pool{r.static("a", "17", xlarge, onDemandOnly)}, []ExceededQuota{alone(68, "a")}},
		{"a static pool gets as many replicas as the quota allows", []Pool{r.static("a", "2", xlarge, onDemandOnly)}, []Pool{r.static("a", "16", xlarge, onDemandOnly)}, nil},
		{"a static pool is added that is beyond the quota with another", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "10"), r.static("b", "8", xlarge, onDemandOnly)}, []ExceededQuota{together(72, "b")}},
		{"a limit of nodes is raised beyond the quota", []Pool{r.pool("a", `{"nodes":2}`, xlarge, onDemandOnly)}, []Pool{r.pool("a", `{"nodes":"17"}`, xlarge, onDemandOnly)}, []ExceededQuota{alone(68, "a")}},
		{"a limit of nodes is raised within the quota", []Pool{r.pool("a", `{"nodes":2}`, xlarge, onDemandOnly)}, []Pool{r.pool("a", `{"nodes":16}`, xlarge, onDemandOnly)}, nil},
		{"a quota is unknown", nil, []Pool{r.pool("a", `{"cpu":1000}`, family("m5"), onDemandOnly)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, NewlyExceeded(tt.before, tt.after, limits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExceededQuotaReportsThatOtherInstancesUseIt(t *testing.T) {
	pool := readers(t).pool("a", `{"cpu":64}`, family("m5"), onDemandOnly)
	got := NewlyExceeded(nil, []Pool{pool}, map[string]Limit{standardOnDemand: {VCPUs: 64, Used: 4}})
	if len(got) != 1 || !got[0].UsedByOthers || got[0].LimitVCPUs != 64 || got[0].NeededVCPUs != 64 {
		t.Errorf("%+v", got)
	}
}

// Of two quotas whose GPUs take different numbers of vCPUs, the number that is needed is more than both allow.
func TestWhatIsNeededExceedsWhatTheQuotasAllow(t *testing.T) {
	limits := map[string]Limit{gOnDemand: {VCPUs: 8}, pOnDemand: {VCPUs: 64}}
	pool := readers(t).pool("a", `{"nvidia.com/gpu":8}`, `{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge","p5.4xlarge"]}`, onDemandOnly)
	got := NewlyExceeded(nil, []Pool{pool}, limits)
	if len(got) != 1 || got[0].NeededVCPUs != 80 || got[0].LimitVCPUs != 72 {
		t.Errorf("%+v", got)
	}
}
