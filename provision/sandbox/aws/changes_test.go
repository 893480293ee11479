package aws_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestZonesAndSubnets(t *testing.T) {
	w, ctx := newFixture(t, nil), t.Context()
	out, err := w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{Filters: filters("zone-type", "availability-zone"), ZoneNames: []string{"us-east-1b"}})
	ok(t, err)
	if len(out.AvailabilityZones) != 1 || *out.AvailabilityZones[0].ZoneId != "use1-az2" || out.AvailabilityZones[0].State != "available" || out.AvailabilityZones[0].OptInStatus != "opt-in-not-required" {
		t.Errorf("zones %+v", out.AvailabilityZones)
	}
	wantCode(t, drop(w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"mars-1a"}})), "InvalidParameterValue")
	subnet := w.subnets(t)["us-east-1a"]
	ok(t, drop(w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: sdk.Bool(true)}})))
	got, err := w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}, Filters: filters("map-public-ip-on-launch", "true")})
	ok(t, err)
	if len(got.Subnets) != 1 || !*got.Subnets[0].MapPublicIpOnLaunch {
		t.Errorf("the changed subnet %+v", got.Subnets)
	}
	wantCode(t, drop(w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet})), "MissingParameter")
	wantCode(t, drop(w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet, EnableDns64: &types.AttributeBooleanValue{Value: sdk.Bool(true)}})), "UnknownParameter")
}

func TestInstanceAttributes(t *testing.T) {
	w, zones := ready(t, nil)
	ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
	id := &w.cloud.Instances()[0].ID
	input := func(name types.InstanceAttributeName) (*ec2.DescribeInstanceAttributeOutput, error) {
		return w.ec2.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: id, Attribute: name})
	}
	data, err := input(types.InstanceAttributeNameUserData)
	ok(t, err)
	if text, err := base64.StdEncoding.DecodeString(*data.UserData.Value); err != nil || string(text) != "hello node" || *data.InstanceId != *id {
		t.Errorf("user data %q, %v", text, err)
	}
	kind, err := input(types.InstanceAttributeNameInstanceType)
	ok(t, err)
	stays, err := input(types.InstanceAttributeNameDisableApiTermination)
	ok(t, err)
	if *kind.InstanceType.Value != "g5.xlarge" || *stays.DisableApiTermination.Value {
		t.Errorf("type %s, protected %t", *kind.InstanceType.Value, *stays.DisableApiTermination.Value)
	}
	wantCode(t, drop(input("mood")), "InvalidParameterValue")
}

func TestStoppingAnInstance(t *testing.T) {
	w, zones := ready(t, nil)
	ctx := t.Context()
	ok(t, drop(w.ec2.CreateFleet(ctx, fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
	ok(t, drop(w.ec2.CreateFleet(ctx, fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
	ids := []string{w.cloud.Instances()[0].ID}
	spot := []string{w.cloud.Instances()[1].ID}
	w.clock.advance(time.Hour)
	wantCode(t, drop(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: slices.Concat(ids, spot)})), "UnsupportedOperation")
	ok(t, w.cloud.Terminate(spot[0]))
	w.clock.advance(time.Minute)
	w.reported(t)
	spent := w.cloud.Spend(w.clock.Now())
	out, err := w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})
	ok(t, err)
	if c := out.StoppingInstances[0]; c.CurrentState.Name != "stopping" || *c.CurrentState.Code != 64 || c.PreviousState.Name != "running" {
		t.Errorf("at once: %+v", c)
	}
	w.clock.advance(10 * time.Second)
	want := []string{"EC2 Instance State-change Notification stopping", "EC2 Instance State-change Notification stopped"}
	if got := w.reported(t); !slices.Equal(got, want) {
		t.Errorf("told as %q, want %q", got, want)
	}
	w.clock.advance(time.Hour)
	if s := w.cloud.Instances()[0].State; s != "stopped" || w.cloud.Spend(w.clock.Now()) != spent {
		t.Errorf("later it is %s; spent %f, before %f", s, w.cloud.Spend(w.clock.Now()), spent)
	}
	ok(t, drop(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})))
	w.clock.advance(time.Minute)
	if s := w.cloud.Instances()[0].State; s != sandboxaws.Terminated || w.cloud.Spend(w.clock.Now()) != spent {
		t.Errorf("at the end it is %s; spent %f, before %f", s, w.cloud.Spend(w.clock.Now()), spent)
	}
	wantCode(t, drop(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})), "IncorrectInstanceState")
}

