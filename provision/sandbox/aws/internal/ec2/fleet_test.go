package ec2

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/placement"
)

// What is wrong with the request as a whole is an error, and launches nothing.
func TestAFleetIsRefusedAsAWhole(t *testing.T) {
	type input = ec2.CreateFleetInput
	override := func(in *input) *types.FleetLaunchTemplateOverridesRequest {
		return &in.LaunchTemplateConfigs[0].Overrides[0]
	}
	template := func(in *input) *types.FleetLaunchTemplateSpecificationRequest {
		return in.LaunchTemplateConfigs[0].LaunchTemplateSpecification
	}
	for name, tt := range map[string]struct {
		change func(*input)
		want   string
	}{
		"one instance":                          {nil, ""},
		"no instance":                           {func(in *input) { in.TargetCapacitySpecification.TotalTargetCapacity = sdk.Int32(0) }, "InvalidParameterValue"},
		"fewer than none":                       {func(in *input) { in.TargetCapacitySpecification.TotalTargetCapacity = sdk.Int32(-1) }, "InvalidParameterValue"},
		"one more than a thousand":              {func(in *input) { in.TargetCapacitySpecification.TotalTargetCapacity = sdk.Int32(1001) }, "InvalidParameterValue"},
		"a type of fleet that lasts":            {func(in *input) { in.Type = "maintain" }, "UnsupportedOperation"},
		"the type of fleet that is the default": {func(in *input) { in.Type = "" }, "UnsupportedOperation"},
		"a capacity type that there is not":     {func(in *input) { in.TargetCapacitySpecification.DefaultTargetCapacityType = "free" }, "InvalidParameterValue"},
		"a strategy for spot that there is not": {func(in *input) {
			in.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
			in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "luck"}
		}, "InvalidParameterValue"},
		"a strategy of spot for on demand": {func(in *input) {
			in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
		}, "InvalidParameterValue"},
		"a strategy that does not apply": {func(in *input) { in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "lowest-price"} }, ""},
		"no template":                    {func(in *input) { in.LaunchTemplateConfigs = []types.FleetLaunchTemplateConfigRequest{} }, "MissingParameter"},
		"a template that is not there":   {func(in *input) { template(in).LaunchTemplateName = sdk.String("none") }, "InvalidLaunchTemplateName.NotFoundException"},
		"a template's id that is not there": {func(in *input) {
			*template(in) = types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: sdk.String("lt-1"), Version: sdk.String("1")}
		}, "InvalidLaunchTemplateId.NotFound"},
		"a version that is not there":         {func(in *input) { template(in).Version = sdk.String("2") }, "InvalidLaunchTemplateId.VersionNotFound"},
		"the default version":                 {func(in *input) { template(in).Version = sdk.String("$Default") }, ""},
		"an instance type that there is not":  {func(in *input) { override(in).InstanceType = "z9.nano" }, "InvalidParameterValue"},
		"no instance type at all":             {func(in *input) { override(in).InstanceType = "" }, "MissingParameter"},
		"a zone that is not the subnet's":     {func(in *input) { override(in).AvailabilityZone = sdk.String("us-east-1b") }, "InvalidParameterValue"},
		"the zone of the subnet":              {func(in *input) { override(in).AvailabilityZone = sdk.String("us-east-1a") }, ""},
		"a zone of another region":            {func(in *input) { override(in).SubnetId, override(in).AvailabilityZone = nil, sdk.String("us-west-2a") }, "InvalidParameterValue"},
		"a zone without a subnet":             {func(in *input) { override(in).SubnetId, override(in).AvailabilityZone = nil, sdk.String("us-east-1b") }, ""},
		"a priority below zero":               {func(in *input) { override(in).Priority = sdk.Float64(-1) }, "InvalidParameterValue"},
		"a priority between whole numbers":    {func(in *input) { override(in).Priority = sdk.Float64(0.5) }, ""},
		"tags of instances":                   {func(in *input) { in.TagSpecifications = ec2test.Tagged("instance", "a", "b") }, ""},
		"tags of the fleet":                   {func(in *input) { in.TagSpecifications = ec2test.Tagged("fleet", "a", "b") }, ""},
		"tags of the template":                {func(in *input) { in.TagSpecifications = ec2test.Tagged("launch-template", "a", "b") }, "InvalidParameterValue"},
		"a tag that only AWS gives":           {func(in *input) { in.TagSpecifications = ec2test.Tagged("instance", "aws:a", "b") }, "InvalidParameterValue"},
		"a dry run":                           {func(in *input) { in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
		"a dry run of what would be refused":  {func(in *input) { in.DryRun, override(in).InstanceType = sdk.Bool(true), "z9.nano" }, "InvalidParameterValue"},
		"a setting that the sandbox does not": {func(in *input) { override(in).WeightedCapacity = sdk.Float64(2) }, "UnknownParameter"},
		"two templates of which one is not there": {func(in *input) {
			other := in.LaunchTemplateConfigs[0]
			other.LaunchTemplateSpecification = &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: sdk.String("none"), Version: sdk.String("1")}
			in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, other)
		}, "InvalidLaunchTemplateName.NotFoundException"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			in := c.request("node", "on-demand", 1)
			if tt.change != nil {
				tt.change(in)
			}
			out, err := c.client.CreateFleet(t.Context(), in)
			if got := ec2test.Code(out, err); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := len(c.Instances()); (got == 1) != (tt.want == "") {
				t.Errorf("%d instances", got)
			}
		})
	}
}

