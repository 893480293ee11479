package vpc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/vpc"
)

func (n network) interfaces(t *testing.T, in *ec2.DescribeNetworkInterfacesInput) []types.NetworkInterface {
	t.Helper()
	out, err := n.client.DescribeNetworkInterfaces(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.NetworkInterfaces
}

// launch attaches the interfaces of an instance with those launch parameters.
func (n network) launch(t *testing.T, instance, subnet, data string) (address string) {
	t.Helper()
	_, address = n.Attach(instance, n.clock.Now(), subnet, form(t, data), map[string]string{"instance": instance})
	return address
}

const (
	first  = "i-00000000000000001"
	second = "i-00000000000000002"
)

func TestAnInstanceTakesTheAddressesOfItsInterfaces(t *testing.T) {
	for name, tt := range map[string]struct {
		data string
		want int
	}{
		"without an interface, its own":       {"", 1},
		"of one interface":                    {"NetworkInterface.1.DeviceIndex=0", 1},
		"of two interfaces":                   {"NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.DeviceIndex=1", 2},
		"of EFA with IP":                      {"NetworkInterface.1.InterfaceType=efa", 1},
		"of EFA alone beside one with IP":     {"NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.InterfaceType=efa-only", 1},
		"secondary ones":                      {"NetworkInterface.1.SecondaryPrivateIpAddressCount=4", 5},
		"sixteen for a prefix":                {"NetworkInterface.1.Ipv4PrefixCount=2", 33},
		"both of a second interface":          {"NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.SecondaryPrivateIpAddressCount=1&NetworkInterface.2.Ipv4PrefixCount=1", 19},
		"of interfaces with gaps in numbers":  {"NetworkInterface.3.DeviceIndex=0&NetworkInterface.7.DeviceIndex=1", 2},
		"of an interface with IPv6 addresses": {"NetworkInterface.1.Ipv6AddressCount=3", 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			subnet := n.PrivateSubnets()[0]
			before := n.free(t, subnet)
			if got := vpc.Addresses(form(t, tt.data)); got != tt.want {
				t.Errorf("counts %d addresses, want %d", got, tt.want)
			}
			n.launch(t, first, subnet, tt.data)
			if got := before - n.free(t, subnet); got != int32(tt.want) {
				t.Errorf("took %d addresses, want %d", got, tt.want)
			}
			n.Detach(first, subnet, tt.want)
			if got := n.free(t, subnet); got != before || len(n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{})) != 0 {
				t.Errorf("after its end %d addresses are free, want %d", got, before)
			}
		})
	}
}

func TestAPublicAddressIsOfTheOnlyOrTheRequestedInterface(t *testing.T) {
	for name, tt := range map[string]struct {
		public bool // the subnet
		data   string
		want   []bool // by interface
	}{
		"a private subnet gives none":                      {false, "", []bool{false}},
		"a public subnet gives one":                        {true, "", []bool{true}},
		"the launch turns it down":                         {true, "NetworkInterface.1.AssociatePublicIpAddress=false", []bool{false}},
		"the launch requests it":                           {false, "NetworkInterface.1.AssociatePublicIpAddress=true", []bool{true}},
		"a public subnet gives none to several interfaces": {true, "NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.DeviceIndex=1", []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			subnet := n.PrivateSubnets()[0]
			if tt.public {
				subnet = n.PublicSubnet("us-east-1a")
			}
			n.launch(t, first, subnet, tt.data)
			var got []bool
			for _, i := range n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{}) {
				got = append(got, i.Association != nil)
				if a := i.Association; a != nil && (*a.PublicDnsName != "ec2-"+strings.ReplaceAll(*a.PublicIp, ".", "-")+".compute-1.amazonaws.com" || n.PublicName(*a.PublicIp) != *a.PublicDnsName) {
					t.Errorf("the public name of %s is %s", *a.PublicIp, *a.PublicDnsName)
				}
			}
			slices.SortFunc(got, func(a, b bool) int { return map[bool]int{true: -1}[a] - map[bool]int{true: -1}[b] })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("public addresses (-want +got):\n%s", diff)
			}
			elements, public := n.ByInstance()(first)
			if len(elements) != len(tt.want) || (public != "") != tt.want[0] {
				t.Errorf("the instance shows %d interfaces and the address %q", len(elements), public)
			}
		})
	}
}