func TestImagesAreCopiedAndDeprecated(t *testing.T) {
	w, ctx, s := newFixture(t, nil), t.Context(), sdk.String
	source := w.image(t, "arm64", "standard")
	input := func(token string) *ec2.CopyImageInput {
		return &ec2.CopyImageInput{Name: s("golden"), SourceImageId: &source, SourceRegion: s("us-east-1"), ClientToken: &token,
			TagSpecifications: []types.TagSpecification{{ResourceType: "image", Tags: tags("team", "ml")}}}
	}
	made, err := w.ec2.CopyImage(ctx, input("once"))
	ok(t, err)
	again, err := w.ec2.CopyImage(ctx, input("once"))
	ok(t, err)
	if *again.ImageId != *made.ImageId {
		t.Errorf("a repeated request made %s beside %s", *again.ImageId, *made.ImageId)
	}
	wantCode(t, drop(w.ec2.CopyImage(ctx, input("twice"))), "InvalidAMIName.Duplicate")
	displayed := func(owner string) []types.Image {
		out, err := w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{owner}, Filters: filters("tag:team", "ml")})
		ok(t, err)
		return out.Images
	}
	if got := displayed("self"); len(got) != 1 || got[0].Architecture != "arm64" || *got[0].Name != "golden" || got[0].DeprecationTime != nil {
		t.Fatalf("own images %+v", got)
	}
	deprecate := func(id string, at time.Time) error {
		return drop(w.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: &id, DeprecateAt: &at}))
	}
	wantCode(t, deprecate(source, w.clock.Now().Add(time.Hour)), "AuthFailure")
	wantCode(t, deprecate(*made.ImageId, w.clock.Now()), "InvalidParameterValue")
	ok(t, deprecate(*made.ImageId, w.clock.Now().Add(time.Hour)))
	w.clock.advance(2 * time.Hour)
	if got := displayed("self"); len(got) != 1 || got[0].DeprecationTime == nil {
		t.Errorf("its owner finds of the deprecated image %+v", got)
	}
}

func TestSecurityGroupsComeAndGo(t *testing.T) {
	w, ctx, s := newFixture(t, nil), t.Context(), sdk.String
	create := func() (*ec2.CreateSecurityGroupOutput, error) {
		return w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: s("extra"), Description: s("more"),
			TagSpecifications: []types.TagSpecification{{ResourceType: "security-group", Tags: tags("karpenter.sh/discovery", "sandbox")}}})
	}
	made, err := create()
	ok(t, err)
	wantCode(t, drop(create()), "InvalidGroup.Duplicate")
	found, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters("group-name", "extra", "tag:karpenter.sh/discovery", "sandbox")})
	ok(t, err)
	if len(found.SecurityGroups) != 1 || *found.SecurityGroups[0].Description != "more" {
		t.Errorf("groups %+v", found.SecurityGroups)
	}
	w.fullTemplate(t, func(d *types.RequestLaunchTemplateData) { d.NetworkInterfaces[0].Groups = []string{*made.GroupId} })
	ok(t, drop(w.ec2.CreateFleet(ctx, fleet("full", "on-demand", 1, pool{"m5.large", w.subnets(t)["us-east-1a"], 0}))))
	remove := func(id string) error {
		return drop(w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id}))
	}
	wantCode(t, remove(*made.GroupId), "DependencyViolation")
	wantCode(t, remove("sg-0000000000000aaa1"), "CannotDelete")
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	w.clock.advance(time.Minute)
	ok(t, remove(*made.GroupId))
	wantCode(t, remove(*made.GroupId), "InvalidGroup.NotFound")
}