// What is wrong with a pool is an error beside the instances that others gave.
func TestAPoolThatCannotLaunchLeavesAnErrorBesideTheOthers(t *testing.T) {
	type data = types.RequestLaunchTemplateData
	nics := func(n ...types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) func(*data) {
		return func(d *data) { d.NetworkInterfaces = n }
	}
	yes, no := sdk.Bool(true), sdk.Bool(false)
	for name, tt := range map[string]struct {
		change func(*data)
		over   types.FleetLaunchTemplateOverridesRequest
		want   string
	}{
		"as it should be":                                 {want: ""},
		"a subnet that is not there":                      {over: types.FleetLaunchTemplateOverridesRequest{SubnetId: sdk.String("subnet-0123456789abcdef0")}, want: "InvalidSubnetID.NotFound"},
		"an image that is not there":                      {over: types.FleetLaunchTemplateOverridesRequest{ImageId: sdk.String("ami-0123456789abcdef0")}, want: "InvalidAMIID.NotFound"},
		"an image of another architecture":                {over: types.FleetLaunchTemplateOverridesRequest{InstanceType: "m6g.large"}, want: "InvalidParameterValue"},
		"no image":                                        {change: func(d *data) { d.ImageId, d.InstanceType = nil, "m5.large" }, want: "MissingParameter"},
		"a security group of no form":                     {change: func(d *data) { d.SecurityGroupIds = []string{"default"} }, want: "InvalidGroupId.Malformed"},
		"a security group that is not there":              {change: func(d *data) { d.SecurityGroupIds = []string{"sg-0123456789abcdef0"} }, want: "InvalidGroup.NotFound"},
		"an interface's security group that is not there": {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{Groups: []string{"sg-0123456789abcdef0"}}), want: "InvalidGroup.NotFound"},
		"a placement group that is not there":             {change: func(d *data) { d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: sdk.String("none")} }, want: "InvalidPlacementGroup.Unknown"},
		"a placement group that is":                       {change: func(d *data) { d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: sdk.String("tight")} }},
		"a reservation that is not there": {change: func(d *data) {
			d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: sdk.String("cr-1")}}
		}, want: "InvalidCapacityReservationId.NotFound"},
		"more addresses than the subnet has":    {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{Ipv4PrefixCount: sdk.Int32(2)}), want: "InsufficientFreeAddressesInSubnet"},
		"a public address for one interface":    {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{AssociatePublicIpAddress: yes})},
		"a public address for the first of two": {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{AssociatePublicIpAddress: yes}, types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: sdk.Int32(1)}), want: "InvalidParameterCombination"},
		"a public address for the second":       {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: sdk.Int32(0)}, types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: sdk.Int32(1), AssociatePublicIpAddress: yes}), want: "InvalidParameterCombination"},
		"no public address for either of two":   {change: nics(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{AssociatePublicIpAddress: no}, types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: sdk.Int32(1)})},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			if _, err := c.Placement.Add(placement.Group{Name: "tight", Strategy: "cluster"}); err != nil {
				t.Fatal(err)
			}
			if err := c.VPC.SetFreeAddresses(c.subnet, 30); err != nil {
				t.Fatal(err)
			}
			c.template("changed", func(d *data) {
				if tt.change != nil {
					tt.change(d)
				}
			})
			in := c.request("changed", "on-demand", 2)
			over := &in.LaunchTemplateConfigs[0].Overrides[0]
			over.ImageId = tt.over.ImageId
			if tt.over.InstanceType != "" {
				over.InstanceType = tt.over.InstanceType
			}
			if tt.over.SubnetId != nil {
				over.SubnetId = tt.over.SubnetId
			}
			// A pool of a more expensive type from a template that is as it should be comes second.
			in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, c.request("node", "on-demand", 2).LaunchTemplateConfigs[0])
			in.LaunchTemplateConfigs[1].Overrides[0].InstanceType = "m5.24xlarge"
			out, err := c.client.CreateFleet(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, e := range out.Errors {
				codes = append(codes, *e.ErrorCode)
				if o := e.LaunchTemplateAndOverrides; *o.LaunchTemplateSpecification.LaunchTemplateName != "changed" || o.Overrides.InstanceType != over.InstanceType || e.Lifecycle != "on-demand" {
					t.Errorf("the error is about %+v", o.Overrides)
				}
			}
			want, kind := []string(nil), over.InstanceType
			if tt.want != "" {
				want, kind = []string{tt.want}, "m5.24xlarge"
			}
			if diff := cmp.Diff(want, codes); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || out.Instances[0].InstanceType != kind {
				t.Errorf("instances %+v, want two %s", out.Instances, kind)
			}
		})
	}
}

