package offerings_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
)

// account has a few families of the catalogue, with the clock and the client of its EC2.
type account struct {
	*offerings.Service
	clock  *ec2test.Clock
	client *ec2.Client
}

func newAccount(t *testing.T) account {
	t.Helper()
	a, clock := ec2test.NewAccount()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	some, err := all.Subset("g5", "g5g", "m5", "p5", "p5e", "t2") // p5e has no list price
	if err != nil {
		t.Fatal(err)
	}
	svc, err := offerings.New(a, some)
	if err != nil {
		t.Fatal(err)
	}
	return account{svc, clock, ec2test.Client(a, svc.Operations())}
}

// described are all the types that pass filters, by name.
func (a account) described(t *testing.T, filters ...string) map[string]types.InstanceTypeInfo {
	t.Helper()
	out := map[string]types.InstanceTypeInfo{}
	for p := ec2.NewDescribeInstanceTypesPaginator(a.client, &ec2.DescribeInstanceTypesInput{Filters: ec2test.Filters(filters...)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(page.InstanceTypes) > 100 {
			t.Errorf("a page of %d", len(page.InstanceTypes))
		}
		for _, info := range page.InstanceTypes {
			out[string(info.InstanceType)] = info
		}
	}
	return out
}

// A filter finds just the types whose description has the value.
func TestTypesAreChosenByWhatTheirDescriptionHas(t *testing.T) {
	a := newAccount(t)
	all := a.described(t)
	if len(all) != len(a.Types()) {
		t.Fatalf("%d types are described of %d", len(all), len(a.Types()))
	}
	for name, tt := range map[string]struct {
		filter, value string
		has           func(types.InstanceTypeInfo) bool
	}{
		"by name":             {"instance-type", "g5.xlarge", func(i types.InstanceTypeInfo) bool { return i.InstanceType == "g5.xlarge" }},
		"by a part of a name": {"instance-type", "g5.*", func(i types.InstanceTypeInfo) bool { return i.InstanceType[:3] == "g5." }},
		"by architecture": {"processor-info.supported-architecture", "arm64", func(i types.InstanceTypeInfo) bool {
			return slices.Contains(i.ProcessorInfo.SupportedArchitectures, "arm64")
		}},
		"by one of two architectures": {"processor-info.supported-architecture", "i386", func(i types.InstanceTypeInfo) bool {
			return slices.Contains(i.ProcessorInfo.SupportedArchitectures, "i386")
		}},
		"by how it is sold":     {"supported-usage-class", "spot", func(i types.InstanceTypeInfo) bool { return slices.Contains(i.SupportedUsageClasses, "spot") }},
		"by blocks of capacity": {"supported-usage-class", "capacity-block", func(i types.InstanceTypeInfo) bool { return slices.Contains(i.SupportedUsageClasses, "capacity-block") }},
		"by its generation":     {"current-generation", "true", func(i types.InstanceTypeInfo) bool { return *i.CurrentGeneration }},
		"by a past generation":  {"current-generation", "false", func(i types.InstanceTypeInfo) bool { return !*i.CurrentGeneration }},
		"by bare metal":         {"bare-metal", "true", func(i types.InstanceTypeInfo) bool { return *i.BareMetal }},
		"by hypervisor":         {"hypervisor", "nitro", func(i types.InstanceTypeInfo) bool { return i.Hypervisor == "nitro" }},
		"by another hypervisor": {"hypervisor", "xen", func(i types.InstanceTypeInfo) bool { return i.Hypervisor == "xen" }},
		"by vCPUs":              {"vcpu-info.default-vcpus", "4", func(i types.InstanceTypeInfo) bool { return *i.VCpuInfo.DefaultVCpus == 4 }},
		"by memory":             {"memory-info.size-in-mib", "16384", func(i types.InstanceTypeInfo) bool { return *i.MemoryInfo.SizeInMiB == 16384 }},
		"by virtualization":     {"supported-virtualization-type", "hvm", func(i types.InstanceTypeInfo) bool { return slices.Contains(i.SupportedVirtualizationTypes, "hvm") }},
	} {
		got := a.described(t, tt.filter, tt.value)
		hits := 0
		for kind, info := range all {
			if _, found := got[kind]; found != tt.has(info) {
				t.Errorf("%s: %s is found: %t", name, kind, found)
			}
			if tt.has(info) {
				hits++
			}
		}
		if hits == 0 || len(got) != hits {
			t.Errorf("%s: %d types are found, want %d", name, len(got), hits)
		}
	}
}

func TestTypesAreDescribedByNameOrRefused(t *testing.T) {
	a := newAccount(t)
	for name, tt := range map[string]struct {
		in   ec2.DescribeInstanceTypesInput
		want int
		code string
	}{
		"by name":                           {in: ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"g5.xlarge", "m5.large"}}, want: 2},
		"by name and a filter that differs": {in: ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"g5.xlarge", "m5.large"}, Filters: ec2test.Filters("vcpu-info.default-vcpus", "4")}, want: 1},
		"by a name that is not there":       {in: ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"g5.xlarge", "z9.nano"}}, code: "InvalidInstanceType"},
		"by a pattern as if it were a name": {in: ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"g5.*"}}, code: "InvalidInstanceType"},
		"by a filter that there is not":     {in: ec2.DescribeInstanceTypesInput{Filters: ec2test.Filters("mood", "good")}, code: "InvalidParameterValue"},
		"by a tag, which no type has":       {in: ec2.DescribeInstanceTypesInput{Filters: ec2test.Filters("tag:a", "b")}, code: "InvalidParameterValue"},
		"in pages of fewer than five":       {in: ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(4)}, code: "InvalidParameterValue"},
		"in pages of five":                  {in: ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(5)}, want: 5},
		"as a dry run":                      {in: ec2.DescribeInstanceTypesInput{DryRun: sdk.Bool(true)}, code: "DryRunOperation"},
	} {
		out, err := a.client.DescribeInstanceTypes(t.Context(), &tt.in)
		got := 0
		if err == nil {
			got = len(out.InstanceTypes)
		}
		if code := ec2test.Code(out, err); code != tt.code || got != tt.want {
			t.Errorf("%s: %d types with %q, want %d with %q", name, got, code, tt.want, tt.code)
		}
	}
}