func TestPlacementGroupsComeAndGo(t *testing.T) {
	w, ctx, s := newFixture(t, nil), t.Context(), sdk.String
	made, err := w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("rack"), Strategy: "partition", PartitionCount: sdk.Int32(3),
		TagSpecifications: []types.TagSpecification{{ResourceType: "placement-group", Tags: tags("a", "b")}}})
	ok(t, err)
	if g := made.PlacementGroup; *g.PartitionCount != 3 || *g.GroupName != "rack" || describedTags(g.Tags)["a"] != "b" {
		t.Errorf("group %+v", g)
	}
	ok(t, drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{*made.PlacementGroup.GroupId}, Tags: tags("c", "d")})))
	found, err := w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: filters("tag:c", "d")})
	ok(t, err)
	if len(found.PlacementGroups) != 1 {
		t.Errorf("%d groups have the tag", len(found.PlacementGroups))
	}
	wantCode(t, drop(w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("rack"), Strategy: "spread"})), "InvalidPlacementGroup.Duplicate")
	wantCode(t, drop(w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("odd"), Strategy: "spread", PartitionCount: sdk.Int32(2)})), "InvalidParameterValue")
	w.fullTemplate(t, func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: s("rack")}
	})
	ok(t, drop(w.ec2.CreateFleet(ctx, fleet("full", "on-demand", 1, pool{"m5.large", w.subnets(t)["us-east-1a"], 0}))))
	remove := func() error {
		return drop(w.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: s("rack")}))
	}
	wantCode(t, remove(), "InvalidPlacementGroup.InUse")
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	w.clock.advance(time.Minute)
	ok(t, remove())
	wantCode(t, remove(), "InvalidPlacementGroup.Unknown")
}

