package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// fullTemplate makes a launch template that sets what DescribeInstances shows.
func (w *fixture) fullTemplate(t *testing.T, change func(*types.RequestLaunchTemplateData)) {
	t.Helper()
	data := &types.RequestLaunchTemplateData{
		ImageId: sdk.String(w.image(t, "x86_64", "standard")),
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: sdk.Int32(0), Groups: []string{w.group(t)},
				ConnectionTrackingSpecification: &types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: sdk.Int32(60), UdpTimeout: sdk.Int32(45)}},
			{DeviceIndex: sdk.Int32(1), NetworkCardIndex: sdk.Int32(1), InterfaceType: sdk.String("efa-only")},
		},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(4), DeleteOnTermination: sdk.Bool(true)}},
			{DeviceName: sdk.String("/dev/xvdb"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(200), VolumeType: "gp3", Encrypted: sdk.Bool(true), DeleteOnTermination: sdk.Bool(false)}},
		},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: sdk.Int32(2)},
		CpuOptions:      &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: "enabled"},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: "instance", Tags: tags("from", "template", "both", "template")},
			{ResourceType: "volume", Tags: tags("disk", "template")},
			{ResourceType: "network-interface", Tags: tags("nic", "template")},
			{ResourceType: "spot-instances-request", Tags: tags("spot", "template")},
		},
	}
	if change != nil {
		change(data)
	}
	ok(t, drop(w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("full"), LaunchTemplateData: data})))
}

// launched is the only instance, or the last of several.
func (w *fixture) launched(t *testing.T) types.Instance {
	t.Helper()
	out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	ok(t, err)
	return out.Reservations[len(out.Reservations)-1].Instances[0]
}

func TestAnInstanceShowsWhatItWasLaunchedWith(t *testing.T) {
	w := newFixture(t, nil)
	zones := w.subnets(t)
	w.fullTemplate(t, nil)
	in := fleet("full", "on-demand", 1, pool{"m7i.2xlarge", zones["us-east-1a"], 0})
	in.TagSpecifications[0].Tags = tags("both", "fleet")
	ok(t, drop(w.ec2.CreateFleet(t.Context(), in)))
	i := w.launched(t)
	if diff := cmp.Diff(map[string]string{"from": "template", "both": "fleet"}, describedTags(i.Tags)); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	m, c := i.MetadataOptions, i.CpuOptions
	if i.Hypervisor != "xen" || m.HttpTokens != "required" || *m.HttpPutResponseHopLimit != 2 || m.HttpEndpoint != "enabled" || m.State != "applied" ||
		*c.CoreCount != 4 || *c.ThreadsPerCore != 2 || c.NestedVirtualization != "enabled" || i.RootDeviceType != "ebs" || *i.RootDeviceName != "/dev/xvda" {
		t.Errorf("hypervisor %s, metadata %+v, CPU %+v", i.Hypervisor, m, c)
	}
	var disks []string
	for _, d := range i.BlockDeviceMappings {
		disks = append(disks, fmt.Sprint(*d.DeviceName, " ", d.Ebs.Status, " ", *d.Ebs.DeleteOnTermination))
	}
	if diff := cmp.Diff([]string{"/dev/xvda attached true", "/dev/xvdb attached false"}, disks); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	if len(i.NetworkInterfaces) != 2 {
		t.Fatalf("%d interfaces", len(i.NetworkInterfaces))
	}
	first, second := i.NetworkInterfaces[0], i.NetworkInterfaces[1]
	if *first.Attachment.DeviceIndex != 0 || *first.Attachment.NetworkCardIndex != 0 || *first.ConnectionTrackingConfiguration.TcpEstablishedTimeout != 60 ||
		*first.ConnectionTrackingConfiguration.UdpTimeout != 45 || *first.PrivateIpAddress != *i.PrivateIpAddress || first.Association != nil || i.PublicIpAddress != nil || *first.Groups[0].GroupId != w.group(t) {
		t.Errorf("first interface %+v", first)
	}
	if *second.Attachment.DeviceIndex != 1 || *second.Attachment.NetworkCardIndex != 1 || *second.InterfaceType != "efa-only" || second.PrivateIpAddress != nil || second.Association != nil {
		t.Errorf("second interface %+v", second)
	}
}

func TestAPublicAddressComesFromTheSubnetOrTheLaunch(t *testing.T) {
	for name, tt := range map[string]struct {
		subnet   string // a tag of it
		requests *bool
		want     bool
	}{
		"a private subnet gives none":           {"kubernetes.io/role/internal-elb", nil, false},
		"a public subnet gives one":             {"kubernetes.io/role/elb", nil, true},
		"the launch requests none":              {"kubernetes.io/role/elb", sdk.Bool(false), false},
		"the launch requests one where is none": {"kubernetes.io/role/internal-elb", sdk.Bool(true), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			w.fullTemplate(t, func(d *types.RequestLaunchTemplateData) {
				d.NetworkInterfaces = d.NetworkInterfaces[:1]
				d.NetworkInterfaces[0].AssociatePublicIpAddress = tt.requests
			})
			subnets, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: filters("tag-key", tt.subnet)})
			ok(t, err)
			ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("full", "on-demand", 1, pool{"m5.large", *subnets.Subnets[0].SubnetId, 0}))))
			i := w.launched(t)
			if (i.PublicIpAddress != nil) != tt.want {
				t.Fatalf("public address %s", sdk.ToString(i.PublicIpAddress))
			}
			if tt.want && (*i.NetworkInterfaces[0].Association.PublicIp != *i.PublicIpAddress || !strings.HasPrefix(*i.PublicDnsName, "ec2-198-18-0-0.compute-1.")) {
				t.Errorf("%s is %s, of the interface %+v", *i.PublicIpAddress, *i.PublicDnsName, i.NetworkInterfaces[0].Association)
			}
		})
	}
}

