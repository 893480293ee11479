package aws_test

import (
	"math"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// ready is a fixture with the template "gpu" for NVIDIA nodes.
func ready(t *testing.T, change func(*sandboxaws.Config)) (*fixture, map[string]string) {
	t.Helper()
	w := newFixture(t, change)
	w.template(t, "gpu", w.image(t, "x86_64", "nvidia"))
	return w, w.subnets(t)
}

func TestAFleetTakesTheBestPoolWithRoom(t *testing.T) {
	const a, b, c = "us-east-1a", "us-east-1b", "us-east-1c"
	none := func(kind, zone, capacityType string) func(*sandboxaws.Cloud) error {
		return func(cloud *sandboxaws.Cloud) error {
			return cloud.SetCapacity(sandboxaws.Offering{Type: kind, Zone: zone, CapacityType: capacityType}, 0)
		}
	}
	bound := func(kind, zone string, n int) func(*sandboxaws.Cloud) error {
		return func(cloud *sandboxaws.Cloud) error {
			return cloud.SetCapacity(sandboxaws.Offering{Type: kind, Zone: zone}, n)
		}
	}
	refuse := func(o sandboxaws.Offering, code string) func(*sandboxaws.Cloud) error {
		return func(cloud *sandboxaws.Cloud) error { return cloud.Refuse(o, code) }
	}
	for _, tt := range []struct {
		name   string
		limits []func(*sandboxaws.Cloud) error
		// notOffered are the zones that do not offer a type.
		notOffered map[string][]string
		capacity   string
		n          int32
		pools      []pool // subnet holds the zone
		strategy   string
		want       []string
	}{
		{name: "the cheapest type wins, not the lowest priority", capacity: "on-demand", n: 1,
			pools: []pool{{"g5.xlarge", a, 0}, {"g4dn.xlarge", a, 5}}, want: []string{"1 g4dn.xlarge a on-demand"}},
		{name: "with the prioritized strategy the lowest priority wins", capacity: "on-demand", n: 1, strategy: "prioritized",
			pools: []pool{{"g4dn.xlarge", a, 5}, {"g5.xlarge", a, 0}}, want: []string{"1 g5.xlarge a on-demand"}},
		{name: "of many nodes all come at once", capacity: "spot", n: 7,
			pools: []pool{{"g4dn.xlarge", b, 0}}, want: []string{"7 g4dn.xlarge b spot"}},
		{name: "no capacity in one zone takes the next", limits: []func(*sandboxaws.Cloud) error{none("g4dn.xlarge", a, "on-demand")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g4dn.xlarge", b, 0}}, want: []string{"1 g4dn.xlarge b on-demand", "InsufficientInstanceCapacity g4dn.xlarge a"}},
		{name: "capacity of one type is not that of another", limits: []func(*sandboxaws.Cloud) error{none("g4dn.xlarge", "", "spot")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}}, want: []string{"1 g4dn.xlarge a on-demand"}},
		{name: "a fleet is filled in part from two pools", limits: []func(*sandboxaws.Cloud) error{bound("g4dn.xlarge", a, 2), bound("g4dn.xlarge", b, 1)}, capacity: "on-demand", n: 5,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g4dn.xlarge", b, 0}},
			want:  []string{"2 g4dn.xlarge a on-demand", "1 g4dn.xlarge b on-demand", "InsufficientInstanceCapacity g4dn.xlarge a", "InsufficientInstanceCapacity g4dn.xlarge b"}},
		{name: "a sum over zones holds too", limits: []func(*sandboxaws.Cloud) error{bound("g4dn.xlarge", "", 2)}, capacity: "on-demand", n: 3,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g4dn.xlarge", b, 0}},
			want:  []string{"2 g4dn.xlarge a on-demand", "InsufficientInstanceCapacity g4dn.xlarge a", "InsufficientInstanceCapacity g4dn.xlarge b"}},
		{name: "nothing at all", limits: []func(*sandboxaws.Cloud) error{none("", "", "")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g5.xlarge", c, 0}}, want: []string{"InsufficientInstanceCapacity g4dn.xlarge a", "InsufficientInstanceCapacity g5.xlarge c"}},
		{name: "the spot count of the account", limits: []func(*sandboxaws.Cloud) error{refuse(sandboxaws.Offering{CapacityType: "spot"}, "MaxSpotInstanceCountExceeded")}, capacity: "spot", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}}, want: []string{"MaxSpotInstanceCountExceeded g4dn.xlarge a"}},
		{name: "the vCPU quota", limits: []func(*sandboxaws.Cloud) error{refuse(sandboxaws.Offering{Type: "g4dn.xlarge"}, "VcpuLimitExceeded")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}}, want: []string{"VcpuLimitExceeded g4dn.xlarge a"}},
		{name: "a refused zone", limits: []func(*sandboxaws.Cloud) error{refuse(sandboxaws.Offering{Zone: a}, "UnfulfillableCapacity")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g4dn.xlarge", b, 0}}, want: []string{"1 g4dn.xlarge b on-demand", "UnfulfillableCapacity g4dn.xlarge a"}},
		{name: "an offering that a zone does not have", limits: []func(*sandboxaws.Cloud) error{refuse(sandboxaws.Offering{Type: "g4dn.xlarge", Zone: a}, "Unsupported")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}}, want: []string{"Unsupported g4dn.xlarge a"}},
		{name: "a type that a zone does not offer", notOffered: map[string][]string{"g4dn.xlarge": {a}}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}, {"g4dn.xlarge", b, 0}}, want: []string{"1 g4dn.xlarge b on-demand", "InvalidFleetConfiguration g4dn.xlarge a"}},
		{name: "the number of fleets", limits: []func(*sandboxaws.Cloud) error{refuse(sandboxaws.Offering{}, "MaxFleetCountExceeded")}, capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", a, 0}}, want: []string{"MaxFleetCountExceeded g4dn.xlarge a"}},
		{name: "an architecture that the image does not have", capacity: "on-demand", n: 1,
			pools: []pool{{"g5g.xlarge", a, 0}, {"g5.xlarge", a, 0}}, want: []string{"1 g5.xlarge a on-demand", "InvalidParameterValue g5g.xlarge a"}},
		{name: "a subnet that does not exist", capacity: "on-demand", n: 1,
			pools: []pool{{"g4dn.xlarge", "subnet-none", 0}}, want: []string{"InvalidSubnetID.NotFound g4dn.xlarge "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, zones := ready(t, func(c *sandboxaws.Config) { c.NotOffered = tt.notOffered })
			for _, set := range tt.limits {
				ok(t, set(w.cloud))
			}
			for i, p := range tt.pools {
				if s, known := zones[p.subnet]; known {
					tt.pools[i].subnet = s
				}
			}
			in := fleet("gpu", tt.capacity, tt.n, tt.pools...)
			if tt.strategy != "" {
				in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategy(tt.strategy)}
			}
			out, err := w.ec2.CreateFleet(t.Context(), in)
			ok(t, err)
			if diff := cmp.Diff(tt.want, w.sets(t, out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCapacityComesBack(t *testing.T) {
	w, zones := ready(t, nil)
	ok(t, w.cloud.SetCapacity(sandboxaws.Offering{Type: "g4dn.xlarge"}, 1))
	try := func() []string {
		t.Helper()
		out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g4dn.xlarge", zones["us-east-1a"], 0}))
		ok(t, err)
		return w.sets(t, out)
	}
	gone := []string{"InsufficientInstanceCapacity g4dn.xlarge a"}
	if got := try(); got[0] != "1 g4dn.xlarge a spot" {
		t.Fatal(got)
	}
	if got := try(); !slices.Equal(got, gone) {
		t.Fatal(got)
	}
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	if got := try(); got[0] != "1 g4dn.xlarge a spot" {
		t.Fatal("an instance that ends gives its capacity back:", got)
	}
	ok(t, w.cloud.SetCapacity(sandboxaws.Offering{Type: "g4dn.xlarge"}, -1))
	if got := try(); got[0] != "1 g4dn.xlarge a spot" {
		t.Fatal("a lifted bound still holds:", got)
	}
	for _, o := range []sandboxaws.Offering{{Type: "z9.nano"}, {Zone: "us-west-2a"}, {CapacityType: "free"}} {
		if w.cloud.SetCapacity(o, 1) == nil || w.cloud.Refuse(o, "Unsupported") == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestSubnetsRunOutOfAddresses(t *testing.T) {
	w, zones := ready(t, nil)
	subnet := zones["us-east-1a"]
	free := func() int32 {
		t.Helper()
		out, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
		ok(t, err)
		return *out.Subnets[0].AvailableIpAddressCount
	}
	if n := free(); n != 16379 {
		t.Errorf("a /18 has %d free addresses, want 16379", n)
	}
	ok(t, w.cloud.SetFreeAddresses(subnet, 2))
	out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 3, pool{"g4dn.xlarge", subnet, 0}))
	ok(t, err)
	if diff := cmp.Diff([]string{"2 g4dn.xlarge a spot", "InsufficientFreeAddressesInSubnet g4dn.xlarge a"}, w.sets(t, out)); diff != "" {
		t.Error(diff)
	}
	if n := free(); n != 0 {
		t.Errorf("%d addresses left", n)
	}
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	w.clock.advance(time.Minute)
	if n := free(); n != 1 {
		t.Errorf("%d addresses after an instance is gone, want 1", n)
	}
	if w.cloud.SetFreeAddresses("subnet-none", 1) == nil {
		t.Error("a subnet that does not exist was accepted")
	}
}

func TestEveryInterfaceTakesItsAddresses(t *testing.T) {
	w := newFixture(t, nil)
	_, err := w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("efa"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: sdk.String(w.image(t, "x86_64", "nvidia")),
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: sdk.Int32(0), InterfaceType: sdk.String("efa"), Groups: []string{w.group(t)}, Ipv4PrefixCount: sdk.Int32(1)},
			{DeviceIndex: sdk.Int32(1), NetworkCardIndex: sdk.Int32(1), InterfaceType: sdk.String("efa-only"), Groups: []string{w.group(t)}},
			{DeviceIndex: sdk.Int32(1), NetworkCardIndex: sdk.Int32(2), InterfaceType: sdk.String("efa"), Groups: []string{w.group(t)}}}}})
	ok(t, err)
	subnet := w.subnets(t)["us-east-1a"]
	ok(t, w.cloud.SetFreeAddresses(subnet, 20))
	out, err := w.ec2.CreateFleet(t.Context(), fleet("efa", "on-demand", 2, pool{"p5.48xlarge", subnet, 0}))
	ok(t, err)
	if diff := cmp.Diff([]string{"1 p5.48xlarge a on-demand", "InsufficientFreeAddressesInSubnet p5.48xlarge a"}, w.sets(t, out)); diff != "" {
		t.Error("18 of 20 addresses leave no room for a second node:", diff)
	}
	got, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	ok(t, err)
	var kinds []string
	for _, n := range got.Reservations[0].Instances[0].NetworkInterfaces {
		kinds = append(kinds, *n.InterfaceType)
	}
	if !slices.Equal(kinds, []string{"efa", "efa-only", "efa"}) {
		t.Errorf("interfaces %q", kinds)
	}
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	w.clock.advance(time.Minute)
	subnets, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	ok(t, err)
	if n := *subnets.Subnets[0].AvailableIpAddressCount; n != 20 {
		t.Errorf("%d addresses are free again, want 20", n)
	}
}

func TestAFleetIsMadeOncePerToken(t *testing.T) {
	w, zones := ready(t, nil)
	in := fleet("gpu", "spot", 2, pool{"g4dn.xlarge", zones["us-east-1a"], 0})
	in.ClientToken = sdk.String("once")
	first, err := w.ec2.CreateFleet(t.Context(), in)
	ok(t, err)
	again, err := w.ec2.CreateFleet(t.Context(), in)
	ok(t, err)
	if n := len(w.cloud.Instances()); n != 2 || *first.FleetId != *again.FleetId {
		t.Errorf("the same request twice made %d instances", n)
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = sdk.Int32(3)
	_, err = w.ec2.CreateFleet(t.Context(), in)
	wantCode(t, err, "IdempotentParameterMismatch")
}

func TestReservedCapacityIsUsedUp(t *testing.T) {
	w, zones := ready(t, nil)
	id, err := w.cloud.AddReservation(sandboxaws.Reservation{Type: "p5.48xlarge", Zone: "us-east-1b", Total: 1, Targeted: true, Tags: map[string]string{"team": "ml"}})
	ok(t, err)
	_, err = w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("reserved"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String(w.image(t, "x86_64", "nvidia")),
			CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
				CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: sdk.String(id)}}}})
	ok(t, err)
	describe := func() types.CapacityReservation {
		t.Helper()
		out, err := w.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{Filters: filters("state", "active", "tag:team", "ml", "instance-match-criteria", "targeted")})
		ok(t, err)
		return out.CapacityReservations[0]
	}
	if r := describe(); *r.AvailableInstanceCount != 1 || *r.CapacityReservationId != id || r.ReservationType != "default" || r.EndDate != nil {
		t.Errorf("reservation %+v", r)
	}
	in := fleet("reserved", "on-demand", 2, pool{"p5.48xlarge", zones["us-east-1b"], 0})
	out, err := w.ec2.CreateFleet(t.Context(), in)
	ok(t, err)
	if diff := cmp.Diff([]string{"1 p5.48xlarge b on-demand", "ReservationCapacityExceeded p5.48xlarge b"}, w.sets(t, out)); diff != "" {
		t.Error(diff)
	}
	if r := describe(); *r.AvailableInstanceCount != 0 {
		t.Errorf("%d left in the reservation", *r.AvailableInstanceCount)
	}
	got, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	ok(t, err)
	if i := got.Reservations[0].Instances[0]; *i.CapacityReservationId != id || i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" {
		t.Errorf("instance %+v", i)
	}
}

