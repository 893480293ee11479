package ec2

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

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
)

// cloud is EC2 with delays, the template "node", and the client.
type cloud struct {
	*Service
	t      *testing.T
	clock  *ec2test.Clock
	client *ec2.Client
	image  string // of x86_64
	subnet string // private, in us-east-1a
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	svc, clock, _ := newService(t)
	svc.account.Delays = api.Delays{Running: 2 * time.Second, Shutdown: 3 * time.Second, Interrupt: 2 * time.Minute, Removal: time.Hour}
	image, ok := svc.Images.Parameter("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatal("there is no image")
	}
	c := &cloud{svc, t, clock, ec2test.Client(svc.account, svc.Table().Operations), image.ImageID, svc.VPC.PrivateSubnets()[0]}
	c.template("node", nil)
	return c
}

// template makes a launch template of the image, with what change puts over it.
func (c *cloud) template(name string, change func(*types.RequestLaunchTemplateData)) {
	c.t.Helper()
	data := &types.RequestLaunchTemplateData{ImageId: &c.image}
	if change != nil {
		change(data)
	}
	if _, err := c.client.CreateLaunchTemplate(c.t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data}); err != nil {
		c.t.Fatal(err)
	}
}

// request is a fleet of m5.large in the private subnet.
func (c *cloud) request(template string, capacity types.DefaultTargetCapacityType, n int32) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		Type:                        "instant",
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{DefaultTargetCapacityType: capacity, TotalTargetCapacity: &n},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: sdk.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: &c.subnet}},
		}},
	}
}

// launch starts instances of the template "node", and returns their ids.
func (c *cloud) launch(capacity types.DefaultTargetCapacityType, n int32) []string {
	c.t.Helper()
	out, err := c.client.CreateFleet(c.t.Context(), c.request("node", capacity, n))
	if err != nil || len(out.Errors) > 0 {
		c.t.Fatalf("%v, %+v", err, out)
	}
	return out.Instances[0].InstanceIds
}

// states are those of the instances that EC2 shows.
func (c *cloud) states() (out []State) {
	for _, i := range c.Instances() {
		out = append(out, i.State)
	}
	return out
}

func (c *cloud) terminated(ids ...string) (*ec2.TerminateInstancesOutput, error) {
	return c.client.TerminateInstances(c.t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids})
}

func (c *cloud) stopped(ids ...string) (*ec2.StopInstancesOutput, error) {
	return c.client.StopInstances(c.t.Context(), &ec2.StopInstancesInput{InstanceIds: ids})
}

// The states and their codes as EC2's reference lists them.
func TestAnInstanceGoesThroughItsStates(t *testing.T) {
	type change struct {
		before, after types.InstanceStateName
		code          int32 // of the state after it
	}
	for name, tt := range map[string]struct {
		wait  time.Duration
		do    []string // stop or end, one after the other, three seconds apart
		want  []change
		later []State // three seconds after the last
	}{
		"nothing is done at first":    {wait: 2*time.Second - 1, later: []State{Running}},
		"a running one ends":          {wait: 2 * time.Second, do: []string{"end"}, want: []change{{"running", "shutting-down", 32}}, later: []State{Terminated}},
		"a pending one ends":          {do: []string{"end"}, want: []change{{"pending", "shutting-down", 32}}, later: []State{Terminated}},
		"an ended one ends again":     {wait: time.Minute, do: []string{"end", "end"}, want: []change{{"running", "shutting-down", 32}, {"terminated", "terminated", 48}}, later: []State{Terminated}},
		"a running one stops":         {wait: time.Minute, do: []string{"stop"}, want: []change{{"running", "stopping", 64}}, later: []State{stopped}},
		"a pending one stops":         {do: []string{"stop"}, want: []change{{"pending", "stopping", 64}}, later: []State{stopped}},
		"a stopped one stops again":   {wait: time.Minute, do: []string{"stop", "stop"}, want: []change{{"running", "stopping", 64}, {"stopped", "stopped", 80}}, later: []State{stopped}},
		"a stopped one ends":          {wait: time.Minute, do: []string{"stop", "end"}, want: []change{{"running", "stopping", 64}, {"stopped", "shutting-down", 32}}, later: []State{Terminated}},
		"an ended one is not stopped": {wait: time.Minute, do: []string{"end", "stop"}, want: []change{{"running", "shutting-down", 32}, {}}, later: []State{Terminated}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			id := c.launch("on-demand", 1)[0]
			c.clock.Advance(tt.wait)
			for n, action := range tt.do {
				var displayed []types.InstanceStateChange
				if action == "end" {
					out, err := c.terminated(id)
					if err != nil {
						t.Fatal(err)
					}
					displayed = out.TerminatingInstances
				} else {
					out, err := c.stopped(id)
					if tt.want[n] == (change{}) {
						if got := ec2test.Code(out, err); got != "IncorrectInstanceState" {
							t.Errorf("%q", got)
						}
						continue
					}
					displayed = out.StoppingInstances
				}
				if got := (change{displayed[0].PreviousState.Name, displayed[0].CurrentState.Name, *displayed[0].CurrentState.Code}); got != tt.want[n] || *displayed[0].InstanceId != id {
					t.Errorf("%s: %+v, want %+v", action, got, tt.want[n])
				}
				c.clock.Advance(3 * time.Second)
			}
			if len(tt.do) == 0 {
				c.clock.Advance(3 * time.Second)
			}
			if got := c.states(); !slices.Equal(got, tt.later) {
				t.Errorf("later %q, want %q", got, tt.later)
			}
		})
	}
}

