package report

import (
	"testing"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// byCatalog moves a pool from on-demand to spot, by the prices of the catalog, beside a pool of which one node has no price.
func byCatalog() *provision.Forecast {
	f := cheapening()
	gpu := provision.Cost{
		Now: provision.Amount{OnDemand: 4.848}, After: provision.Amount{SpotAtMost: 4.848}, Min: 1.212, MinAtMost: true,
		Max: new(24.8), MaxBefore: new(24.8), Prices: catalogPrices,
	}
	cpu := provision.Amount{OnDemand: 4, Unpriced: 1}
	f.Pools[0].Cost = provision.Cost{Now: cpu, After: cpu, MaxUnknown: true, MaxBeforeUnknown: true, Prices: catalogPrices[:1]}
	f.Pools[1].Cost = gpu
	f.Cost = gpu
	f.Cost.NonComputeNow = provision.NonCompute{Volumes: 0.1, PublicIPv4Unknown: true}
	f.Cost.NonComputeAfter = provision.NonCompute{Volumes: 0.25, PublicIPv4: 0.02, PublicIPv4Unknown: true}
	f.Cost.Now, f.Cost.After = provision.Amount{OnDemand: 8.848, Unpriced: 1}, provision.Amount{OnDemand: 4, SpotAtMost: 4.848, Unpriced: 1}
	f.Pools[0].Cost.UnpricedUnchanged, f.Cost.UnpricedUnchanged = 1, 1
	f.Cost.Max, f.Cost.MaxBefore, f.Cost.MaxUnknown, f.Cost.MaxBeforeUnknown = nil, nil, true, true
	return f
}

// priceless changes a pool of which neither the nodes nor the prices are known.
func priceless() *provision.Forecast {
	f := uncounted()
	unknown := provision.Cost{MaxUnknown: true, MaxBefore: new(12.4), MinUnknown: true, Prices: catalogPrices[:1]}
	f.Pools[1].Cost, f.Cost = unknown, unknown
	return f
}

func TestSumsThatAreNotKnownAreRanges(t *testing.T) {
	cost := func(now, after provision.Amount, unchanged float64, prices []provision.Price) provision.Cost {
		return provision.Cost{Now: now, After: after, SpotUnchanged: unchanged, Prices: prices}
	}
	spot := func(usd float64) provision.Amount { return provision.Amount{SpotAtMost: usd} }
	for name, tt := range map[string]struct {
		cost provision.Cost
		want string
	}{
		"prices of AWS are not marked": {cost(provision.Amount{}, provision.Amount{OnDemand: 1, Spot: 2}, 0, prices), "+$3.00/h (+$2.00 spot)"},
		"those of the catalog are":     {cost(provision.Amount{}, provision.Amount{OnDemand: 1}, 0, catalogPrices), "≈+$1.00/h"},
		"a spot instance more costs a tenth of its on-demand price or more": {
			cost(provision.Amount{}, spot(1), 0, catalogPrices), "≈+$0.10 to +$1.00/h (spot prices unknown)"},
		"spot in the place of on-demand saves nothing at worst": {
			cost(provision.Amount{OnDemand: 1}, spot(1), 0, catalogPrices), "≈−$0.90 to ±$0/h (spot prices unknown)"},
		"larger volumes are named apart from instances": {provision.Cost{NonComputeNow: provision.NonCompute{Volumes: 0.1}, NonComputeAfter: provision.NonCompute{Volumes: 0.25}, Prices: prices}, "volumes ≈+$0.15/h"},
		"spot instances that stay change nothing":       {cost(spot(4), spot(4), 4, catalogPrices), ""},
		"one of three that goes saves its own price": {
			cost(spot(3), spot(2), 2, catalogPrices), "≈−$1.00 to −$0.10/h (spot prices unknown)"},
		"another type at the same on-demand price may cost more or less": {
			cost(spot(1), spot(1), 0, catalogPrices), "≈−$0.90 to +$0.90/h (spot prices unknown)"},
		"nodes without a price that are replaced by some with one do not cost 12 dollars more": {
			cost(provision.Amount{Unpriced: 4}, provision.Amount{OnDemand: 12}, 0, prices), "cost change unknown (4 nodes without a price)"},
		"nodes with a price that are replaced by some without one do not save 12 dollars": {
			cost(provision.Amount{OnDemand: 12}, provision.Amount{Unpriced: 4}, 0, catalogPrices), "cost change unknown (4 nodes without a price)"},
		"nodes without a price that are replaced by others without one do not cost as much": {
			cost(provision.Amount{Unpriced: 1}, provision.Amount{Unpriced: 1}, 0, prices), "cost change unknown (1 node without a price)"},
		"nodes without a price that stay change nothing": {
			provision.Cost{Now: provision.Amount{OnDemand: 1, Unpriced: 4}, After: provision.Amount{OnDemand: 3, Unpriced: 4}, UnpricedUnchanged: 4, Prices: prices}, "+$2.00/h"},
	} {
		t.Run(name, func(t *testing.T) {
			v := forecast.View{Style: markup.PlainText()}
			got := ""
			for _, p := range v.Money(tt.cost) {
				got += p.Text
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