func TestTheStrategyRanksThePools(t *testing.T) {
	// By price m5.large comes before m5.xlarge before m5.2xlarge.
	for name, tt := range map[string]struct {
		capacity types.DefaultTargetCapacityType
		change   func(*ec2.CreateFleetInput)
		want     types.InstanceType
	}{
		"on demand the cheapest by default": {"on-demand", nil, "m5.large"},
		"on demand the cheapest": {"on-demand", func(in *ec2.CreateFleetInput) {
			in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: "lowest-price"}
		}, "m5.large"},
		"on demand the first by priority": {"on-demand", func(in *ec2.CreateFleetInput) {
			in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: "prioritized"}
		}, "m5.2xlarge"},
		"of spot the cheapest by default": {"spot", nil, "m5.large"},
		"of spot the cheapest": {"spot", func(in *ec2.CreateFleetInput) {
			in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "lowest-price"}
		}, "m5.large"},
		"of spot the first by priority": {"spot", func(in *ec2.CreateFleetInput) {
			in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "capacity-optimized-prioritized"}
		}, "m5.2xlarge"},
		"of spot the best by price and by room": {"spot", func(in *ec2.CreateFleetInput) {
			in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
		}, "m5.large"},
	} {
		c := newCloud(t)
		in := c.request("node", tt.capacity, 1)
		in.LaunchTemplateConfigs[0].Overrides = nil
		for n, kind := range []types.InstanceType{"m5.xlarge", "m5.2xlarge", "m5.large"} {
			in.LaunchTemplateConfigs[0].Overrides = append(in.LaunchTemplateConfigs[0].Overrides,
				types.FleetLaunchTemplateOverridesRequest{InstanceType: kind, SubnetId: &c.subnet, Priority: sdk.Float64([]float64{1.5, 1, 2}[n])})
		}
		if tt.change != nil {
			tt.change(in)
		}
		out, err := c.client.CreateFleet(t.Context(), in)
		if err != nil || len(out.Instances) != 1 || out.Instances[0].InstanceType != tt.want || out.Instances[0].Lifecycle != types.InstanceLifecycle(tt.capacity) {
			t.Errorf("%s: %+v, %v, want %s", name, out, err, tt.want)
		}
	}
}

