package ec2

import (
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
)

func TestInstancesAreChosenByFilters(t *testing.T) {
	c := newCloud(t)
	reservation, err := c.Reservations.Add(reservations.Reservation{Type: "m5.large", Zone: "us-east-1a", Total: 1})
	if err != nil {
		t.Fatal(err)
	}
	plain := c.launch("on-demand", 1)[0] // takes the reservation
	spot, ended := c.launch("spot", 1)[0], c.launch("on-demand", 1)[0]
	c.clock.Advance(time.Minute)
	if err := c.Terminate(ended); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		filters []string
		want    []string
	}{
		"by id":                          {[]string{"instance-id", plain + "," + spot}, []string{plain, spot}},
		"by the name of a state":         {[]string{"instance-state-name", "running"}, []string{plain, spot}},
		"by the code of a state":         {[]string{"instance-state-code", "32"}, []string{ended}},
		"by another code":                {[]string{"instance-state-code", "0"}, nil},
		"by lifecycle":                   {[]string{"instance-lifecycle", "spot"}, []string{spot}},
		"by VPC":                         {[]string{"vpc-id", c.VPC.ID()}, []string{plain, spot, ended}},
		"by another VPC":                 {[]string{"vpc-id", "vpc-1"}, nil},
		"by address":                     {[]string{"private-ip-address", c.instance(spot).Address}, []string{spot}},
		"by name":                        {[]string{"private-dns-name", c.instance(plain).DNSName}, []string{plain}},
		"by reservation":                 {[]string{"capacity-reservation-id", reservation}, []string{plain}},
		"by architecture":                {[]string{"architecture", "x86_64"}, []string{plain, spot, ended}},
		"by another architecture":        {[]string{"architecture", "arm64"}, nil},
		"by image and type":              {[]string{"image-id", c.image, "instance-type", "m5.large", "subnet-id", c.subnet}, []string{plain, spot, ended}},
		"by a group of an interface":     {[]string{"network-interface.group-id", "sg-0000000000000aaa1"}, []string{plain, spot, ended}},
		"by another group":               {[]string{"instance.group-id", "sg-0000000000000ccc3"}, nil},
		"by zone":                        {[]string{"availability-zone", "us-east-1a", "availability-zone-id", "use1-az1"}, []string{plain, spot, ended}},
		"by another zone than the first": {[]string{"availability-zone", "us-east-1a", "availability-zone-id", "use1-az2"}, nil},
	} {
		out, err := c.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: ec2test.Filters(tt.filters...)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range out.Reservations {
			got = append(got, *r.Instances[0].InstanceId)
		}
		if !slices.Equal(got, tt.want) { // by launch
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestAnAttributeIsDescribedOrRefused(t *testing.T) {
	c := newCloud(t)
	id := c.launch("on-demand", 1)[0]
	for name, tt := range map[string]struct {
		id        string
		attribute types.InstanceAttributeName
		value     func(*ec2.DescribeInstanceAttributeOutput) any
		want      any
		code      string
	}{
		"its type":                              {id, "instanceType", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.InstanceType.Value }, "m5.large", ""},
		"its root device":                       {id, "rootDeviceName", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.RootDeviceName.Value }, "/dev/xvda", ""},
		"what it does when it shuts down":       {id, "instanceInitiatedShutdownBehavior", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.InstanceInitiatedShutdownBehavior.Value }, "stop", ""},
		"whether its end is prevented":          {id, "disableApiTermination", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.DisableApiTermination.Value }, false, ""},
		"whether stopping it is prevented":      {id, "disableApiStop", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.DisableApiStop.Value }, false, ""},
		"whether its source is checked":         {id, "sourceDestCheck", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.SourceDestCheck.Value }, true, ""},
		"whether it is optimized for EBS":       {id, "ebsOptimized", func(o *ec2.DescribeInstanceAttributeOutput) any { return *o.EbsOptimized.Value }, true, ""},
		"user data that it has not":             {id, "userData", func(o *ec2.DescribeInstanceAttributeOutput) any { return o.UserData.Value == nil }, true, ""},
		"ENA, which EC2 does not describe":      {id, "enaSupport", nil, nil, "InvalidParameterValue"},
		"an attribute that there is not":        {id, "mood", nil, nil, "InvalidParameterValue"},
		"of an instance that is not there":      {"i-0123456789abcdef0", "instanceType", nil, nil, "InvalidInstanceID.NotFound"},
		"of an id of no form":                   {"i-xyz", "instanceType", nil, nil, "InvalidInstanceID.Malformed"},
		"of one that is not there, and unknown": {"i-0123456789abcdef0", "mood", nil, nil, "InvalidInstanceID.NotFound"},
	} {
		out, err := c.client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: &tt.id, Attribute: tt.attribute})
		if got := ec2test.Code(out, err); got != tt.code {
			t.Errorf("%s: %q, want %q", name, got, tt.code)
		} else if err == nil && (tt.value(out) != tt.want || *out.InstanceId != id) {
			t.Errorf("%s: %v, want %v", name, tt.value(out), tt.want)
		}
	}
}

