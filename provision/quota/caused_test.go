package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAShortageIsCausedByWhatNeedsMoreThanBefore(t *testing.T) {
	r := readers(t)
	gpus := func(name, n string, requirements ...string) Pool {
		return r.pool(name, `{"nvidia.com/gpu":`+n+`}`, append(requirements, xlarge)...)
	}
	onDemand := func(name, n string) Pool { return gpus(name, n, onDemandOnly) }
	unlimited := func(name string) Pool { return r.pool(name, "{}", family("p5"), onDemandOnly) }
	limits := map[string]Limit{gOnDemand: {Code: "L-G", VCPUs: 64}, gSpot: {Code: "L-S", VCPUs: 64}, pOnDemand: {Code: "L-P"}}
	alone := func(needed int64, pool string) Shortage {
		return Shortage{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{pool}, Causing: []string{pool}, NeededVCPUs: needed, LimitVCPUs: 64}
	}
	together := func(needed int64, causing ...string) Shortage {
		return Shortage{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{"a", "b"}, Causing: causing, NeededVCPUs: needed, LimitVCPUs: 64}
	}
	for _, tt := range []struct {
		name          string
		before, after []Pool
		want          []Shortage
	}{
		{"a pool within the quota is added", nil, []Pool{onDemand("a", "16")}, nil},
		{"a pool beyond the quota is added", nil, []Pool{onDemand("a", "17")}, []Shortage{alone(68, "a")}},
		{"the limit of a pool is raised beyond the quota", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "17")}, []Shortage{alone(68, "a")}},
		{"the limit of a pool is raised that was short before", []Pool{onDemand("a", "17")}, []Pool{onDemand("a", "18")}, []Shortage{alone(72, "a")}},
		{"the limit of a pool is lowered that is short still", []Pool{onDemand("a", "20")}, []Pool{onDemand("a", "18")}, nil},
		{"nothing changes where one is short", []Pool{onDemand("a", "17")}, []Pool{onDemand("a", "17")}, nil},
		{"a pool is added beside another, and both are beyond the quota", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "10"), onDemand("b", "8")}, []Shortage{together(72, "b")}},
		{"two pools are added that are beyond the quota together", nil, []Pool{onDemand("a", "10"), onDemand("b", "8")}, []Shortage{together(72, "a", "b")}},
		{"a pool is added where others were short before", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), onDemand("c", "1")},
			[]Shortage{{Quotas: []string{gOnDemand}, Codes: []string{"L-G"}, Pools: []string{"a", "b", "c"}, Causing: []string{"c"}, NeededVCPUs: 76, LimitVCPUs: 64}}},
		{"a pool of another quota is added where others were short before", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "16", spotOnly)}, nil},
		{"a pool of both quotas is added where one was short before, and the other has enough", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "16")}, nil},
		{"a pool of both quotas is added where one was short before, and the other has less", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), gpus("c", "17")},
			[]Shortage{{Quotas: []string{gSpot, gOnDemand}, Codes: []string{"L-S", "L-G"}, Pools: []string{"a", "b", "c"}, Causing: []string{"c"}, NeededVCPUs: 140, LimitVCPUs: 128}}},
		{"capacity moves from one pool to another where both are short", []Pool{onDemand("a", "10"), onDemand("b", "8")}, []Pool{onDemand("a", "8"), onDemand("b", "10")}, nil},
		{"a pool that is short gets another name", []Pool{onDemand("a", "17")}, []Pool{onDemand("b", "17")}, nil},
		{"a pool of both quotas is restricted to one", []Pool{gpus("a", "17")}, []Pool{onDemand("a", "17")}, []Shortage{alone(68, "a")}},
		{"a pool without a limit is added that can have no node", nil, []Pool{unlimited("p")},
			[]Shortage{{Quotas: []string{pOnDemand}, Codes: []string{"L-P"}, Pools: []string{"p"}, Causing: []string{"p"}, NeededVCPUs: 16}}},
		{"a pool without a limit could have no node before", []Pool{unlimited("p")}, []Pool{unlimited("p")}, nil},
		{"a pool without a limit is added where others are short", []Pool{onDemand("a", "10"), onDemand("b", "8")},
			[]Pool{onDemand("a", "10"), onDemand("b", "8"), r.pool("c", "{}", xlarge, onDemandOnly)}, nil},
		{"a pool is removed", []Pool{onDemand("a", "17"), onDemand("b", "8")}, []Pool{onDemand("a", "17")}, nil},
		{"a pool that is short alone is not named again together with others", []Pool{onDemand("a", "10")}, []Pool{onDemand("a", "10"), onDemand("b", "17")}, []Shortage{alone(68, "b")}},
		{"a quota is unknown", nil, []Pool{r.pool("a", `{"cpu":1000}`, family("m5"), onDemandOnly)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Caused(tt.before, tt.after, limits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAShortageReportsThatOtherInstancesUseTheQuota(t *testing.T) {
	pool := readers(t).pool("a", `{"cpu":64}`, family("m5"), onDemandOnly)
	got := Caused(nil, []Pool{pool}, map[string]Limit{standardOnDemand: {VCPUs: 64, Taken: 4}})
	if len(got) != 1 || !got[0].OthersUse || got[0].LimitVCPUs != 64 || got[0].NeededVCPUs != 64 {
		t.Errorf("%+v", got)
	}
}