func TestVolumesAndInterfacesLiveAsLongAsTheyShould(t *testing.T) {
	w := newFixture(t, nil)
	zones := w.subnets(t)
	w.fullTemplate(t, nil)
	ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("full", "spot", 1, pool{"m5.large", zones["us-east-1b"], 0}))))
	id := *w.launched(t).InstanceId
	show := func() (disks, nics []string) {
		t.Helper()
		v, err := w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: filters("tag:disk", "template")})
		ok(t, err)
		for _, d := range v.Volumes {
			disks = append(disks, fmt.Sprint(*d.Size, d.VolumeType, d.State, *d.Encrypted, len(d.Attachments)))
		}
		slices.Sort(disks)
		n, err := w.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{Filters: filters("attachment.instance-id", id)})
		ok(t, err)
		for _, i := range n.NetworkInterfaces {
			nics = append(nics, fmt.Sprint(i.InterfaceType, *i.Attachment.NetworkCardIndex, describedTags(i.TagSet)))
		}
		slices.Sort(nics)
		return disks, nics
	}
	disks, nics := show()
	if !slices.Equal(disks, []string{"200gp3in-usetrue 1", "4gp2in-usefalse 1"}) || !slices.Equal(nics, []string{"efa-only1 map[nic:template]", "interface0 map[nic:template]"}) {
		t.Errorf("volumes %q, interfaces %q", disks, nics)
	}
	spots, err := w.ec2.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{Filters: filters("instance-id", id)})
	ok(t, err)
	if len(spots.SpotInstanceRequests) != 1 || spots.SpotInstanceRequests[0].State != "active" || describedTags(spots.SpotInstanceRequests[0].Tags)["spot"] != "template" {
		t.Errorf("spot requests %+v", spots.SpotInstanceRequests)
	}
	ok(t, w.cloud.Terminate(id))
	w.clock.advance(10 * time.Second)
	disks, nics = show()
	if !slices.Equal(disks, []string{"200gp3availabletrue 0"}) || len(nics) != 0 {
		t.Errorf("after the end: volumes %q, interfaces %q", disks, nics)
	}
	spots, err = w.ec2.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*spots.SpotInstanceRequests[0].SpotInstanceRequestId}})
	ok(t, err)
	if spots.SpotInstanceRequests[0].State != "closed" || *spots.SpotInstanceRequests[0].Status.Code != "instance-terminated-by-user" {
		t.Errorf("spot request %+v", spots.SpotInstanceRequests[0])
	}
}

func TestPartitionsAreFilledEvenly(t *testing.T) {
	for name, tt := range map[string]struct {
		chosen *int32
		byName bool
		want   []string
	}{
		"none chosen":                {nil, false, []string{"1", "1", "2", "2", "3"}},
		"none chosen, group by name": {nil, true, []string{"1", "1", "2", "2", "3"}},
		"one chosen":                 {sdk.Int32(2), false, []string{"2", "2", "2", "2", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			group, err := w.cloud.AddPlacementGroup(sandboxaws.PlacementGroup{Name: "spread-out", Strategy: "partition", Partitions: 3})
			ok(t, err)
			w.fullTemplate(t, func(d *types.RequestLaunchTemplateData) {
				d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: &group, PartitionNumber: tt.chosen}
				if tt.byName {
					d.Placement.GroupId, d.Placement.GroupName = nil, sdk.String("spread-out")
				}
			})
			ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("full", "on-demand", 5, pool{"m5.large", w.subnets(t)["us-east-1a"], 0}))))
			out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
			ok(t, err)
			var got []string
			for _, r := range out.Reservations {
				p := r.Instances[0].Placement
				got = append(got, fmt.Sprint(*p.PartitionNumber))
				if *p.GroupName != "spread-out" || *p.GroupId != group {
					t.Errorf("placement %+v", p)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("partitions %q, want %q", got, tt.want)
			}
		})
	}
}

func TestATemplateIsTaggedAsATemplateOnly(t *testing.T) {
	w := newFixture(t, nil)
	for kind, want := range map[types.ResourceType]string{"launch-template": "", "instance": "InvalidParameterValue", "volume": "InvalidParameterValue"} {
		_, err := w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("t-" + string(kind)),
			LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String(w.image(t, "x86_64", "standard"))},
			TagSpecifications:  []types.TagSpecification{{ResourceType: kind, Tags: tags("a", "b")}}})
		wantCode(t, err, want)
	}
}

func TestAFleetNamesTheVersionOfItsTemplate(t *testing.T) {
	w, zones := ready(t, nil)
	in := fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.Version = nil
	_, err := w.ec2.CreateFleet(t.Context(), in)
	wantCode(t, err, "MissingParameter")
	if n := len(w.cloud.Instances()); n != 0 {
		t.Errorf("%d instances were launched", n)
	}
}