func TestAnInstanceEndsOnceWhateverComesBetween(t *testing.T) {
	end := func(c *cloud, id string) error { return c.Terminate(id) }
	stop := func(c *cloud, id string) error { _, err := c.stopped(id); return err }
	for name, tt := range map[string]struct {
		do   []func(*cloud, string) error // a second apart, where an end takes three
		want []State
	}{
		"ended while it ends":   {[]func(*cloud, string) error{end, end}, []State{Pending, Running, ShuttingDown, Terminated}},
		"ended while it stops":  {[]func(*cloud, string) error{stop, end}, []State{Pending, Running, stopping, ShuttingDown, Terminated}},
		"stopped while it does": {[]func(*cloud, string) error{stop, stop, end}, []State{Pending, Running, stopping, ShuttingDown, Terminated}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			var entered []State
			c.deps.Entered = func(_ time.Time, s State, _ Instance) { entered = append(entered, s) }
			free := c.VPC.FreeAddresses(c.subnet)
			id := c.launch("on-demand", 1)[0]
			c.clock.Advance(time.Minute)
			for _, do := range tt.do {
				if err := do(c, id); err != nil {
					t.Fatal(err)
				}
				c.clock.Advance(time.Second)
			}
			c.clock.Advance(time.Minute)
			if !slices.Equal(entered, tt.want) {
				t.Errorf("it entered %q, want %q", entered, tt.want)
			}
			if got := c.VPC.FreeAddresses(c.subnet); got != free {
				t.Errorf("%d addresses are free, before its launch %d", got, free)
			}
		})
	}
}

func TestATerminatedInstanceIsVisibleForAWhile(t *testing.T) {
	c := newCloud(t)
	ids := c.launch("on-demand", 2)
	c.clock.Advance(time.Minute)
	if _, err := c.terminated(ids[0]); err != nil {
		t.Fatal(err)
	}
	c.clock.Advance(3 * time.Second)
	out, err := c.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids[:1]})
	if err != nil {
		t.Fatal(err)
	}
	if i := out.Reservations[0].Instances[0]; *i.State.Code != 48 || *i.StateReason.Code != "Client.UserInitiatedShutdown" || len(i.NetworkInterfaces) != 0 || len(i.BlockDeviceMappings) != 0 {
		t.Errorf("it shows as %+v", i)
	}
	c.clock.Advance(time.Hour)
	if got := ec2test.Code(c.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids[:1]})); got != "InvalidInstanceID.NotFound" {
		t.Errorf("an hour later %q", got)
	}
	if got := c.states(); !slices.Equal(got, []State{Running}) {
		t.Errorf("left: %q", got)
	}
	if c.Terminate(ids[0]) == nil || c.Interrupt(ids[0]) == nil || c.RecommendRebalance(ids[0]) == nil || c.Impair(ids[0], "system") == nil {
		t.Error("something was done to an instance that is gone")
	}
}

