package quota

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Against every way to serve small needs from small quotas: what leaves more of the needs unserved is found, and what
// needs no more of any quota is not.
func TestAQuotaIsNewlyExceededWhereMoreOfTheNeedsCannotBeServed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	names := []string{gOnDemand, gSpot, standardOnDemand}
	pool := func(name string) Pool {
		need := float64(1 + random.IntN(4))
		p := Pool{Name: name, cpus: &need, demands: map[string]demand{}}
		for len(p.demands) == 0 {
			for _, class := range names {
				if random.IntN(2) == 0 {
					p.demands[class] = demand{}
				}
			}
		}
		return p
	}
	worse := 0
	for range 2000 {
		limits := map[string]Limit{}
		for _, class := range names {
			limits[class] = Limit{VCPUs: random.Int64N(5), Used: random.Int64N(2)}
		}
		var before, after, lower []Pool
		for i := range 1 + random.IntN(3) {
			p := pool(fmt.Sprint("pool-", i))
			before = append(before, p)
			if random.IntN(2) == 0 {
				p = pool(p.Name)
			}
			after = append(after, p)
			less := *before[i].cpus - float64(random.IntN(int(*before[i].cpus)))
			lower = append(lower, Pool{Name: p.Name, cpus: &less, demands: before[i].demands})
		}
		found := NewlyExceeded(before, after, limits)
		if rises := unserved(after, limits) > unserved(before, limits); rises {
			worse++
			if len(found) == 0 {
				t.Fatalf("nothing is found from %+v to %+v of %+v", before, after, limits)
			}
		}
		if found := NewlyExceeded(before, lower, limits); len(found) > 0 {
			t.Fatalf("%+v is found from %+v to %+v of %+v", found, before, lower, limits)
		}
	}
	if worse < 200 {
		t.Errorf("only %d of 2000 were worse", worse)
	}
}

// unserved tries every way to take whole vCPUs of the first pool from the quotas, then of the others, and counts what
// is left over at best.
func unserved(pools []Pool, limits map[string]Limit) float64 {
	if len(pools) == 0 {
		return 0
	}
	p := pools[0]
	best := *p.cpus + unserved(pools[1:], limits)
	for class := range p.demands {
		l := limits[class]
		if *p.cpus == 0 || l.available() == 0 {
			continue
		}
		rest := *p.cpus - 1
		limits[class] = Limit{VCPUs: l.VCPUs - 1, Used: l.Used}
		best = min(best, unserved(append([]Pool{{Name: p.Name, cpus: &rest, demands: p.demands}}, pools[1:]...), limits))
		limits[class] = l
	}
	return best
}
