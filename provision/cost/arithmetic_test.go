package cost_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/provision/gpu"
)

// exact is a product of decimal numbers without a rounding.
func exact(factors ...float64) *big.Rat {
	out := big.NewRat(1, 1)
	for _, f := range factors {
		r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
		out.Mul(out, r)
	}
	return out
}

// within reports whether a figure is the exact one, rounded to so many decimals.
func within(got float64, want *big.Rat, decimals int) bool {
	value, _ := want.Float64()
	return math.Abs(got-value) <= 0.5*math.Pow10(-decimals)+1e-9
}

// checked holds what a node costs against the catalog's price by an arithmetic of its own.
type checked struct {
	*testing.T
	hours float64
	pool  cost.Pool
}

func (c checked) rate(what string, r *cost.Rate, price catalog.Price, n *cost.Node) {
	c.Helper()
	if r == nil {
		c.Errorf("%s: %s has no %s rate", c.pool.Name, n.InstanceType, what)
		return
	}
	if r.PerHour != price.USDPerHour || r.Basis != price.Basis || r.AtMost != price.AtMost || !within(r.PerMonth, exact(price.USDPerHour, 730), 2) {
		c.Errorf("%s: %s costs %+v %s, at %+v", c.pool.Name, n.InstanceType, *r, what, price)
	}
	if n.Shares == 0 && r.PerShare != 0 || n.Shares > 0 && !within(r.PerShare*float64(n.Shares), exact(price.USDPerHour), 4) {
		c.Errorf("%s: a share of %d of %s costs %g", c.pool.Name, n.Shares, n.InstanceType, r.PerShare)
	}
}

func (c checked) node(n *cost.Node, types *catalog.Catalog) {
	c.Helper()
	it, ok := types.Lookup(n.InstanceType)
	if !ok {
		c.Fatalf("there is no type %s", n.InstanceType)
	}
	shares := it.GPU.Count
	if c.pool.PluginConfig.Replicas > 0 && it.GPU.Manufacturer == "NVIDIA" {
		shares *= c.pool.PluginConfig.Replicas
	}
	if n.GPUs != it.GPU.Count || n.Shares != shares || (n.Sharing == "") != (shares == 0) {
		c.Errorf("%s: %s has %d GPUs and %d shares (%q), not %d and %d", c.pool.Name, n.InstanceType, n.GPUs, n.Shares, n.Sharing, it.GPU.Count, shares)
	}
	for capacity, rate := range map[string]*cost.Rate{"on-demand": n.OnDemand, "spot": n.Spot} {
		launched := slices.Contains(c.pool.Requirements[1].Values, capacity) && slices.Contains(it.UsageClasses, capacity)
		price, err := types.OnDemand("us-east-1", it.Name)
		price.AtMost = capacity == "spot"
		if launched && err == nil {
			c.rate(capacity, rate, price, n)
		} else if rate != nil {
			c.Errorf("%s: %s has a %s rate", c.pool.Name, it.Name, capacity)
		}
	}
	rate := n.OnDemand
	if n.CapacityType == "spot" {
		rate = n.Spot
	}
	if rate == nil {
		if n.PartTime != nil || n.Idle != nil {
			c.Errorf("%s: without a rate %s costs something", c.pool.Name, n.InstanceType)
		}
		return
	}
	part, idle := exact(rate.PerHour, 730, c.hours), exact(rate.PerHour, 730, float64(c.pool.Replicas))
	part.Quo(part, exact(24))
	if c.pool.ConsolidationDisabled && c.pool.Replicas == 0 {
		part, idle = exact(rate.PerHour, 730), exact(rate.PerHour, 730)
	}
	if !within(*n.PartTime, part, 2) || !within(*n.Idle, idle, 2) {
		c.Errorf("%s: %s at %g costs %g part-time and %g idle, not %s and %s", c.pool.Name, n.InstanceType, rate.PerHour, *n.PartTime, *n.Idle, part.FloatString(4), idle.FloatString(4))
	}
}