func TestNoTwoInstancesHaveTheSameAddresses(t *testing.T) {
	n := newNetwork(t)
	subnet := n.PublicSubnet("us-east-1b")
	observed := map[string]bool{}
	for _, id := range []string{first, second, "i-00000000000000003"} {
		n.launch(t, id, subnet, "")
		n.launch(t, id+"0", n.PrivateSubnets()[0], "NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.DeviceIndex=1")
	}
	for _, i := range n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{}) {
		names := []string{*i.NetworkInterfaceId, *i.PrivateIpAddress, *i.PrivateDnsName, *i.Attachment.AttachmentId}
		if i.Association != nil {
			names = append(names, *i.Association.PublicIp)
		}
		for _, name := range names {
			if observed[name] {
				t.Errorf("%s is there twice", name)
			}
			observed[name] = true
		}
	}
	if len(observed) != 9*4+3 {
		t.Errorf("%d ids and addresses", len(observed))
	}
}

func TestAPrivateNameFollowsFromTheAddressAndTheRegion(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1":    "ip-10-0-1-2.ec2.internal",
		"us-west-2":    "ip-10-0-1-2.us-west-2.compute.internal",
		"eu-central-1": "ip-10-0-1-2.eu-central-1.compute.internal",
	} {
		zones, err := catalog.Zones(region)
		if err != nil {
			t.Fatal(err)
		}
		svc := vpc.New(&api.Account{Region: region}, nil, zones)
		if got := svc.PrivateName("10.0.1.2"); got != want {
			t.Errorf("in %s: %s, want %s", region, got, want)
		}
	}
}

func TestAnInterfaceShowsWhatItWasLaunchedWith(t *testing.T) {
	n := newNetwork(t)
	cluster, nodes := n.ClusterGroups()
	subnet := n.PrivateSubnets()[2]
	address := n.launch(t, first, subnet, "NetworkInterface.1.SecurityGroupId.1="+cluster+"&NetworkInterface.1.SecurityGroupId.2="+nodes+
		"&NetworkInterface.1.ConnectionTrackingSpecification.UdpTimeout=45&NetworkInterface.2.DeviceIndex=1&NetworkInterface.2.NetworkCardIndex=3&NetworkInterface.2.InterfaceType=efa-only")
	got := map[int32]types.NetworkInterface{}
	for _, i := range n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{}) {
		got[*i.Attachment.DeviceIndex] = i
	}
	var groups []string
	for _, g := range got[0].Groups {
		groups = append(groups, *g.GroupId)
	}
	if !slices.Equal(groups, []string{cluster, nodes}) || *got[0].PrivateIpAddress != address || *got[0].Attachment.NetworkCardIndex != 0 {
		t.Errorf("the first interface has the groups %q and the address %s", groups, *got[0].PrivateIpAddress)
	}
	if c := got[0].ConnectionTrackingConfiguration; c == nil || *c.UdpTimeout != 45 || c.UdpStreamTimeout != nil || c.TcpEstablishedTimeout != nil {
		t.Errorf("the first interface tracks connections by %+v", c)
	}
	efa := got[1]
	if efa.PrivateIpAddress != nil || len(efa.PrivateIpAddresses) != 0 || *efa.Attachment.NetworkCardIndex != 3 || efa.InterfaceType != "efa-only" || efa.ConnectionTrackingConfiguration != nil {
		t.Errorf("the interface of EFA alone: %+v", efa)
	}
	if len(efa.Groups) != 1 || *efa.Groups[0].GroupName != "default" {
		t.Errorf("an interface that names no group has %+v", efa.Groups)
	}
	for _, i := range got {
		if *i.SubnetId != subnet || *i.AvailabilityZone != "us-east-1c" || i.Status != "in-use" || *i.Attachment.InstanceId != first ||
			!i.Attachment.AttachTime.Equal(n.clock.Now()) || ec2test.TagMap(i.TagSet)["instance"] != first {
			t.Errorf("an interface of the instance: %+v", i)
		}
	}
}