func TestATokenMakesOneFleetForAnHour(t *testing.T) {
	c := newCloud(t)
	with := func(token string, n int32, dry bool) *ec2.CreateFleetInput {
		in := c.request("node", "on-demand", n)
		in.ClientToken = &token
		if dry {
			in.DryRun = &dry
		}
		return in
	}
	first, err := c.client.CreateFleet(t.Context(), with("once", 2, false))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		in    *ec2.CreateFleetInput
		want  string
		n     int // instances in all
	}{
		{"the same request", time.Minute, with("once", 2, false), "", 2},
		{"the token with another number", 0, with("once", 3, false), "IdempotentParameterMismatch", 2},
		{"another token", 0, with("twice", 1, false), "", 3},
		{"the same request behind another", time.Minute, with("once", 2, false), "", 3},
		{"a dry run of the same request", 0, with("once", 2, true), "DryRunOperation", 3},
		{"another token in the end", 2 * time.Hour, with("thrice", 1, false), "", 4},
	} {
		c.clock.Advance(tt.after)
		out, err := c.client.CreateFleet(t.Context(), tt.in)
		if got := ec2test.Code(out, err); got != tt.want || len(c.Instances()) != tt.n {
			t.Errorf("%s: %q, want %q; %d instances, want %d", tt.name, got, tt.want, len(c.Instances()), tt.n)
		}
		if same := err == nil && *out.FleetId == *first.FleetId; same != strings.HasPrefix(tt.name, "the same request") || same && !slices.Equal(out.Instances[0].InstanceIds, first.Instances[0].InstanceIds) {
			t.Errorf("%s: the fleet %+v after %s", tt.name, out, *first.FleetId)
		}
	}
}

func TestRunInstancesOnlyChecksALaunch(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*ec2.RunInstancesInput)
		want   string
	}{
		"as it should be":            {nil, "DryRunOperation"},
		"in earnest":                 {func(in *ec2.RunInstancesInput) { in.DryRun = nil }, "UnsupportedOperation"},
		"a range that is none":       {func(in *ec2.RunInstancesInput) { in.MinCount = sdk.Int32(3) }, "InvalidParameterValue"},
		"none at the least":          {func(in *ec2.RunInstancesInput) { in.MinCount = sdk.Int32(0) }, "InvalidParameterValue"},
		"a subnet that is not there": {func(in *ec2.RunInstancesInput) { in.SubnetId = sdk.String("subnet-1") }, "InvalidSubnetID.NotFound"},
		"an interface's that is not there": {func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{SubnetId: sdk.String("subnet-1")}}
		}, "InvalidSubnetID.NotFound"},
		"neither a subnet nor a zone":    {func(in *ec2.RunInstancesInput) { in.SubnetId = nil }, "MissingInput"},
		"a type that there is not":       {func(in *ec2.RunInstancesInput) { in.InstanceType = "z9.nano" }, "InvalidParameterValue"},
		"tags of a fleet":                {func(in *ec2.RunInstancesInput) { in.TagSpecifications = ec2test.Tagged("fleet", "a", "b") }, "InvalidParameterValue"},
		"tags of a volume":               {func(in *ec2.RunInstancesInput) { in.TagSpecifications = ec2test.Tagged("volume", "a", "b") }, "DryRunOperation"},
		"a template that is not there":   {func(in *ec2.RunInstancesInput) { in.LaunchTemplate.LaunchTemplateName = sdk.String("none") }, "InvalidLaunchTemplateName.NotFoundException"},
		"the template's default version": {func(in *ec2.RunInstancesInput) { in.LaunchTemplate.Version = nil }, "DryRunOperation"},
	} {
		c := newCloud(t)
		in := &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(2), InstanceType: "m5.large", SubnetId: &c.subnet,
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: sdk.String("node"), Version: sdk.String("1")}}
		if tt.change != nil {
			tt.change(in)
		}
		if got := ec2test.Code(c.client.RunInstances(t.Context(), in)); got != tt.want || len(c.Instances()) != 0 {
			t.Errorf("%s: %q, want %q; %d instances", name, got, tt.want, len(c.Instances()))
		}
	}
}
