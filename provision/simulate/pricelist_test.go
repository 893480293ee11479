package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// listedPrices is what AWS returned where it offers every type in two zones at the catalog's price, but for
// the changed ones, at a price of 0 those that no zone offers.
func listedPrices(tb testing.TB, changed map[string]float64) *pricelist.List {
	tb.Helper()
	at := time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)
	out := &pricelist.List{
		Region: "us-east-1", OnDemand: map[string]float64{}, OnDemandAt: at, SpotAt: at, ZonesAt: at, Zones: map[string][]string{},
		Spot: map[string]map[string]float64{"us-east-1a": {}, "us-east-1b": {}},
	}
	for _, t := range prices(tb).Types() {
		usd, isChanged := changed[t.Name]
		if !isChanged {
			usd = t.OnDemandUSD
		}
		switch {
		case isChanged && usd == 0:
			usd = 0.01 // The price list may have a type that no zone offers.
		case usd == 0:
			continue
		default:
			out.Zones[t.Name] = []string{"us-east-1a", "us-east-1b"}
		}
		out.OnDemand[t.Name] = usd
		out.Spot["us-east-1a"][t.Name], out.Spot["us-east-1b"][t.Name] = usd/2, usd/4
	}
	return out
}

func TestSumsByOldPricesAreApproximate(t *testing.T) {
	for name, c := range map[string]struct {
		age time.Duration
		old bool
	}{"a week": {7 * 24 * time.Hour, false}, "eight days": {8 * 24 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			snapshot := read(t, pool, class)
			snapshot.Cluster.Offerings = listedPrices(t, nil)
			run(&snapshot, "gpu", "one", time.Hour)
			snapshot.Now = snapshot.Cluster.Offerings.OnDemandAt.Add(c.age)
			got := compare(t, snapshot, snapshot).Cost
			if len(got.Prices) == 0 || got.Prices[0].Outdated != c.old || got.Approximate() != c.old {
				t.Errorf("%t, by %+v", got.Approximate(), got.Prices)
			}
		})
	}
}

func TestPricesAndOfferingsOfAWSPrecedeTheCatalog(t *testing.T) {
	date := "2026-11-24"
	onDemand := provision.Price{CapacityType: "on-demand", Basis: "price-list", Date: date}
	spot := provision.Price{CapacityType: "spot", Basis: "spot-price-history", Date: date}
	type bill struct {
		Now, After provision.Amount
		Prices     []provision.Price
	}
	now := provision.Amount{OnDemand: 1.578}
	tests := map[string]struct {
		changed  map[string]float64
		old, new string
		want     bill
	}{
		"a price that AWS changed is the one that nodes cost": {
			map[string]float64{"g4dn.xlarge": 0.7}, "x", "x", bill{provision.Amount{OnDemand: 2.1}, provision.Amount{OnDemand: 2.1}, []provision.Price{onDemand}}},
		"a changed price changes which type comes": {
			map[string]float64{"g5.xlarge": 0.1}, "[g4dn.xlarge, g5.xlarge]", "[g5.xlarge, g6.xlarge]", bill{now, provision.Amount{OnDemand: 0.3}, []provision.Price{onDemand}}},
		"a type that no zone offers does not come, although it is the cheapest": {
			map[string]float64{"g6.xlarge": 0}, "[g4dn.xlarge, g5.xlarge]", "[g5.xlarge, g6.xlarge]", bill{now, provision.Amount{OnDemand: 3.018}, []provision.Price{onDemand}}},
		"one is paid at most at the price of AWS's list while its own was not read": {
			map[string]float64{"g4dn.xlarge": 0.7, "": 0}, "values: [on-demand]", "values: [spot]", bill{provision.Amount{OnDemand: 2.1}, provision.Amount{SpotAtMost: 2.1}, []provision.Price{onDemand, {CapacityType: "spot", Basis: "unknown"}}}},
		"spot instances are at the price of the cheapest zone's history": {
			nil, "values: [on-demand]", "values: [spot]", bill{now, provision.Amount{Spot: 0.3945}, []provision.Price{onDemand, spot}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			before.Cluster.Offerings = listedPrices(t, tt.changed)
			before.Now = before.Cluster.Offerings.OnDemandAt
			if _, spotUnread := tt.changed[""]; spotUnread {
				before.Cluster.Offerings.SpotAt = time.Time{}
			}
			got := compare(t, before, read(t, strings.Replace(pool, tt.old, tt.new, 1), class)).Cost
			if diff := cmp.Diff(tt.want, bill{got.Now, got.After, got.Prices}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodFindsNoNodeOfATypeThatNoZoneOffers(t *testing.T) {
	for name, tt := range map[string]struct {
		changed     map[string]float64
		unscheduled int
	}{
		"offered":     {nil, 0},
		"not offered": {map[string]float64{"g5.xlarge": 0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t, pool, class)
			before.Cluster.Offerings = listedPrices(t, tt.changed)
			after := read(t, strings.Replace(pool, "[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", 1), class)
			pod(&before, "one", "")
			after.Pods = before.Pods
			if got := compare(t, before, after).PodScheduling.NewlyUnschedulable; len(got) != tt.unscheduled {
				t.Errorf("%d pods find no node, want %d: %v", len(got), tt.unscheduled, got)
			}
		})
	}
}