func TestInstancesEndOrStopAllOrNone(t *testing.T) {
	for name, tt := range map[string]struct {
		ids  func(onDemand, spot string) []string
		dry  bool
		end  string // codes
		stop string
	}{
		"both":                        {func(a, b string) []string { return []string{a, b} }, false, "", "UnsupportedOperation"},
		"one that is not there":       {func(a, _ string) []string { return []string{a, "i-0123456789abcdef0"} }, false, "InvalidInstanceID.NotFound", "InvalidInstanceID.NotFound"},
		"an id of no form":            {func(a, _ string) []string { return []string{a, "i-xyz"} }, false, "InvalidInstanceID.Malformed", "InvalidInstanceID.Malformed"},
		"an id of another kind":       {func(a, _ string) []string { return []string{a, "vol-0123456789abcdef0"} }, false, "InvalidInstanceID.Malformed", "InvalidInstanceID.Malformed"},
		"a dry run":                   {func(a, _ string) []string { return []string{a} }, true, "DryRunOperation", "DryRunOperation"},
		"a dry run of a spot request": {func(_, b string) []string { return []string{b} }, true, "DryRunOperation", "UnsupportedOperation"},
		"a dry run of what is not":    {func(_, _ string) []string { return []string{"i-0123456789abcdef0"} }, true, "InvalidInstanceID.NotFound", "InvalidInstanceID.NotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			ids := tt.ids(c.launch("on-demand", 1)[0], c.launch("spot", 1)[0])
			c.clock.Advance(time.Minute)
			if got := ec2test.Code(c.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids, DryRun: &tt.dry})); got != tt.stop {
				t.Errorf("stopping: %q, want %q", got, tt.stop)
			}
			if got := c.states(); !slices.Equal(got, []State{Running, Running}) {
				t.Errorf("after stopping was refused: %q", got)
			}
			if got := ec2test.Code(c.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: &tt.dry})); got != tt.end {
				t.Errorf("ending: %q, want %q", got, tt.end)
			}
			want := []State{Running, Running}
			if tt.end == "" {
				want = []State{ShuttingDown, ShuttingDown}
			}
			if got := c.states(); !slices.Equal(got, want) {
				t.Errorf("after ending: %q, want %q", got, want)
			}
		})
	}
}

func TestASpotRequestFollowsItsInstance(t *testing.T) {
	for name, tt := range map[string]struct {
		end           func(c *cloud, id string) error
		state, status string
	}{
		"while it runs":            {func(*cloud, string) error { return nil }, "active", "fulfilled"},
		"ended by somebody":        {func(c *cloud, id string) error { return c.Terminate(id) }, "closed", "instance-terminated-by-user"},
		"once it was warned":       {func(c *cloud, id string) error { return c.Interrupt(id) }, "active", "fulfilled"},
		"ended by an interruption": {func(c *cloud, id string) error { err := c.Interrupt(id); c.clock.Advance(2 * time.Minute); return err }, "closed", "instance-terminated-by-price"},
		"ended by somebody after a warning": {func(c *cloud, id string) error {
			err := c.Interrupt(id)
			c.clock.Advance(time.Minute)
			if err == nil {
				err = c.Terminate(id)
			}
			c.clock.Advance(time.Minute)
			return err
		}, "closed", "instance-terminated-by-user"},
		"advised to leave": {func(c *cloud, id string) error { return c.RecommendRebalance(id) }, "active", "fulfilled"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.launch("on-demand", 1)
			id := c.launch("spot", 1)[0]
			c.clock.Advance(time.Minute)
			if err := tt.end(c, id); err != nil {
				t.Fatal(err)
			}
			out, err := c.client.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{
				Filters: ec2test.Filters("instance-id", id, "state", tt.state, "status-code", tt.status, "type", "one-time", "launch.instance-type", "m5.large", "launched-availability-zone", "us-east-1a")})
			if err != nil || len(out.SpotInstanceRequests) != 1 {
				t.Fatalf("%+v, %v", out, err)
			}
			r := out.SpotInstanceRequests[0]
			got, err := c.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: ec2test.Filters("spot-instance-request-id", *r.SpotInstanceRequestId)})
			if err != nil || len(got.Reservations) != 1 || *got.Reservations[0].Instances[0].InstanceId != id {
				t.Errorf("the instance of the request: %+v, %v", got, err)
			}
			if string(r.State) != tt.state || *r.Status.Code != tt.status || *r.LaunchSpecification.SubnetId != c.subnet {
				t.Errorf("it shows as %+v", r)
			}
		})
	}
	c := newCloud(t)
	for id, want := range map[string]string{
		"sir-01234567": "InvalidSpotInstanceRequestID.NotFound", "sir-1": "InvalidSpotInstanceRequestID.Malformed", "i-01234567": "InvalidSpotInstanceRequestID.Malformed",
	} {
		if got := ec2test.Code(c.client.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{id}})); got != want {
			t.Errorf("request %s: %q, want %q", id, got, want)
		}
	}
}