// A random walk of pools: each node's figures are those of the catalog's price by an exact
// arithmetic, and its row's ends are the least and the most of what the pool may launch.
func TestFiguresAreThoseOfAnExactArithmetic(t *testing.T) {
	all := types(t, "g4dn", "g5", "t3", "m5", "p4d", "g4ad")
	list := all.Types()
	r := rand.New(rand.NewPCG(23, 42))
	for range 300 {
		var names []string
		for range 1 + r.IntN(5) {
			names = append(names, list[r.IntN(len(list))].Name)
		}
		pool := cost.Pool{Name: "p", Requirements: requirements(kinds(names...), capacityTypes([][]string{{"spot"}, {"on-demand"}, {"on-demand", "spot"}}[r.IntN(3)]...)), Replicas: max(0, r.IntN(6)-3), ConsolidationDisabled: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			pool.PluginConfig = gpu.PluginConfig{Name: "x", Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 1 + r.IntN(20), Renamed: r.IntN(2) == 0}
		}
		if r.IntN(4) == 0 {
			pool.PluginConfig = gpu.PluginConfig{Name: "x", Strategy: gpu.StrategyMIG, Replicas: 3, MIGDevices: map[string]int{"1g.5gb": 2, "3g.20gb": 1}}
		}
		hours := float64(1+r.IntN(48)) / 2
		got := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: hours, Pools: []cost.Pool{pool}}, all)
		c := checked{t, hours, pool}
		counted := 0
		for _, row := range got.Pools {
			if row.Nodes != pool.Replicas || row.ConsolidationDisabled != (pool.ConsolidationDisabled && pool.Replicas == 0) {
				t.Errorf("a row of %+v is %+v", pool, row)
			}
			if row.Cheapest == nil {
				continue
			}
			counted += row.Types
			c.node(row.Cheapest, all)
			c.node(row.MostExpensive, all)
			c.ends(row, names, all)
		}
		slices.Sort(names)
		sold := slices.DeleteFunc(slices.Compact(names), func(name string) bool {
			it, _ := all.Lookup(name)
			desired := pool.Requirements[1].Values
			return !slices.ContainsFunc(desired, func(capacity string) bool { return slices.Contains(it.UsageClasses, capacity) })
		})
		if counted != len(sold) {
			t.Errorf("%d types of %v are counted", counted, sold)
		}
	}
}

// ends compares a row with each type of its kind by what the pool launches first.
func (c checked) ends(row cost.Row, names []string, all *catalog.Catalog) {
	c.Helper()
	hour := func(n *cost.Node) float64 {
		if n.CapacityType == "spot" && n.Spot != nil {
			return n.Spot.PerHour
		}
		if n.OnDemand != nil {
			return n.OnDemand.PerHour
		}
		return math.Inf(1)
	}
	for _, name := range names {
		it, _ := all.Lookup(name)
		if (it.GPU.Count > 0) != (row.For == "gpu") {
			continue
		}
		alone := c.pool
		alone.Requirements = requirements(kinds(name), c.pool.Requirements[1])
		for _, other := range cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: c.hours, Pools: []cost.Pool{alone}}, all).Pools {
			if other.Cheapest == nil || math.IsInf(hour(other.Cheapest), 1) {
				continue
			}
			if h := hour(other.Cheapest); h < hour(row.Cheapest) || h > hour(row.MostExpensive) {
				c.Errorf("%s at %g is outside of %s at %g to %s at %g", name, h, row.Cheapest.InstanceType, hour(row.Cheapest), row.MostExpensive.InstanceType, hour(row.MostExpensive))
			}
		}
	}
}

func TestAFigureAgreesWhenItIsRoundedOrCutOff(t *testing.T) {
	const price = 0.526 // of a g4dn.xlarge, as us-east-1 lists it
	stated := func(from, to float64, decimals int) cost.Range {
		return cost.Range{Min: from, Max: to, Decimals: decimals}
	}
	tests := map[string]struct {
		hours, month float64
		stated       cost.Range
		agrees       bool
		reasons      []string
	}{
		"to the cent":                            {100, 730, stated(52.6, 52.6, 2), true, nil},
		"in whole dollars, cut off":              {100, 730, stated(52, 52, 0), true, []string{"rounding"}},
		"in whole dollars, rounded":              {100, 730, stated(53, 53, 0), true, []string{"rounding"}},
		"three dollars too little":               {100, 730, stated(49, 49, 0), false, []string{"arithmetic"}},
		"three dollars too much":                 {100, 730, stated(56, 56, 0), false, []string{"arithmetic"}},
		"a cent too much, where cents are given": {100, 730, stated(52.61, 52.61, 2), false, []string{"arithmetic"}},
		"within a range":                         {100, 730, stated(50, 60, 0), true, []string{"range"}},
		"at the end of a range, cut off":         {100, 730, stated(40, 52, 0), true, []string{"range"}},
		"outside of a range":                     {100, 730, stated(60, 70, 0), false, []string{"arithmetic"}},
		"nothing for nothing":                    {0, 730, stated(0, 0, 0), true, nil},
		"of a month of 730 hours":                {720, 720, stated(383.98, 383.98, 2), false, []string{"hours"}},
		"of a month of 744 hours":                {730, 730, stated(391, 391, 0), false, []string{"hours"}},
		"of the month that it counts":            {730, 730, stated(383.98, 383.98, 2), true, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8, Document: &cost.Document{
				HoursPerMonth: tt.month, Prices: []cost.Quote{{InstanceType: "g4dn.xlarge", CapacityType: "on-demand", USDPerHour: price}},
				Scenarios: []cost.Scenario{{InstanceType: "g4dn.xlarge", CapacityType: "on-demand", Hours: tt.hours, Stated: tt.stated}},
			}}, types(t, "g4dn")).Document.Scenarios[0]
			var reasons []string
			for _, cause := range got.Causes {
				reasons = append(reasons, cause.Reason)
			}
			if diff := cmp.Diff(tt.reasons, reasons); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if got.MatchesStated != tt.agrees || !within(*got.Recomputed, exact(price, tt.hours), 2) || *got.Today != *got.Recomputed {
				t.Errorf("agrees %t, recomputed %g, today %g", got.MatchesStated, *got.Recomputed, *got.Today)
			}
			if near := min(max(*got.Today, tt.stated.Min), tt.stated.Max); math.Abs(got.Difference.USD-(*got.Today-near)) > 0.006 || (got.Difference.Percent == nil) != (near == 0) {
				t.Errorf("the difference is %+v of %g", got.Difference, near)
			}
		})
	}
}

