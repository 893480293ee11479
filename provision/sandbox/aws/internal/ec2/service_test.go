package ec2

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// others has every profile and no quota that binds; it keeps the kinds of events.
type others struct{ published []string }

func (*others) HasProfile(string, time.Time) bool { return true }
func (*others) ProfileRole(string) string         { return "" }
func (*others) PassRole(string, string) api.AuthorizationRequest {
	return api.AuthorizationRequest{}
}
func (*others) Exceeds(string, int) bool { return false }
func (o *others) Publish(_ time.Time, e events.Event) {
	o.published = append(o.published, e.DetailType)
}

// loaded is the catalogue of instance types, which every test shares.
var loaded = sync.OnceValues(catalog.Load)

func newService(t *testing.T) (svc *Service, clock *ec2test.Clock, entered *[]State) {
	t.Helper()
	account, clock := ec2test.NewAccount()
	shared, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	offers, err := offerings.New(account, shared)
	if err != nil {
		t.Fatal(err)
	}
	o, entered := &others{}, &[]State{}
	return New(account, offers, Config{Version: "1.33", Releases: []string{"v20260115"}}, Dependencies{Profiles: o, Quotas: o, Events: o,
		Entered: func(_ time.Time, s State, _ Instance) { *entered = append(*entered, s) }}), clock, entered
}

// do runs an operation with a form, and returns the text of what it shows.
func do(t *testing.T, svc *Service, op, form string) string {
	t.Helper()
	f, err := query.Parse(form)
	if err != nil {
		t.Fatal(err)
	}
	got, err := svc.Table().Operations[op].Run(&api.Call{Op: op, Form: f, Params: form, Now: svc.account.Clock.Now()})
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	elements, _ := got.([]query.Element)
	return string(query.Document(query.Group(op, elements...), ""))
}

// launchOne starts one instance in a zone by a fleet.
func launchOne(t *testing.T, svc *Service) {
	t.Helper()
	image, ok := svc.Images.Parameter("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatal("there is no image")
	}
	do(t, svc, "CreateLaunchTemplate", "LaunchTemplateName=node&LaunchTemplateData.ImageId="+image.ImageID)
	do(t, svc, "CreateFleet", "Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&TargetCapacitySpecification.DefaultTargetCapacityType=on-demand"+
		"&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=node&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1"+
		"&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large&LaunchTemplateConfigs.1.Overrides.1.SubnetId="+svc.VPC.PrivateSubnets()[0])
}

func TestACopyShowsWhatWasThereInEveryPartOfEC2(t *testing.T) {
	svc, clock, entered := newService(t)
	zone, _ := svc.VPC.SubnetZone(svc.VPC.PrivateSubnets()[0])
	if _, err := svc.Reservations.Add(reservations.Reservation{Type: "m5.large", Zone: zone.Name, Total: 3}); err != nil {
		t.Fatal(err)
	}
	launchOne(t, svc)
	clock.Advance(0)
	got := func(svc *Service) map[string]string {
		out := map[string]string{}
		for _, op := range []string{"DescribeInstances", "DescribeVolumes", "DescribeNetworkInterfaces", "DescribeSubnets", "DescribeCapacityReservations",
			"DescribeLaunchTemplates", "DescribeInstanceStatus"} {
			out[op] = do(t, svc, op, "")
		}
		return out
	}
	before, then := svc.Clone(), got(svc)
	if err := svc.Terminate(svc.Instances()[0].ID); err != nil {
		t.Fatal(err)
	}
	do(t, svc, "DeleteLaunchTemplate", "LaunchTemplateName=node")
	clock.Advance(0)
	if diff := cmp.Diff(then, got(before)); diff != "" {
		t.Errorf("the copy has changed (-then +now):\n%s", diff)
	}
	for op, text := range got(svc) {
		if text == then[op] {
			t.Errorf("%s shows the same without the instance as with it:\n%s", op, text)
		}
	}
	if !strings.Contains(then["DescribeCapacityReservations"], "<availableInstanceCount>2<") {
		t.Errorf("the instance is not in the reservation:\n%s", then["DescribeCapacityReservations"])
	}
	if diff := cmp.Diff([]State{Pending, Running, ShuttingDown, Terminated}, *entered); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func TestAnInstanceCostsFromItsLaunchToItsEnd(t *testing.T) {
	svc, clock, _ := newService(t)
	launchOne(t, svc)
	clock.Advance(0)
	at := func(d time.Duration) float64 { return svc.Spend(clock.Now().Add(d)) }
	hour := at(time.Hour)
	if minute := at(time.Second); hour <= 0 || minute != at(time.Minute) || at(2*time.Hour) != 2*hour {
		t.Errorf("a second costs %v, an hour %v, two %v", minute, hour, at(2*time.Hour))
	}
	clock.Advance(time.Hour)
	if err := svc.Terminate(svc.Instances()[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := at(time.Hour); got != hour {
		t.Errorf("an hour after its end an instance of an hour has cost %v, want %v", got, hour)
	}
}
