package pricelist_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
)

func TestWhatAListLacksIsTheOthers(t *testing.T) {
	first, second := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	onDemand := &pricelist.List{Region: "eu-west-1", OnDemand: map[string]float64{"g5.xlarge": 1.2}, OnDemandAt: first}
	whole := func(region string) *pricelist.List {
		return &pricelist.List{
			Region: region, OnDemand: map[string]float64{"g5.xlarge": 1.1}, OnDemandAt: second,
			Spot: map[string]map[string]float64{region + "a": {"g5.xlarge": 0.4}}, SpotAt: second,
			Zones: map[string][]string{"g5.xlarge": {region + "a"}}, ZonesAt: second,
		}
	}
	both := whole("eu-west-1")
	both.OnDemand, both.OnDemandAt = onDemand.OnDemand, first
	for name, c := range map[string]struct{ list, other, want *pricelist.List }{
		"nothing was read":                 {nil, nil, nil},
		"only the other was":               {nil, whole("eu-west-1"), whole("eu-west-1")},
		"only the first was":               {onDemand, nil, onDemand},
		"each part is of who read it":      {onDemand, whole("eu-west-1"), both},
		"the first goes before":            {whole("eu-west-1"), onDemand, whole("eu-west-1")},
		"one of another region is no help": {onDemand, whole("eu-west-2"), onDemand},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.list.Or(c.other)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if complete := got.Complete(); complete != (got != nil && !got.SpotAt.IsZero()) {
				t.Errorf("complete is %t of %+v", complete, got)
			}
		})
	}
}

func TestPricesAreOutdatedAfterSevenDays(t *testing.T) {
	read := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	list := &pricelist.List{OnDemandAt: read, SpotAt: read.Add(24 * time.Hour)}
	for name, c := range map[string]struct {
		list  *pricelist.List
		basis catalog.Basis
		after time.Duration
		want  bool
	}{
		"today's":                      {list, pricelist.OnDemand, 0, false},
		"of seven days ago":            {list, pricelist.OnDemand, 7 * 24 * time.Hour, false},
		"older ones":                   {list, pricelist.OnDemand, 7*24*time.Hour + 1, true},
		"spot prices of another day":   {list, pricelist.Spot, 7*24*time.Hour + 1, false},
		"older spot prices":            {list, pricelist.Spot, 8*24*time.Hour + 1, true},
		"the catalog's have a mark":    {list, catalog.HomeRegion, 365 * 24 * time.Hour, false},
		"of nothing that was read":     {nil, pricelist.OnDemand, 365 * 24 * time.Hour, false},
		"a clock that is behind AWS's": {list, pricelist.OnDemand, -time.Hour, false},
		"of tomorrow":                  {list, pricelist.OnDemand, -24 * time.Hour, false},
		"of a later day":               {list, pricelist.OnDemand, -24*time.Hour - 1, true},
		"spot prices of a later day":   {list, pricelist.Spot, -1, true},
	} {
		if got := c.list.IsOutdated(c.basis, read.Add(c.after)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhatWasNotReadIsNotKnownAndNotZero(t *testing.T) {
	var none *pricelist.List
	read := &pricelist.List{Region: "eu-west-1", OnDemandAt: time.Now(), SpotAt: time.Now(), ZonesAt: time.Now()}
	if _, known := none.OnDemandPrice("g5.xlarge"); known {
		t.Error("a price of a list that was not read is known")
	}
	if price, known := read.OnDemandPrice("g5.xlarge"); !known || price.USDPerHour != 0 {
		t.Errorf("AWS has no price of it, and it is %v, %t", price, known)
	}
	if _, known := none.SpotPrice("g5.xlarge", "eu-west-1a"); known {
		t.Error("a spot price of a list that was not read is known")
	}
	if !none.HasOffering("g5.xlarge", "eu-west-1a") || read.HasOffering("g5.xlarge", "eu-west-1a") {
		t.Error("a zone offers what it does not, or the other way round")
	}
}