func TestSavingsAreAgainstTheFirstScenario(t *testing.T) {
	one := func(usd float64) cost.Range { return cost.Range{Min: usd, Max: usd} }
	tests := map[string]struct {
		first, second, stated cost.Range
		quoted                bool
		recomputed            float64
		agrees                bool
	}{
		"half of it":                   {one(100), one(50), one(50), false, 50, true},
		"a third, cut off":             {one(300), one(200), one(33), false, 33.3, true},
		"a third, rounded up":          {one(300), one(200), one(34), false, 33.3, true},
		"not what is stated":           {one(100), one(80), one(50), false, 20, false},
		"nothing":                      {one(100), one(100), one(0), false, 0, true},
		"less than nothing":            {one(100), one(150), one(-50), false, -50, true},
		"of nothing":                   {one(0), one(50), one(0), false, 0, true},
		"by the middle of ranges":      {cost.Range{Min: 80, Max: 120}, cost.Range{Min: 20, Max: 30}, one(75), false, 75, true},
		"in a range":                   {one(100), one(30), cost.Range{Min: 60, Max: 80}, false, 70, true},
		"by the document's own prices": {one(1), one(2), one(50), true, 50, true},
		"by those, not what is stated": {one(100), one(20), one(80), true, 50, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			row := func(stated cost.Range, hours float64) cost.Scenario {
				return cost.Scenario{InstanceType: "x", CapacityType: "on-demand", Hours: hours, Stated: stated}
			}
			d := &cost.Document{HoursPerMonth: 730, Scenarios: []cost.Scenario{row(tt.first, 200), row(tt.second, 100)}}
			d.Scenarios[1].Saving = &tt.stated
			if tt.quoted {
				d.Prices = []cost.Quote{{InstanceType: "x", CapacityType: "on-demand", USDPerHour: 1}}
			}
			got := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8, Document: d}, types(t, "g4dn")).Document.Scenarios
			saving := got[1].Saving
			if saving == nil || saving.Recomputed != tt.recomputed || saving.MatchesStated != tt.agrees || saving.Today != nil {
				t.Errorf("%+v", saving)
			}
			named := slices.ContainsFunc(got[1].Causes, func(c cost.Cause) bool { return c.Reason == "saving" })
			if named == tt.agrees || got[0].Saving != nil {
				t.Errorf("the causes are %v", got[1].Causes)
			}
		})
	}
}

func TestWhatHasNoPriceIsNotEstimated(t *testing.T) {
	all := types(t, "g4dn", "p5")
	var unpriced string
	for _, it := range types(t).Types() {
		if it.OnDemandUSD == 0 && slices.Contains(it.UsageClasses, "on-demand") {
			unpriced = it.Name
		}
	}
	for name, tt := range map[string]struct {
		region string
		types  *catalog.Catalog
		pool   cost.Pool
	}{
		"a type without a price":     {"us-east-1", types(t), cost.Pool{Name: "p", Requirements: requirements(kinds(unpriced), capacityTypes("on-demand"))}},
		"any type of another region": {"mars-north-1", all, cost.Pool{Name: "p", Requirements: requirements(kinds("g4dn.xlarge"))}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cost.NewTable(cost.Query{Region: tt.region, HoursPerDay: 8, Pools: []cost.Pool{tt.pool}}, tt.types)
			n := got.Pools[0].Cheapest
			if n == nil || n.OnDemand != nil || n.Spot != nil || n.PartTime != nil || n.Idle != nil || len(got.Prices) > 0 {
				t.Errorf("%+v, by %v", n, got.Prices)
			}
		})
	}
	if got := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8}, all); got.Pools == nil || len(got.Pools)+len(got.Prices)+len(got.Notes) > 0 {
		t.Errorf("of no pool: %+v", got)
	}
}
