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
		"us-east-1 has its own prices":      {region: "us-east-1", instance: "g4dn.xlarge", want: Price{USDPerHour: 0.526, Basis: HomeRegion}},
		"another region gets us-east-1's":   {region: "ap-southeast-3", instance: "g4dn.xlarge", want: Price{USDPerHour: 0.526, Basis: OtherRegion}},
		"a region newer than the table too": {region: "eu-south-12", instance: "p5.48xlarge", want: Price{USDPerHour: 55.04, Basis: OtherRegion}},
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