func TestTypesAreOfferedInLocations(t *testing.T) {
	a := newAccount(t)
	for name, tt := range map[string]struct {
		where   types.LocationType
		filters []string
		want    []string
		code    string
	}{
		"in the region by default":       {filters: []string{"instance-type", "g5.xlarge"}, want: []string{"us-east-1"}},
		"in the region":                  {where: "region", filters: []string{"instance-type", "g5.xlarge"}, want: []string{"us-east-1"}},
		"in zones":                       {where: "availability-zone", filters: []string{"instance-type", "g5.xlarge"}, want: []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
		"in zones by id":                 {where: "availability-zone-id", filters: []string{"instance-type", "g5.xlarge"}, want: []string{"use1-az1", "use1-az2", "use1-az3"}},
		"in one zone":                    {where: "availability-zone", filters: []string{"instance-type", "g5.xlarge", "location", "us-east-1b"}, want: []string{"us-east-1b"}},
		"in a zone by id as if by name":  {where: "availability-zone", filters: []string{"instance-type", "g5.xlarge", "location", "use1-az1"}},
		"of a type that there is not":    {where: "region", filters: []string{"instance-type", "z9.nano"}},
		"in Outposts, of which are none": {where: "outpost", code: "InvalidParameterValue"},
		"by a filter that there is not":  {filters: []string{"location-type", "region"}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{LocationType: tt.where, Filters: ec2test.Filters(tt.filters...)})
		var got []string
		if err == nil {
			for _, o := range out.InstanceTypeOfferings {
				got = append(got, *o.Location)
				if tt.where != "" && o.LocationType != tt.where || o.InstanceType != "g5.xlarge" {
					t.Errorf("%s: %+v", name, o)
				}
			}
		}
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
}

func TestZonesAreDescribedByNameOrID(t *testing.T) {
	a := newAccount(t)
	for name, tt := range map[string]struct {
		in   ec2.DescribeAvailabilityZonesInput
		want []string
		code string
	}{
		"all":                                   {want: []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
		"by name":                               {in: ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"us-east-1b"}}, want: []string{"us-east-1b"}},
		"by id":                                 {in: ec2.DescribeAvailabilityZonesInput{ZoneIds: []string{"use1-az3"}}, want: []string{"us-east-1c"}},
		"by a name and an id of one zone":       {in: ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"us-east-1a"}, ZoneIds: []string{"use1-az1"}}, want: []string{"us-east-1a"}},
		"by an id as if it were a name":         {in: ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"use1-az1"}}, code: "InvalidParameterValue"},
		"by a name as if it were an id":         {in: ec2.DescribeAvailabilityZonesInput{ZoneIds: []string{"us-east-1a"}}, code: "InvalidParameterValue"},
		"by a name of another region":           {in: ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"us-east-1a", "us-west-2a"}}, code: "InvalidParameterValue"},
		"by filters of a name and an id":        {in: ec2.DescribeAvailabilityZonesInput{Filters: ec2test.Filters("zone-name", "us-east-1a,us-east-1b", "zone-id", "use1-az2")}, want: []string{"us-east-1b"}},
		"by type, state, region and opt-in":     {in: ec2.DescribeAvailabilityZonesInput{Filters: ec2test.Filters("zone-type", "availability-zone", "state", "available", "region-name", "us-east-1", "opt-in-status", "opt-in-not-required", "zone-name", "*c")}, want: []string{"us-east-1c"}},
		"by the type of zones of which is none": {in: ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: sdk.Bool(true), Filters: ec2test.Filters("zone-type", "local-zone")}},
		"by a filter that there is not":         {in: ec2.DescribeAvailabilityZonesInput{Filters: ec2test.Filters("mood", "good")}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribeAvailabilityZones(t.Context(), &tt.in)
		var got []string
		if err == nil {
			for _, z := range out.AvailabilityZones {
				got = append(got, *z.ZoneName)
			}
		}
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
}