func TestOnlyWhatCanBeTakenBackIsInterrupted(t *testing.T) {
	c := newCloud(t)
	zone, _ := c.VPC.SubnetZone(c.subnet)
	id, err := c.Reservations.Add(reservations.Reservation{Type: "m5.large", Zone: zone.Name, Total: 1, Interruptible: true, Targeted: true})
	if err != nil {
		t.Fatal(err)
	}
	c.template("interruptible", func(d *types.RequestLaunchTemplateData) {
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &id}}
	})
	out, err := c.client.CreateFleet(t.Context(), c.request("interruptible", "on-demand", 1))
	if err != nil || len(out.Instances) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	interruptible, plain, spot := out.Instances[0].InstanceIds[0], c.launch("on-demand", 1)[0], c.launch("spot", 1)[0]
	c.clock.Advance(time.Minute)
	published := &c.deps.Events.(*others).published
	for _, tt := range []struct {
		name, id string
		do       func(string) error
		events   []string
	}{
		{"an instance on demand", plain, c.Interrupt, nil},
		{"an instance on demand, advised", plain, c.RecommendRebalance, nil},
		{"one of interruptible capacity, advised", interruptible, c.RecommendRebalance, nil},
		{"a spot instance, advised", spot, c.RecommendRebalance, []string{"EC2 Instance Rebalance Recommendation"}},
		{"a spot instance", spot, c.Interrupt, []string{"EC2 Spot Instance Interruption Warning"}},
		{"one of interruptible capacity", interruptible, c.Interrupt, []string{"EC2 Capacity Reservation Instance Interruption Warning"}},
	} {
		*published = nil
		if err := tt.do(tt.id); (err == nil) != (tt.events != nil) || !slices.Equal(*published, tt.events) {
			t.Errorf("%s: %v, events %q", tt.name, err, *published)
		}
	}
	c.clock.Advance(2*time.Minute - time.Nanosecond)
	if got := c.states(); !slices.Equal(got, []State{Running, Running, Running}) {
		t.Errorf("before the time of the warning: %q", got)
	}
	c.clock.Advance(time.Nanosecond)
	if got := c.states(); !slices.Equal(got, []State{ShuttingDown, Running, ShuttingDown}) {
		t.Errorf("at the time of the warning: %q", got)
	}
	reasons := map[string]string{}
	for _, i := range c.instances {
		reasons[i.ID] = i.termination.reason
	}
	if diff := cmp.Diff(map[string]string{interruptible: "Server.CapacityReservationTermination", plain: "", spot: "Server.SpotInstanceTermination"}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if c.Interrupt(spot) == nil || c.Interrupt(interruptible) == nil {
		t.Error("what ends was interrupted again")
	}
}

func TestNoVerbPrintsUserData(t *testing.T) {
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q"} {
		for _, v := range []any{Instance{ID: "i-1", UserData: "secret"}, &Instance{ID: "i-1", UserData: "secret"}, []Instance{{ID: "i-1", UserData: "secret"}}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "secret") || !strings.Contains(text, "i-1") {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
}
