package quota

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
)

// poolReader reads NodePools that are written as in a repository.
type poolReader struct {
	*testing.T
	Reader
}

func readers(t *testing.T) poolReader {
	t.Helper()
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return poolReader{t, NewReader(types)}
}

func (r poolReader) pool(name, limits string, requirements ...string) Pool {
	r.Helper()
	text := fmt.Sprintf(`{"spec":{"limits":%s,"template":{"spec":{"requirements":[%s]}}}}`, limits, strings.Join(requirements, ","))
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		r.Fatalf("%s: %v", text, err)
	}
	return r.Pool(name, "", object)
}

func (r poolReader) static(name, replicas string, requirements ...string) Pool {
	r.Helper()
	return r.pool(name, `{"nodes":1000},"replicas":`+replicas, requirements...)
}

const (
	onDemandOnly = `{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}`
	spotOnly     = `{"key":"karpenter.sh/capacity-type","operator":"NotIn","values":["on-demand","reserved"]}`
	xlarge       = `{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge"]}`
)

func family(names ...string) string {
	return fmt.Sprintf(`{"key":"karpenter.k8s.aws/instance-family","operator":"In","values":["%s"]}`, strings.Join(names, `","`))
}

func TestWhatOtherInstancesUseIsNotLeftForThePools(t *testing.T) {
	for name, c := range map[string]struct {
		taken int64
		want  []string
	}{
		"nothing":    {0, nil},
		"some of it": {4, []string{"NodePool web needs at least 64 vCPUs to reach its limit of 64 CPUs, the quota allows 64, less what other instances use: request a quota increase (quota code L) or lower the limit"}},
		"all of it":  {64, []string{"NodePool web can have no node: its smallest instance type m5.large has 2 vCPUs, the quota allows 64, less what other instances use: request a quota increase (quota code L)"}},
		"more":       {80, []string{"NodePool web can have no node: its smallest instance type m5.large has 2 vCPUs, the quota allows 64, less what other instances use: request a quota increase (quota code L)"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := readers(t).pool("web", `{"cpu":64}`, family("m5"), onDemandOnly)
			got := Exceeded([]Pool{p}, standardOnDemand, map[string]Limit{standardOnDemand: {Code: "L", VCPUs: 64, Used: c.taken}})
			if diff := cmp.Diff(c.want, texts(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func texts(of []ExceededQuota) []string {
	var out []string
	for _, s := range of {
		out = append(out, s.Text)
	}
	return out
}

func TestAnExceededQuotaHasItsNumbers(t *testing.T) {
	r := readers(t)
	limits := map[string]Limit{standardOnDemand: {Code: "L", VCPUs: 64}}
	web, api := r.pool("web", `{"cpu":60}`, family("m5"), onDemandOnly), r.pool("api", `{"cpu":20}`, family("m5"), onDemandOnly)
	for name, c := range map[string]struct {
		pools []Pool
		vcpus int64
		want  []ExceededQuota
	}{
		"two pools together":        {[]Pool{web, api}, 64, []ExceededQuota{{Quotas: []string{standardOnDemand}, Codes: []string{"L"}, Pools: []string{"web", "api"}, NeededVCPUs: 80, LimitVCPUs: 64}}},
		"a pool alone":              {[]Pool{web}, 32, []ExceededQuota{{Quotas: []string{standardOnDemand}, Codes: []string{"L"}, Pools: []string{"web"}, NeededVCPUs: 60, LimitVCPUs: 32}}},
		"a pool that can have none": {[]Pool{web}, 1, []ExceededQuota{{Quotas: []string{standardOnDemand}, Codes: []string{"L"}, Pools: []string{"web"}, NeededVCPUs: 2, LimitVCPUs: 1, SmallestType: "m5.large"}}},
	} {
		t.Run(name, func(t *testing.T) {
			limits[standardOnDemand] = Limit{Code: "L", VCPUs: c.vcpus}
			got := Exceeded(c.pools, standardOnDemand, limits)
			for i := range got {
				got[i].Text = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSentencesNameWhatIsExceeded(t *testing.T) {
	r := readers(t)
	limits := map[string]Limit{gOnDemand: {Code: "L-G", VCPUs: 2}, pOnDemand: {Code: "L-P", VCPUs: 12}}
	either := `{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge","p5.4xlarge"]}`
	for name, c := range map[string]struct {
		pool Pool
		g, p int64
		want string
	}{
		"each quota is smaller than the smallest type, and both are not": {r.pool("a", "{}", either, onDemandOnly), 3, 12,
			"NodePool a can have no node: its smallest instance type g5.xlarge has 4 vCPUs, none of the quotas has as many left: request a quota increase (quota codes L-G, L-P)"},
		"GPUs take different numbers of vCPUs": {r.pool("a", `{"nvidia.com/gpu":8}`, either, onDemandOnly), 8, 64,
			"NodePool a needs at least 80 vCPUs to reach its limit of 8 nvidia.com/gpu, the quotas allow 72 in all: request a quota increase (quota codes L-G, L-P) or lower the limit"},
		"a static pool": {r.static("a", "30", either, onDemandOnly), 8, 64,
			"NodePool a needs at least 168 vCPUs to reach its 30 replicas, the quotas allow 72 in all: request a quota increase (quota codes L-G, L-P) or lower spec.replicas"},
	} {
		limits[gOnDemand], limits[pOnDemand] = Limit{Code: "L-G", VCPUs: c.g}, Limit{Code: "L-P", VCPUs: c.p}
		if diff := cmp.Diff([]string{c.want}, texts(Exceeded([]Pool{c.pool}, gOnDemand, limits))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Against every way to divide small needs among small quotas.
func TestAQuotaIsExceededExactlyWhereTheNeedsCannotBeDivided(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	names := []string{gOnDemand, gSpot, standardOnDemand}
	short := 0
	for range 2000 {
		limits := map[string]Limit{}
		for _, name := range names {
			limits[name] = Limit{VCPUs: random.Int64N(5), Used: random.Int64N(2)}
		}
		var pools []Pool
		for i := range 1 + random.IntN(4) {
			need := float64(1 + random.IntN(4))
			p := Pool{Name: fmt.Sprint("pool-", i), cpus: &need, demands: map[string]demand{}}
			for len(p.demands) == 0 {
				for _, name := range names {
					if random.IntN(2) == 0 {
						p.demands[name] = demand{}
					}
				}
			}
			pools = append(pools, p)
		}
		possible := divides(pools, limits)
		alone := slices.ContainsFunc(pools, func(p Pool) bool { return !divides([]Pool{p}, limits) })
		found := len(exceedingPools(pools, limits)) > 0
		// One pool alone that is short is found by itself.
		if found && possible || !found && !possible && !alone {
			t.Fatalf("found %v, possible %v: %+v of %+v", found, possible, pools, limits)
		}
		if found {
			short++
		}
	}
	if short < 200 {
		t.Errorf("only %d of 2000 were short", short)
	}
}

// divides tries every way to take whole vCPUs of the first pool from the quotas, then of the others.
func divides(pools []Pool, limits map[string]Limit) bool {
	if len(pools) == 0 {
		return true
	}
	p := pools[0]
	if *p.cpus == 0 {
		return divides(pools[1:], limits)
	}
	rest := *p.cpus - 1
	p.cpus = &rest
	for name := range p.demands {
		l := limits[name]
		if l.available() == 0 {
			continue
		}
		limits[name] = Limit{VCPUs: l.VCPUs - 1, Used: l.Used}
		ok := divides(append([]Pool{p}, pools[1:]...), limits)
		limits[name] = l
		if ok {
			return true
		}
	}
	return false
}
