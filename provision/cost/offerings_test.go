package cost_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// returned is what AWS returned of eu-west-1.
func returned() *pricelist.List {
	at := time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)
	return &pricelist.List{
		Region: "eu-west-1", OnDemandAt: at, SpotAt: at, ZonesAt: at,
		OnDemand: map[string]float64{"g4dn.xlarge": 0.587, "g4dn.2xlarge": 0.838, "g4dn.4xlarge": 1.342},
		Spot: map[string]map[string]float64{
			"eu-west-1a": {"g4dn.xlarge": 0.2, "g4dn.2xlarge": 0.19}, "eu-west-1b": {"g4dn.xlarge": 0.18},
		},
		Zones: map[string][]string{"g4dn.xlarge": {"eu-west-1a", "eu-west-1b"}, "g4dn.2xlarge": {"eu-west-1a"}},
	}
}

func TestPricesAndOfferingsOfAWSPrecedeTheCatalog(t *testing.T) {
	all := types(t, "g4dn")
	zone := func(name string) []cost.Pool {
		return []cost.Pool{{Name: "p", Requirements: requirements(kinds("g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge"), capacityTypes("spot", "on-demand"), in("topology.kubernetes.io/zone", name))}}
	}
	type result struct {
		Types          int
		Cheapest       string
		OnDemand, Spot float64
		AtMost         bool
	}
	unread := returned()
	unread.SpotAt = time.Time{}
	elsewhere := returned()
	elsewhere.Region = "eu-west-2"
	for name, tt := range map[string]struct {
		list *pricelist.List
		zone string
		want result
	}{
		"the cheapest type by the spot prices of the zone": {returned(), "eu-west-1a", result{2, "g4dn.2xlarge", 0.838, 0.19, false}},
		"a type that the zone does not offer is not one":   {returned(), "eu-west-1b", result{1, "g4dn.xlarge", 0.587, 0.18, false}},
		"a zone that holds a variable may be any":          {returned(), "${REGION}a", result{2, "g4dn.xlarge", 0.587, 0.18, false}},
		"spot prices that were not read have a bound":      {unread, "eu-west-1a", result{2, "g4dn.xlarge", 0.587, 0.587, true}},
		"a list of another region is not this one's":       {elsewhere, "eu-west-1a", result{3, "g4dn.xlarge", 0.526, 0.526, true}},
	} {
		t.Run(name, func(t *testing.T) {
			row := cost.NewTable(cost.Query{Region: "eu-west-1", HoursPerDay: 8, Offerings: tt.list, Pools: zone(tt.zone)}, all).Pools[0]
			n := row.Cheapest
			if diff := cmp.Diff(tt.want, result{row.Types, n.InstanceType, n.OnDemand.PerHour, n.Spot.PerHour, n.Spot.AtMost}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestATableByPricesOfAWSNamesThemAndIsNotMarked(t *testing.T) {
	table := cost.NewTable(cost.Query{Region: "eu-west-1", HoursPerDay: 8, Offerings: returned(), Time: returned().OnDemandAt, Pools: pools()[:1]}, types(t, "g4dn", "g5"))
	want := []provision.Price{{CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-24"}, {CapacityType: "spot", Basis: "spot-price-history", Date: "2026-11-24"}}
	if diff := cmp.Diff(want, table.Prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	if err := table.Text(&out); err != nil || strings.Contains(out.String(), "≈") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
