package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnDemandReportsHowReliableAPriceIs(t *testing.T) {
	c := load(t)
	for name, tc := range map[string]struct {
		region, instance string
		want             Price
		err              string
	}{
		"us-east-1 is listed":               {region: "us-east-1", instance: "g4dn.xlarge", want: Price{0.526, Listed}},
		"another region gets us-east-1's":   {region: "ap-southeast-3", instance: "g4dn.xlarge", want: Price{0.526, OtherRegion}},
		"a region newer than the table too": {region: "eu-south-12", instance: "p5.48xlarge", want: Price{55.04, OtherRegion}},
		"China has its own list":            {region: "cn-north-1", instance: "g4dn.xlarge", err: `"cn-north-1"`},
		"GovCloud has its own list":         {region: "us-gov-west-1", instance: "g4dn.xlarge", err: `"us-gov-west-1"`},
		"a zone is no region":               {region: "us-east-1a", instance: "g4dn.xlarge", err: `"us-east-1a"`},
		"an empty text is no region":        {region: "", instance: "g4dn.xlarge", err: `""`},
		"a type sold elsewhere only":        {region: "us-east-1", instance: "p5e.48xlarge", err: `"p5e.48xlarge": no on-demand price of us-east-1 is published`},
		"the same elsewhere":                {region: "us-west-2", instance: "x8aedz.large", err: `"x8aedz.large": no on-demand price of us-east-1 is published`},
		"a type unknown":                    {region: "us-east-1", instance: "g4dn.tiny", err: `"g4dn.tiny"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.OnDemand(tc.region, tc.instance)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v does not say %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("price (-want +got):\n%s", diff)
			}
		})
	}
}

// The figures are part of what the sandbox promises: the same world every run.
func TestSpotEstimatesNeverChange(t *testing.T) {
	c := load(t)
	got := map[string]float64{}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		for _, zone := range zonesOf(t, region) {
			for _, name := range []string{"g4dn.xlarge", "t3.small", "p5.48xlarge"} {
				price, err := c.SpotEstimate(zone, name)
				if err != nil {
					t.Fatal(err)
				}
				got[zone.Name+" "+name] = price.USDPerHour
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
		t.Errorf("estimates (-want +got):\n%s", diff)
	}
}

func TestSpotEstimateIsBelowOnDemandForEveryTypeAndZone(t *testing.T) {
	c := load(t)
	for _, region := range Regions() {
		for _, zone := range zonesOf(t, region) {
			for _, it := range c.Types() {
				price, err := c.SpotEstimate(zone, it.Name)
				if len(it.UsageClasses) == 1 || it.OnDemandUSD == 0 {
					if err == nil || !strings.Contains(err.Error(), it.Name) {
						t.Errorf("%s has no spot capacity or no price, but the error is %v", it.Name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if share := price.USDPerHour / it.OnDemandUSD; share < 0.2 || share > 0.6 || price.Basis != Estimated {
					t.Errorf("%s in %s: %+v is %.2f of on-demand", it.Name, zone.Name, price, share)
				}
			}
		}
	}
}

func TestSpotEstimateDiffersBetweenZonesAndKeepsTheOrderOfSizes(t *testing.T) {
	c := load(t)
	seen := map[float64]bool{}
	for _, zone := range zonesOf(t, "us-east-1") {
		small, err1 := c.SpotEstimate(zone, "g5.xlarge")
		large, err2 := c.SpotEstimate(zone, "g5.48xlarge")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if small.USDPerHour >= large.USDPerHour {
			t.Errorf("in %s g5.xlarge costs %v and g5.48xlarge %v", zone.Name, small, large)
		}
		seen[large.USDPerHour] = true
	}
	if len(seen) != 3 {
		t.Errorf("three zones have %d prices", len(seen))
	}
}

func TestSpotEstimateRefusesUnknownTypesAndRegions(t *testing.T) {
	c := load(t)
	if _, err := c.SpotEstimate(zonesOf(t, "eu-west-1")[0], "g4dn.tiny"); err == nil || !strings.Contains(err.Error(), `"g4dn.tiny"`) {
		t.Errorf("error is %v", err)
	}
	if _, err := c.SpotEstimate(Zone{Region: "cn-north-1", Name: "cn-north-1a"}, "g4dn.xlarge"); err == nil {
		t.Error("a zone in China has a price in dollars")
	}
}

func zonesOf(t *testing.T, region string) []Zone {
	t.Helper()
	zones, err := Zones(region)
	if err != nil {
		t.Fatal(err)
	}
	return zones
}

func TestZonesHaveTheirIDs(t *testing.T) {
	want := map[string]string{
		"us-east-1": "use1", "us-east-2": "use2", "us-west-2": "usw2", "eu-west-1": "euw1",
		"eu-central-1": "euc1", "ap-southeast-3": "apse3", "ap-northeast-2": "apne2",
	}
	if len(Regions()) != len(want) {
		t.Errorf("regions are %q", Regions())
	}
	for region, short := range want {
		expected := []Zone{
			{region, region + "a", short + "-az1"},
			{region, region + "b", short + "-az2"},
			{region, region + "c", short + "-az3"},
		}
		if diff := cmp.Diff(expected, zonesOf(t, region)); diff != "" {
			t.Errorf("zones of %s (-want +got):\n%s", region, diff)
		}
	}
}

func TestZonesOfAnUnknownRegionNameTheKnownOnes(t *testing.T) {
	_, err := Zones("us-nowhere-1")
	if err == nil || !strings.Contains(err.Error(), `"us-nowhere-1"`) || !strings.Contains(err.Error(), "eu-west-1") {
		t.Errorf("error is %v", err)
	}
}
