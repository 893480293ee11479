package offerings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
)

// The figures are part of what the sandbox promises: the same world every run.
func TestSpotPricesNeverChange(t *testing.T) {
	c := load(t)
	got := map[string]float64{}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		for _, zone := range zonesOf(t, region) {
			for _, name := range []string{"g4dn.xlarge", "t3.small", "p5.48xlarge"} {
				price, err := spotPrice(c, zone, name)
				if err != nil {
					t.Fatal(err)
				}
				got[zone.Name+" "+name] = price
			}
		}
	}
	want := map[string]float64{
		"eu-west-1a g4dn.xlarge": 0.1699,
		"eu-west-1a p5.48xlarge": 23.0264,
		"eu-west-1a t3.small":    0.0074,
		"eu-west-1b g4dn.xlarge": 0.1623,
		"eu-west-1b p5.48xlarge": 24.9671,
		"eu-west-1b t3.small":    0.0074,
		"eu-west-1c g4dn.xlarge": 0.1754,
		"eu-west-1c p5.48xlarge": 23.6581,
		"eu-west-1c t3.small":    0.0077,
		"us-east-1a g4dn.xlarge": 0.1629,
		"us-east-1a p5.48xlarge": 23.0326,
		"us-east-1a t3.small":    0.0076,
		"us-east-1b g4dn.xlarge": 0.1625,
		"us-east-1b p5.48xlarge": 22.714,
		"us-east-1b t3.small":    0.0079,
		"us-east-1c g4dn.xlarge": 0.1773,
		"us-east-1c p5.48xlarge": 24.6046,
		"us-east-1c t3.small":    0.0077,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}

func TestSpotPriceIsBelowOnDemandForEveryTypeAndZone(t *testing.T) {
	c := load(t)
	for _, region := range catalog.Regions() {
		for _, zone := range zonesOf(t, region) {
			for _, it := range c.Types() {
				price, err := spotPrice(c, zone, it.Name)
				if len(it.UsageClasses) == 1 || it.OnDemandUSD == 0 {
					if err == nil || !strings.Contains(err.Error(), it.Name) {
						t.Errorf("%s has no spot capacity or no price, but the error is %v", it.Name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if share := price / it.OnDemandUSD; share < 0.2 || share > 0.6 {
					t.Errorf("%s in %s: %v is %.2f of on-demand", it.Name, zone.Name, price, share)
				}
			}
		}
	}
}

func TestSpotPriceDiffersBetweenZonesAndKeepsTheOrderOfSizes(t *testing.T) {
	c := load(t)
	found := map[float64]bool{}
	for _, zone := range zonesOf(t, "us-east-1") {
		small, err1 := spotPrice(c, zone, "g5.xlarge")
		large, err2 := spotPrice(c, zone, "g5.48xlarge")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if small >= large {
			t.Errorf("in %s g5.xlarge costs %v and g5.48xlarge %v", zone.Name, small, large)
		}
		found[large] = true
	}
	if len(found) != 3 {
		t.Errorf("three zones have %d prices", len(found))
	}
}

func TestSpotPriceRefusesUnknownTypesAndRegions(t *testing.T) {
	c := load(t)
	if _, err := spotPrice(c, zonesOf(t, "eu-west-1")[0], "g4dn.tiny"); err == nil || !strings.Contains(err.Error(), `"g4dn.tiny"`) {
		t.Errorf("error is %v", err)
	}
	if _, err := spotPrice(c, catalog.Zone{Region: "cn-north-1", Name: "cn-north-1a"}, "g4dn.xlarge"); err == nil {
		t.Error("a zone in China has a price in dollars")
	}
}

func load(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func zonesOf(t *testing.T, region string) []catalog.Zone {
	t.Helper()
	zones, err := catalog.Zones(region)
	if err != nil {
		t.Fatal(err)
	}
	return zones
}
