package vpc_test

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/vpc"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// network is the VPC of an account with the clock and the client of its EC2.
type network struct {
	*vpc.Service
	clock  *ec2test.Clock
	client *ec2.Client
}

func newNetwork(t *testing.T) network {
	t.Helper()
	account, clock := ec2test.NewAccount()
	zones, err := catalog.Zones(account.Region)
	if err != nil {
		t.Fatal(err)
	}
	svc := vpc.New(account, map[string]string{"karpenter.sh/discovery": "sandbox"}, zones)
	return network{svc, clock, ec2test.Client(account, svc.Operations())}
}

func (n network) subnets(t *testing.T, in *ec2.DescribeSubnetsInput) []types.Subnet {
	t.Helper()
	out, err := n.client.DescribeSubnets(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Subnets
}

// free is how many addresses a subnet has left.
func (n network) free(t *testing.T, id string) int32 {
	t.Helper()
	return *n.subnets(t, &ec2.DescribeSubnetsInput{SubnetIds: []string{id}})[0].AvailableIpAddressCount
}

func form(t *testing.T, text string) query.Form {
	t.Helper()
	f, err := query.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEveryZoneHasAPrivateAndAPublicSubnet(t *testing.T) {
	n := newNetwork(t)
	kinds := map[string][]bool{} // by zone: whether each subnet is public
	var ranges []netip.Prefix
	for _, s := range n.subnets(t, &ec2.DescribeSubnetsInput{}) {
		kinds[*s.AvailabilityZone] = append(kinds[*s.AvailabilityZone], *s.MapPublicIpOnLaunch)
		cidr := netip.MustParsePrefix(*s.CidrBlock)
		for _, other := range ranges {
			if cidr.Overlaps(other) {
				t.Errorf("%s and %s overlap", cidr, other)
			}
		}
		ranges = append(ranges, cidr)
		// AWS keeps five addresses of each subnet.
		if want := int32(1<<(32-cidr.Bits())) - 5; *s.AvailableIpAddressCount != want || cidr != cidr.Masked() {
			t.Errorf("subnet %s has %d free addresses, want %d", cidr, *s.AvailableIpAddressCount, want)
		}
		if zone, ok := n.SubnetZone(*s.SubnetId); !ok || zone.Name != *s.AvailabilityZone || zone.ID != *s.AvailabilityZoneId {
			t.Errorf("subnet %s is in %s (%s), not in %+v", *s.SubnetId, *s.AvailabilityZone, *s.AvailabilityZoneId, zone)
		}
		if tagged := ec2test.TagMap(s.Tags)["karpenter.sh/discovery"] == "sandbox"; tagged == *s.MapPublicIpOnLaunch {
			t.Errorf("subnet %s: public %t, with the discovery tag %t", *s.SubnetId, *s.MapPublicIpOnLaunch, tagged)
		}
		if public := n.PublicSubnet(*s.AvailabilityZone) == *s.SubnetId; public != *s.MapPublicIpOnLaunch || slices.Contains(n.PrivateSubnets(), *s.SubnetId) == public {
			t.Errorf("subnet %s is not listed as it is described: public %t", *s.SubnetId, *s.MapPublicIpOnLaunch)
		}
	}
	for zone, public := range kinds {
		slices.SortFunc(public, func(a, b bool) int { return map[bool]int{true: 1}[a] - map[bool]int{true: 1}[b] })
		kinds[zone] = public
	}
	if diff := cmp.Diff(map[string][]bool{"us-east-1a": {false, true}, "us-east-1b": {false, true}, "us-east-1c": {false, true}}, kinds); diff != "" {
		t.Errorf("whether the subnets of each zone are public (-want +got):\n%s", diff)
	}
	if got := n.PublicSubnet("us-west-2a"); got != "" {
		t.Errorf("a zone of another region has the subnet %s", got)
	}
}

func TestSubnetsAreChosenByFilters(t *testing.T) {
	for name, tt := range map[string]struct {
		filters []string
		want    int
	}{
		"by zone":             {[]string{"availability-zone", "us-east-1a"}, 2},
		"by the id of a zone": {[]string{"availability-zone-id", "use1-az2"}, 2},
		"by VPC":              {[]string{"vpc-id", "vpc-*"}, 6},
		"by another VPC":      {[]string{"vpc-id", "vpc-1"}, 0},
		"by range":            {[]string{"cidr-block", "10.0.0.0/18"}, 1},
		"by a range that only contains a subnet's": {[]string{"cidr-block", "10.0.0.0/16"}, 0},
		"by state":                        {[]string{"state", "available"}, 6},
		"by the state that none is in":    {[]string{"state", "pending"}, 0},
		"by free addresses":               {[]string{"available-ip-address-count", "4091"}, 3},
		"by whether addresses are public": {[]string{"map-public-ip-on-launch", "true"}, 3},
		"by two filters, which both hold": {[]string{"map-public-ip-on-launch", "true", "availability-zone", "us-east-1a"}, 1},
		"by a filter of two values":       {[]string{"availability-zone", "us-east-1a,us-east-1b"}, 4},
		"by a tag":                        {[]string{"tag:karpenter.sh/discovery", "sandbox"}, 3},
		"by the key of a tag":             {[]string{"tag-key", "kubernetes.io/role/elb"}, 3},
		"by a tag with another value":     {[]string{"tag:karpenter.sh/discovery", "other"}, 0},
		"by a value of another case":      {[]string{"availability-zone", "US-EAST-1A"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newNetwork(t).subnets(t, &ec2.DescribeSubnetsInput{Filters: ec2test.Filters(tt.filters...)}); len(got) != tt.want {
				t.Errorf("%d subnets, want %d", len(got), tt.want)
			}
		})
	}
}

func TestSubnetsAreDescribedByIDInPages(t *testing.T) {
	n := newNetwork(t)
	private := n.PrivateSubnets()
	two := n.subnets(t, &ec2.DescribeSubnetsInput{SubnetIds: private[:2], Filters: ec2test.Filters("availability-zone", "us-east-1a")})
	if len(two) != 1 || *two[0].SubnetId != private[0] {
		t.Errorf("of two ids a filter leaves %+v", two)
	}
	observed := map[string]int{}
	var sizes []int
	for p := ec2.NewDescribeSubnetsPaginator(n.client, &ec2.DescribeSubnetsInput{MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Subnets))
		for _, s := range page.Subnets {
			observed[*s.SubnetId]++
		}
	}
	if !slices.Equal(sizes, []int{5, 1}) || len(observed) != 6 {
		t.Errorf("pages of %d with %d subnets", sizes, len(observed))
	}
}

func TestASubnetIsModifiedOrRefused(t *testing.T) {
	yes := &types.AttributeBooleanValue{Value: sdk.Bool(true)}
	for name, tt := range map[string]struct {
		in     ec2.ModifySubnetAttributeInput
		refuse string
		want   bool
	}{
		"its instances get public addresses":     {in: ec2.ModifySubnetAttributeInput{MapPublicIpOnLaunch: yes}, want: true},
		"without an attribute":                   {refuse: "MissingParameter"},
		"a subnet that is not there":             {in: ec2.ModifySubnetAttributeInput{SubnetId: sdk.String("subnet-0123456789abcdef0"), MapPublicIpOnLaunch: yes}, refuse: "InvalidSubnetID.NotFound"},
		"an attribute that the sandbox does not": {in: ec2.ModifySubnetAttributeInput{MapCustomerOwnedIpOnLaunch: yes}, refuse: "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			id := n.PrivateSubnets()[1]
			if tt.in.SubnetId == nil {
				tt.in.SubnetId = &id
			}
			if got := ec2test.Code(n.client.ModifySubnetAttribute(t.Context(), &tt.in)); got != tt.refuse {
				t.Errorf("refused with %q, want %q", got, tt.refuse)
			}
			chosen := n.subnets(t, &ec2.DescribeSubnetsInput{SubnetIds: []string{id}, Filters: ec2test.Filters("map-public-ip-on-launch", strconv.FormatBool(tt.want))})
			if len(chosen) != 1 || *chosen[0].MapPublicIpOnLaunch != tt.want {
				t.Errorf("by whether its instances get public addresses, %t: %+v", tt.want, chosen)
			}
		})
	}
}

func TestFreeAddressesAreSetWithinReason(t *testing.T) {
	n := newNetwork(t)
	id := n.PrivateSubnets()[0]
	for name, tt := range map[string]struct {
		id   string
		free int
		ok   bool
	}{
		"none":                    {id, 0, true},
		"some":                    {id, 7, true},
		"fewer than none":         {id, -1, false},
		"of a subnet not there":   {"subnet-1", 7, false},
		"of a subnet without one": {"", 0, false},
	} {
		before := n.FreeAddresses(tt.id)
		err := n.SetFreeAddresses(tt.id, tt.free)
		want := before
		if tt.ok {
			want = tt.free
		}
		if (err == nil) != tt.ok || n.FreeAddresses(tt.id) != want {
			t.Errorf("%s: %v, %d are free", name, err, n.FreeAddresses(tt.id))
		}
	}
}