func TestInterfacesAreChosenByFilters(t *testing.T) {
	n := newNetwork(t)
	_, nodes := n.ClusterGroups()
	address := n.launch(t, first, n.PrivateSubnets()[0], "NetworkInterface.1.SecurityGroupId.1="+nodes)
	n.launch(t, second, n.PrivateSubnets()[1], "NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.InterfaceType=efa-only")
	id := *n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{Filters: ec2test.Filters("attachment.instance-id", first)})[0].NetworkInterfaceId
	for name, tt := range map[string]struct {
		filters []string
		want    int
	}{
		"by instance":                    {[]string{"attachment.instance-id", second}, 2},
		"by id":                          {[]string{"network-interface-id", id}, 1},
		"by subnet":                      {[]string{"subnet-id", n.PrivateSubnets()[0]}, 1},
		"by zone":                        {[]string{"availability-zone", "us-east-1b"}, 2},
		"by VPC":                         {[]string{"vpc-id", n.ID()}, 3},
		"by group":                       {[]string{"group-id", nodes}, 1},
		"by address":                     {[]string{"private-ip-address", address}, 1},
		"by type":                        {[]string{"interface-type", "efa-only"}, 1},
		"by status":                      {[]string{"status", "in-use"}, 3},
		"by the status of none":          {[]string{"status", "available"}, 0},
		"by the status of an attachment": {[]string{"attachment.status", "attached"}, 3},
		"by a tag":                       {[]string{"tag:instance", second}, 2},
		"by instance and type":           {[]string{"attachment.instance-id", first, "interface-type", "efa-only"}, 0},
	} {
		if got := n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{Filters: ec2test.Filters(tt.filters...)}); len(got) != tt.want {
			t.Errorf("%s: %d interfaces, want %d", name, len(got), tt.want)
		}
	}
}

func TestInterfacesAreRefused(t *testing.T) {
	n := newNetwork(t)
	n.launch(t, first, n.PrivateSubnets()[0], "")
	id := *n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{})[0].NetworkInterfaceId
	for name, tt := range map[string]struct {
		in   ec2.DescribeNetworkInterfacesInput
		want string
	}{
		"one that is there":           {ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}}, ""},
		"one that is not there":       {ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id, "eni-0123456789abcdef0"}}, "InvalidNetworkInterfaceID.NotFound"},
		"an id of no form":            {ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-xyz"}}, "InvalidNetworkInterfaceId.Malformed"},
		"an id of another kind":       {ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{first}}, "InvalidNetworkInterfaceId.Malformed"},
		"ids in pages":                {ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}, MaxResults: sdk.Int32(5)}, "InvalidParameterCombination"},
		"too small a page":            {ec2.DescribeNetworkInterfacesInput{MaxResults: sdk.Int32(4)}, "InvalidParameterValue"},
		"a filter that there is not":  {ec2.DescribeNetworkInterfacesInput{Filters: ec2test.Filters("mood", "good")}, "InvalidParameterValue"},
		"a dry run, which is allowed": {ec2.DescribeNetworkInterfacesInput{DryRun: sdk.Bool(true)}, "DryRunOperation"},
	} {
		if got := ec2test.Code(n.client.DescribeNetworkInterfaces(t.Context(), &tt.in)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestACopyOfTheNetworkStaysAsItWas(t *testing.T) {
	n := newNetwork(t)
	subnet := n.PrivateSubnets()[0]
	n.launch(t, first, subnet, "")
	eni := *n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{})[0].NetworkInterfaceId
	_, nodes := n.ClusterGroups()
	before := n.Clone()
	free := before.FreeAddresses(subnet)
	for _, id := range []string{subnet, nodes, eni} {
		n.Tags(id)["later"] = "yes"
		if _, there := before.Tags(id)["later"]; there {
			t.Errorf("the copy's %s has a later tag", id)
		}
	}
	n.clock.Advance(time.Hour)
	n.launch(t, second, subnet, "")
	n.Detach(first, subnet, 1)
	if got := before.FreeAddresses(subnet); got != free || before.Tags(eni) == nil || n.Tags(eni) != nil {
		t.Errorf("the copy has %d free addresses, want %d, and the interface %v", got, free, before.Tags(eni))
	}
	if left := n.interfaces(t, &ec2.DescribeNetworkInterfacesInput{}); len(left) != 1 || *left[0].Attachment.InstanceId != second {
		t.Errorf("the end of an instance leaves the interfaces %+v", left)
	}
	if got := n.Tags("vpc-none"); got != nil {
		t.Errorf("something that is not there has the tags %v", got)
	}
}