func TestPlacementGroups(t *testing.T) {
	w := newFixture(t, nil)
	id, err := w.cloud.AddPlacementGroup(sandboxaws.PlacementGroup{Name: "tight", Strategy: "partition", Partitions: 3})
	ok(t, err)
	out, err := w.ec2.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{GroupNames: []string{"tight"}, Filters: filters("state", "available")})
	ok(t, err)
	if g := out.PlacementGroups[0]; *g.GroupId != id || *g.PartitionCount != 3 || g.Strategy != "partition" {
		t.Errorf("group %+v", g)
	}
	if _, err := w.cloud.AddPlacementGroup(sandboxaws.PlacementGroup{Name: "x", Strategy: "loose"}); err == nil {
		t.Error("an unknown strategy was accepted")
	}
}

func TestSpend(t *testing.T) {
	w, zones := ready(t, nil)
	start := w.clock.Now()
	launch := func() string {
		t.Helper()
		out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))
		ok(t, err)
		return out.Instances[0].InstanceIds[0]
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: $%.6f, want $%.6f", what, got, want)
		}
	}
	short := launch()
	near("the first second", w.cloud.Spend(start.Add(time.Second)), 1.006/60)
	w.clock.advance(10 * time.Second)
	ok(t, w.cloud.Terminate(short))
	launch()
	w.clock.advance(30 * time.Minute)
	near("a minute at least, and half an hour", w.cloud.Spend(w.clock.Now()), 1.006/60+1.006/2)
	near("looking back", w.cloud.Spend(start.Add(5*time.Minute+10*time.Second)), 1.006/60+1.006/12)
	near("before everything", w.cloud.Spend(start.Add(-time.Hour)), 0)
	w.clock.advance(2 * time.Hour)
	near("an instance that is forgotten was still paid", w.cloud.Spend(w.clock.Now()), 1.006/60+1.006*2.5)
}