func TestSpotPricesAreThoseThatLaunchesCost(t *testing.T) {
	a := newAccount(t)
	now := a.clock.Now()
	for name, tt := range map[string]struct {
		in   ec2.DescribeSpotPriceHistoryInput
		want int
		code string
	}{
		"of one type and product":       {in: ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"}, ProductDescriptions: []string{"Linux/UNIX"}}, want: 3},
		"of one type and all products":  {in: ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"}}, want: 6},
		"in one zone":                   {in: ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"}, AvailabilityZone: sdk.String("us-east-1b")}, want: 2},
		"by filters":                    {in: ec2.DescribeSpotPriceHistoryInput{Filters: ec2test.Filters("instance-type", "g5.xlarge", "availability-zone", "us-east-1a", "product-description", "Linux/UNIX (Amazon VPC)")}, want: 1},
		"by the id of a zone":           {in: ec2.DescribeSpotPriceHistoryInput{Filters: ec2test.Filters("instance-type", "g5.xlarge", "availability-zone-id", "use1-az3")}, want: 2},
		"of a product that is not sold": {in: ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"}, ProductDescriptions: []string{"Windows"}}},
		"of the present":                {in: ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"}, StartTime: &now}, want: 6},
		"by a filter that there is not": {in: ec2.DescribeSpotPriceHistoryInput{Filters: ec2test.Filters("mood", "good")}, code: "InvalidParameterValue"},
		"in pages of none":              {in: ec2.DescribeSpotPriceHistoryInput{MaxResults: sdk.Int32(0)}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribeSpotPriceHistory(t.Context(), &tt.in)
		if code := ec2test.Code(out, err); code != tt.code {
			t.Errorf("%s: %q, want %q", name, code, tt.code)
			continue
		}
		if err != nil {
			continue
		}
		if len(out.SpotPriceHistory) != tt.want {
			t.Errorf("%s: %d prices, want %d", name, len(out.SpotPriceHistory), tt.want)
		}
		for _, p := range out.SpotPriceHistory {
			kind, err := a.Type(string(p.InstanceType))
			if err != nil {
				t.Fatal(err)
			}
			zone, _ := a.Zone(*p.AvailabilityZone)
			want, err := a.Price(kind, zone, offerings.Spot)
			full, full2 := a.Price(kind, zone, offerings.OnDemand)
			if err != nil || full2 != nil {
				t.Fatal(err, full2)
			}
			if got, err := strconv.ParseFloat(*p.SpotPrice, 64); err != nil || got-want > 1e-6 || want-got > 1e-6 || got <= 0 || got >= full || !p.Timestamp.Equal(now) || *p.AvailabilityZoneId != zone.ID {
				t.Errorf("%s: %s in %s for %s, want %f below %f", name, p.InstanceType, *p.AvailabilityZone, *p.SpotPrice, want, full)
			}
		}
	}
}

func TestOnlyWhatIsSoldAsSpotHasASpotPrice(t *testing.T) {
	a := newAccount(t)
	priced := map[types.InstanceType]bool{}
	for p := ec2.NewDescribeSpotPriceHistoryPaginator(a.client, &ec2.DescribeSpotPriceHistoryInput{MaxResults: sdk.Int32(50)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, quote := range page.SpotPriceHistory {
			priced[quote.InstanceType] = true
		}
	}
	unsold := 0
	for _, kind := range a.Types() {
		sold := offerings.Sold(kind, offerings.Spot) && kind.OnDemandUSD > 0
		if priced[types.InstanceType(kind.Name)] != sold {
			t.Errorf("%s has a spot price: %t, is sold so: %t", kind.Name, !sold, sold)
		}
		if !sold {
			unsold++
		}
		// What is reserved was bought on demand.
		if offerings.Sold(kind, offerings.Reserved) != offerings.Sold(kind, offerings.OnDemand) {
			t.Errorf("%s is sold on demand: %t, reserved: %t", kind.Name, offerings.Sold(kind, offerings.OnDemand), offerings.Sold(kind, offerings.Reserved))
		}
	}
	if unsold == 0 || unsold == len(a.Types()) {
		t.Errorf("%d of %d types have no spot price", unsold, len(a.Types()))
	}
}

func TestATypeAndAZoneAreFoundOrRefused(t *testing.T) {
	a := newAccount(t)
	for name, want := range map[string]string{"g5.xlarge": "", "z9.nano": "InvalidParameterValue", "": "InvalidParameterValue", "G5.XLARGE": "InvalidParameterValue"} {
		_, err := a.Type(name)
		code := ""
		if refused, ok := errors.AsType[*api.Error](err); ok {
			code = refused.Code
		}
		if code != want {
			t.Errorf("type %q: %q, want %q", name, code, want)
		}
	}
	for text, want := range map[string]string{"us-east-1a": "us-east-1a", "use1-az2": "us-east-1b", "us-west-2a": "", "": ""} {
		if z, found := a.Zone(text); found != (want != "") || z.Name != want {
			t.Errorf("zone %q: %+v, %t", text, z, found)
		}
	}
	if _, err := offerings.New(&api.Account{Region: "mars-1"}, nil); err == nil {
		t.Error("a region without zones sells something")
	}
	a.clock.Advance(time.Hour)
	out, err := a.client.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{MaxResults: sdk.Int32(1)})
	if err != nil || len(out.SpotPriceHistory) != 1 || !out.SpotPriceHistory[0].Timestamp.Equal(a.clock.Now()) {
		t.Errorf("an hour later: %+v, %v", out, err)
	}
}