func TestTheStatusIsThatOfTheRunningUnlessAllAreRequested(t *testing.T) {
	c := newCloud(t)
	running, ended := c.launch("on-demand", 1)[0], c.launch("on-demand", 1)[0]
	c.clock.Advance(time.Minute)
	if err := c.Terminate(ended); err != nil {
		t.Fatal(err)
	}
	pending := c.launch("on-demand", 1)[0]
	if err := c.Impair(running, "system"); err != nil {
		t.Fatal(err)
	}
	since := c.clock.Now()
	if err := c.Impair(running, "instance-retirement"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		in   ec2.DescribeInstanceStatusInput
		want []string
		code string
	}{
		"by default":                            {want: []string{running}},
		"all":                                   {in: ec2.DescribeInstanceStatusInput{IncludeAllInstances: sdk.Bool(true)}, want: []string{running, ended, pending}},
		"by id, of one that does not run":       {in: ec2.DescribeInstanceStatusInput{InstanceIds: []string{ended}}},
		"by id, of all":                         {in: ec2.DescribeInstanceStatusInput{InstanceIds: []string{ended}, IncludeAllInstances: sdk.Bool(true)}, want: []string{ended}},
		"by the name of a state":                {in: ec2.DescribeInstanceStatusInput{IncludeAllInstances: sdk.Bool(true), Filters: ec2test.Filters("instance-state-name", "pending")}, want: []string{pending}},
		"by a check that fails":                 {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("system-status.status", "impaired")}, want: []string{running}},
		"by a check that passes":                {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("instance-status.status", "ok", "attached-ebs-status.status", "ok")}, want: []string{running}},
		"by a check that does not fail":         {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("attached-ebs-status.status", "impaired")}},
		"by an event":                           {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("event.code", "instance-retirement")}, want: []string{running}},
		"by an event that there is not":         {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("event.code", "instance-stop")}},
		"by zone":                               {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("availability-zone", "us-east-1a")}, want: []string{running}},
		"by a filter that there is not":         {in: ec2.DescribeInstanceStatusInput{Filters: ec2test.Filters("mood", "good")}, code: "InvalidParameterValue"},
		"by id in pages":                        {in: ec2.DescribeInstanceStatusInput{InstanceIds: []string{running}, MaxResults: sdk.Int32(5)}, code: "InvalidParameterCombination"},
		"of one that is not there":              {in: ec2.DescribeInstanceStatusInput{InstanceIds: []string{running, "i-0123456789abcdef0"}}, code: "InvalidInstanceID.NotFound"},
		"in pages of fewer than five instances": {in: ec2.DescribeInstanceStatusInput{MaxResults: sdk.Int32(4)}, code: "InvalidParameterValue"},
	} {
		out, err := c.client.DescribeInstanceStatus(t.Context(), &tt.in)
		var got []string
		if err == nil {
			for _, s := range out.InstanceStatuses {
				got = append(got, *s.InstanceId)
			}
		}
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
	c.clock.Advance(time.Minute)
	status := func() types.InstanceStatus {
		out, err := c.client.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: []string{running}})
		if err != nil {
			t.Fatal(err)
		}
		return out.InstanceStatuses[0]
	}
	if s := status(); s.SystemStatus.Status != "impaired" || s.SystemStatus.Details[0].Status != "failed" || !s.SystemStatus.Details[0].ImpairedSince.Equal(since) ||
		s.InstanceStatus.Details[0].ImpairedSince != nil || s.InstanceStatus.Details[0].Status != "passed" || s.Events[0].Code != "instance-retirement" {
		t.Errorf("impaired, it shows as %+v", s)
	}
	before := c.Clone()
	if err := c.Impair(running, ""); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.SystemStatus.Status != "ok" || len(s.Events) != 0 || before.instance(running).health.status("system") != "impaired" {
		t.Errorf("once it is well again it shows as %+v", s)
	}
	if c.Impair(running, "mood") == nil {
		t.Error("an unknown check fails")
	}
}

func TestAScheduledEventIsPublishedOfItsKind(t *testing.T) {
	c := newCloud(t)
	id := c.launch("on-demand", 1)[0]
	published := &c.deps.Events.(*others).published
	for check, want := range map[string][]string{
		"instance-reboot": {"AWS Health Event"}, "system-reboot": {"AWS Health Event"}, "system-maintenance": {"AWS Health Event"},
		"instance-retirement": {"AWS Health Event"}, "instance-stop": {"AWS Health Event"}, "instance": nil, "system": nil, "ebs": nil, "": nil,
	} {
		*published = nil
		if err := c.Impair(id, check); err != nil || !slices.Equal(*published, want) {
			t.Errorf("%q: %v, events %q, want %q", check, err, *published, want)
		}
	}
	for _, check := range []string{"", "system-reboot", "instance-stop"} {
		if err := c.Impair(id, check); err != nil {
			t.Fatal(err)
		}
	}
	c.clock.Advance(time.Minute)
	out, err := c.client.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}, Filters: ec2test.Filters("event.code", "system-reboot", "event.code", "instance-stop")})
	if err != nil || len(out.InstanceStatuses) != 1 || len(out.InstanceStatuses[0].Events) != 2 || *out.InstanceStatuses[0].Events[0].InstanceEventId == *out.InstanceStatuses[0].Events[1].InstanceEventId {
		t.Errorf("with two events it shows as %+v, %v", out, err)
	}
}