func TestReservationsComeAndGo(t *testing.T) {
	w, zones := ready(t, nil)
	ctx, s := t.Context(), sdk.String
	input := &ec2.CreateCapacityReservationInput{InstanceType: s("g5.xlarge"), InstancePlatform: "Linux/UNIX", AvailabilityZone: s("us-east-1a"), InstanceCount: sdk.Int32(3),
		ClientToken: s("once"), TagSpecifications: []types.TagSpecification{{ResourceType: "capacity-reservation", Tags: tags("a", "b")}}}
	made, err := w.ec2.CreateCapacityReservation(ctx, input)
	ok(t, err)
	again, err := w.ec2.CreateCapacityReservation(ctx, input)
	ok(t, err)
	source := made.CapacityReservation.CapacityReservationId
	if *again.CapacityReservation.CapacityReservationId != *source || made.CapacityReservation.InstanceMatchCriteria != "open" || made.CapacityReservation.EndDateType != "unlimited" {
		t.Errorf("reservation %+v, again %+v", made.CapacityReservation, again.CapacityReservation)
	}
	ok(t, drop(w.ec2.CreateFleet(ctx, fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
	share := func(n int32) error {
		return drop(w.ec2.CreateInterruptibleCapacityReservationAllocation(ctx, &ec2.CreateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: source, InstanceCount: &n}))
	}
	wantCode(t, share(3), "InvalidParameterValue") // one is in use
	ok(t, share(2))
	all, err := w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{})
	ok(t, err)
	got := map[bool][3]any{}
	for _, r := range all.CapacityReservations {
		from := ""
		if r.InterruptionInfo != nil {
			from = *r.InterruptionInfo.SourceCapacityReservationId
		}
		got[*r.Interruptible] = [3]any{*r.TotalInstanceCount, *r.AvailableInstanceCount, from}
	}
	if diff := cmp.Diff(map[bool][3]any{false: {int32(1), int32(0), ""}, true: {int32(2), int32(2), *source}}, got); diff != "" {
		t.Errorf("reservations by whether they are interruptible (-want +got):\n%s", diff)
	}
	cancel := func() error {
		return drop(w.ec2.CancelCapacityReservation(ctx, &ec2.CancelCapacityReservationInput{CapacityReservationId: source}))
	}
	ok(t, cancel())
	wantCode(t, cancel(), "InvalidCapacityReservationState")
	if i := w.launched(t); i.State.Name == "terminated" || *i.CapacityReservationId != *source {
		t.Errorf("what ran in it: %+v", i)
	}
	input.ClientToken, input.EndDateType = nil, "limited"
	wantCode(t, drop(w.ec2.CreateCapacityReservation(ctx, input)), "InvalidParameterCombination")
}

func TestParametersByARNVersionAndPath(t *testing.T) {
	w, ctx := newFixture(t, nil), t.Context()
	const path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/"
	const name, arn = path + "recommended/image_id", "arn:aws:ssm:us-east-1::parameter" + path + "recommended/image_id"
	get := func(name string) (*ssm.GetParameterOutput, error) {
		return w.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	}
	plain, err := get(name)
	ok(t, err)
	byARN, err := get(arn)
	ok(t, err)
	if *byARN.Parameter.Value != *plain.Parameter.Value || *byARN.Parameter.Name != name || *byARN.Parameter.ARN != arn {
		t.Errorf("by ARN %+v", byARN.Parameter)
	}
	for _, form := range []string{name + ":4", arn + ":4"} {
		older, err := get(form)
		ok(t, err)
		if older.Parameter.Version != 4 || *older.Parameter.Selector != ":4" || *older.Parameter.Value == *plain.Parameter.Value || plain.Parameter.Version != 5 {
			t.Errorf("version 4 is %+v, the newest %+v", older.Parameter, plain.Parameter)
		}
	}
	for form, want := range map[string]string{
		name + ":99":     "ParameterVersionNotFound",
		name + ":latest": "ParameterVersionNotFound",
		strings.Replace(arn, "us-east-1", "eu-west-1", 1):   "ParameterNotFound",
		strings.Replace(arn, "::", ":000000000000:", 1):     "ParameterNotFound",
		"arn:aws:ssm:us-east-1::parameter/aws/service/none": "ParameterNotFound",
	} {
		_, err := get(form)
		wantCode(t, err, want)
	}
	list := func(path string, recursive bool) (names []string) {
		for p := ssm.NewGetParametersByPathPaginator(w.ssm, &ssm.GetParametersByPathInput{Path: &path, Recursive: &recursive}); p.HasMorePages(); {
			page, err := p.NextPage(ctx)
			ok(t, err)
			if len(page.Parameters) > 10 {
				t.Errorf("a page of %d", len(page.Parameters))
			}
			for _, q := range page.Parameters {
				names = append(names, *q.Name)
			}
		}
		return names
	}
	if got := list(path+"recommended", false); !slices.Equal(got, []string{name}) {
		t.Errorf("right below: %q", got)
	}
	if got := list(path, false); len(got) != 0 {
		t.Errorf("right below the family: %q", got)
	}
	if got := list("/aws/service/eks/optimized-ami/1.33/", true); len(got) < 20 || !slices.Contains(got, name) || !slices.IsSorted(got) {
		t.Errorf("all below: %d, %q", len(got), got)
	}
	wantCode(t, drop(w.ssm.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: sdk.String("aws")})), "ValidationException")
}

func TestAMessageIsSentAndTheClusterListed(t *testing.T) {
	w, ctx := newFixture(t, nil), t.Context()
	url := w.queueURL(t)
	send := func(body string, delay int32) error {
		return drop(w.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body, DelaySeconds: delay})) // the client compares the digest
	}
	ok(t, send("hello", 0))
	ok(t, send("later", 60))
	if got := w.receive(t, 0); len(got) != 1 || *got[0].Body != "hello" {
		t.Errorf("at once: %+v", got)
	}
	w.clock.advance(time.Minute)
	bodies := []string{}
	for _, m := range w.receive(t, 0) {
		bodies = append(bodies, *m.Body)
	}
	if !slices.Contains(bodies, "later") {
		t.Errorf("after a minute: %q", bodies)
	}
	wantCode(t, send(strings.Repeat("x", 1<<20+1), 0), "InvalidParameterValue")
	wantCode(t, send("x", 901), "InvalidParameterValue")
	list, err := w.eks.ListClusters(ctx, &eks.ListClustersInput{})
	ok(t, err)
	if !slices.Equal(list.Clusters, []string{"sandbox"}) {
		t.Errorf("clusters %q", list.Clusters)
	}
}
