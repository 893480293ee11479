package aws_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// image resolves the recommended image of an architecture and variant.
func (w *fixture) image(t *testing.T, arch, variant string) string {
	t.Helper()
	return w.parameter(t, "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/"+arch+"/"+variant+"/recommended/image_id")
}

func (w *fixture) parameter(t *testing.T, name string) string {
	t.Helper()
	out, err := w.ssm.GetParameter(t.Context(), &ssm.GetParameterInput{Name: sdk.String(name)})
	ok(t, err)
	return *out.Parameter.Value
}

// subnets are the private ones by zone.
func (w *fixture) subnets(t *testing.T) map[string]string {
	t.Helper()
	out, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: filters("tag:karpenter.sh/discovery", "sandbox")})
	ok(t, err)
	zones := map[string]string{}
	for _, s := range out.Subnets {
		zones[*s.AvailabilityZone] = *s.SubnetId
	}
	return zones
}

func (w *fixture) group(t *testing.T) string {
	t.Helper()
	out, err := w.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: filters("group-name", "sandbox-node")})
	ok(t, err)
	return *out.SecurityGroups[0].GroupId
}

// template makes a launch template as the engine would.
func (w *fixture) template(t *testing.T, name, image string) {
	t.Helper()
	_, err := w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: sdk.String(name),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:  sdk.String(image),
			UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte("hello node"))),
			NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
				DeviceIndex: sdk.Int32(0), Groups: []string{w.group(t)}}},
			MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired},
		},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tags("karpenter.k8s.aws/cluster", "sandbox")}},
	})
	ok(t, err)
}

func tags(pairs ...string) (out []types.Tag) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, types.Tag{Key: sdk.String(pairs[i]), Value: sdk.String(pairs[i+1])})
	}
	return out
}

func filters(pairs ...string) (out []types.Filter) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, types.Filter{Name: sdk.String(pairs[i]), Values: strings.Split(pairs[i+1], ",")})
	}
	return out
}

// pool is one override.
type pool struct {
	kind, subnet string
	priority     float64
}

func fleet(template, capacityType string, n int32, pools ...pool) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: types.DefaultTargetCapacityType(capacityType), TotalTargetCapacity: sdk.Int32(n)},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: tags("karpenter.sh/nodepool", "gpu")},
			{ResourceType: types.ResourceTypeFleet, Tags: tags("x", "y")}},
	}
	c := types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateName: sdk.String(template), Version: sdk.String("$Latest")}}
	for _, p := range pools {
		c.Overrides = append(c.Overrides, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(p.kind), SubnetId: sdk.String(p.subnet), Priority: sdk.Float64(p.priority)})
	}
	in.LaunchTemplateConfigs = []types.FleetLaunchTemplateConfigRequest{c}
	return in
}

// sets words a fleet's answer: instances by type and zone, then errors.
func (w *fixture) sets(t *testing.T, out *ec2.CreateFleetOutput) (got []string) {
	t.Helper()
	zones := map[string]string{}
	for z, s := range w.subnets(t) {
		zones[s] = z[len(z)-1:]
	}
	for _, i := range out.Instances {
		o := i.LaunchTemplateAndOverrides.Overrides
		got = append(got, fmt.Sprintf("%d %s %s %s", len(i.InstanceIds), i.InstanceType, zones[*o.SubnetId], i.Lifecycle))
	}
	for _, e := range out.Errors {
		o := e.LaunchTemplateAndOverrides.Overrides
		got = append(got, fmt.Sprintf("%s %s %s", *e.ErrorCode, o.InstanceType, zones[sdk.ToString(o.SubnetId)]))
	}
	return got
}

func TestAnInstanceThatEndsEarlyNeverRuns(t *testing.T) {
	w := newFixture(t, nil)
	w.template(t, "gpu", w.image(t, "x86_64", "nvidia"))
	_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g5.xlarge", w.subnets(t)["us-east-1a"], 0}))
	ok(t, err)
	w.clock.advance(time.Second)
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	if w.cloud.Terminate("i-1") == nil {
		t.Error("an instance that does not exist was terminated")
	}
	w.clock.advance(time.Second)
	if s := w.cloud.Instances()[0].State; s != sandboxaws.ShuttingDown {
		t.Errorf("two seconds after its launch it is %s", s)
	}
	w.clock.advance(2 * time.Second)
	if s := w.cloud.Instances()[0].State; s != sandboxaws.Terminated {
		t.Errorf("three seconds after its end began it is %s", s)
	}
}

func TestANodesLife(t *testing.T) {
	w := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	events := w.cloud.Watch(ctx)
	w.template(t, "lt-gpu", w.image(t, "x86_64", "nvidia"))
	zones := w.subnets(t)
	out, err := w.ec2.CreateFleet(ctx, fleet("lt-gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 9}, pool{"g4dn.xlarge", zones["us-east-1b"], 1}))
	ok(t, err)
	if got := w.sets(t, out); len(got) != 1 || got[0] != "1 g4dn.xlarge b on-demand" {
		t.Fatalf("fleet gave %q", got)
	}
	id := out.Instances[0].InstanceIds[0]

	alive := &ec2.DescribeInstancesInput{InstanceIds: []string{id}, Filters: filters("instance-state-name", "pending,running,stopping,stopped,shutting-down")}
	show := func() *types.Instance {
		t.Helper()
		out, err := w.ec2.DescribeInstances(ctx, alive)
		ok(t, err)
		if len(out.Reservations) == 0 {
			return nil
		}
		return &out.Reservations[0].Instances[0]
	}
	i := show()
	if i == nil || i.State.Name != types.InstanceStateNamePending {
		t.Fatalf("after the launch: %+v", i)
	}
	if *i.PrivateDnsName != "ip-10-0-64-4.ec2.internal" || *i.Placement.AvailabilityZone != "us-east-1b" || *i.Placement.AvailabilityZoneId != "use1-az2" ||
		*i.SecurityGroups[0].GroupId != w.group(t) || *i.Tags[0].Key != "karpenter.sh/nodepool" || i.SpotInstanceRequestId != nil || len(i.Tags) != 1 {
		t.Errorf("the instance is not as launched: %+v", i)
	}
	observed := w.cloud.Instances()
	if len(observed) != 1 || observed[0].UserData != "hello node" || strings.Contains(fmt.Sprintf("%+v %v %s", observed[0], observed[0], observed[0]), "hello") {
		t.Errorf("an observer must get the user data, and no print of it: %v", observed)
	}
	calls := w.cloud.Calls()
	if n := slices.IndexFunc(calls, func(c sandboxaws.Call) bool { return slices.Contains(c.Launched, id) }); n < 0 || calls[n].Operation != "CreateFleet" {
		t.Errorf("no call is said to have launched it: %v", calls)
	}
	template := w.cloud.Template(id)
	if _, got := template["UserData"]; got || template["MetadataOptions.HttpTokens"] != "required" || w.cloud.Template("i-1") != nil {
		t.Errorf("an observer must see the launch template without user data: %v", template)
	}

	w.clock.advance(2 * time.Second)
	if i := show(); i.State.Name != types.InstanceStateNameRunning {
		t.Errorf("two seconds later it is %s", i.State.Name)
	}
	ended, err := w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	ok(t, err)
	if c := ended.TerminatingInstances[0]; c.CurrentState.Name != "shutting-down" || c.PreviousState.Name != "running" {
		t.Errorf("terminating went from %s to %s", c.PreviousState.Name, c.CurrentState.Name)
	}
	w.clock.advance(3 * time.Second)
	if i := show(); i != nil {
		t.Errorf("a terminated instance is still in the filtered list: %s", i.State.Name)
	}
	all, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	ok(t, err)
	if len(all.Reservations) != 1 || all.Reservations[0].Instances[0].State.Name != "terminated" {
		t.Error("a terminated instance must stay visible for a while")
	}
	w.clock.advance(time.Hour)
	if n := len(w.cloud.Instances()); n != 0 {
		t.Errorf("%d instances an hour later", n)
	}

	for _, want := range []sandboxaws.State{sandboxaws.Pending, sandboxaws.Running, sandboxaws.ShuttingDown, sandboxaws.Terminated} {
		if e := <-events; e.Kind != want || e.Instance.ID != id || e.Instance.State != want {
			t.Errorf("event %s of %s, want %s", e.Kind, e.Instance, want)
		}
	}
	cancel()
	for range events {
	}
}
