// Package kindtest tests a kind of AWS resources against an emulated account: that it makes what is
// declared, puts right what is changed by hand, is unknown where a read is denied, and ends in the
// same state wherever its process dies. It is for tests alone. Start reading at Fixture.
package kindtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Fixture is one kind with one Cluster declaration, in an emulated account.
type Fixture struct {
	*testing.T
	resource.Kind
	Clients  *resource.Clients
	Cloud    *sandboxaws.Cloud
	Declared resource.Declaration
}

// AtOnce makes an account in which nothing takes time; more may be nil.
func AtOnce(more func(*sandboxaws.Config)) func(*sandboxaws.Config) {
	return func(cfg *sandboxaws.Config) {
		cfg.Delays.Visible, cfg.Delays.Update = 0, 0
		if more != nil {
			more(cfg)
		}
	}
}

// NewFixture makes a Fixture with an account of its own; change may be nil.
func NewFixture(t *testing.T, k resource.Kind, change func(*sandboxaws.Config), spec v1alpha1.ClusterSpec) *Fixture {
	t.Helper()
	c, cloud := NewCloud(t, AtOnce(change))
	return &Fixture{T: t, Kind: k, Clients: c, Cloud: cloud, Declared: Defaulted(c, spec)}
}

// Defaulted is a Cluster declaration for the scope of c, with its defaults.
func Defaulted(c *resource.Clients, spec v1alpha1.ClusterSpec) resource.Declaration {
	s := declared(c, spec)
	s.Spec = clusterspec.Default(s.Spec)
	return s
}

// Items are the desired resources.
func (l *Fixture) Items() []state.Item { return l.Desired(l.Declared) }

// Change changes the declaration.
func (l *Fixture) Change(change func(*v1alpha1.ClusterSpec)) {
	l.Declared.Spec = *l.Declared.Spec.DeepCopy()
	change(&l.Declared.Spec)
	l.Declared.Spec = clusterspec.Default(l.Declared.Spec)
}

// ReadAll reads all desired resources.
func (l *Fixture) ReadAll() map[state.Key]resource.Live {
	var keys []state.Key
	for _, item := range l.Items() {
		keys = append(keys, item.Key)
	}
	return l.Read(l.Context(), l.Clients, keys)
}

// ReadOne reads one resource, which must not be unknown.
func (l *Fixture) ReadOne(item state.Item) resource.Live {
	l.Helper()
	observed := l.Read(l.Context(), l.Clients, []state.Key{item.Key})[item.Key]
	if observed.Err != nil {
		l.Fatalf("%s: %v", item.Key, observed.Err)
	}
	return observed
}

// Differences are the names of the desired resources that are not as desired.
func (l *Fixture) Differences() []string {
	l.Helper()
	observed := l.ReadAll()
	var out []string
	for _, item := range l.Items() {
		if err := observed[item.Key].Err; err != nil {
			l.Fatalf("%s: %v", item.Key, err)
		}
		if !projection.Satisfied(item, observed[item.Key]) {
			out = append(out, item.Key.Name)
		}
	}
	return out
}

// Apply does what the target does: it reads each resource and writes what is
// not as desired.
func (l *Fixture) Apply(ctx context.Context, c *resource.Clients) error {
	for _, item := range l.Items() {
		live := l.Read(ctx, c, []state.Key{item.Key})[item.Key]
		if live.Err != nil {
			return live.Err
		}
		if projection.Satisfied(item, live) {
			continue
		}
		if err := l.Write(ctx, c, item, live); err != nil {
			return err
		}
	}
	return nil
}

// Converge corrects, and checks that everything is then as desired, and that a
// second correction sends nothing but reads.
func (l *Fixture) Converge() {
	l.Helper()
	if err := l.Apply(l.Context(), l.Clients); err != nil {
		l.Fatal(err)
	}
	observed := l.ReadAll()
	for _, item := range l.Items() {
		if diff := cmp.Diff(item.Object, projection.Project(item.Object, observed[item.Key].Object)); diff != "" {
			l.Errorf("%s after its correction (-desired +live):\n%s", item.Key, diff)
		}
		if observed[item.Key].UID == "" {
			l.Errorf("%s has no identity", item.Key)
		}
	}
	before := len(l.Cloud.Calls())
	if err := l.Apply(l.Context(), l.Clients); err != nil {
		l.Fatal(err)
	}
	for _, call := range l.Cloud.Calls()[before:] {
		if !connection.IsRead(call.Operation) {
			l.Errorf("with nothing to do it sent %s", call.Operation)
		}
	}
}

// Calls lists the operations since the n-th call, with how often.
func (l *Fixture) Calls(n int) map[string]int {
	out := map[string]int{}
	for _, call := range l.Cloud.Calls()[n:] {
		out[call.Operation]++
	}
	return out
}

// Break changes one resource by hand, checks that a difference is found, and has it put
// right.
func (l *Fixture) Break(how string, by func()) {
	l.Helper()
	if bad := l.Differences(); len(bad) > 0 {
		l.Fatalf("before %s: %v differ", how, bad)
	}
	by()
	if len(l.Differences()) == 0 {
		l.Errorf("%s: nothing is seen of it", how)
	}
	l.Converge()
}

// CrashingAfter returns clients of the same account whose n-th request, and all after it, fail as
// those of a process that died; with late, the n-th has had its effect.
func (l *Fixture) CrashingAfter(n int64, late bool) *resource.Clients {
	o := l.Clients.SQS.Options()
	var sent atomic.Int64
	return resource.NewClients(sdk.Config{
		Region: l.Clients.Scope.Region, BaseEndpoint: o.BaseEndpoint, RetryMaxAttempts: 1, Credentials: o.Credentials,
		HTTPClient: Doer(func(r *http.Request) (*http.Response, error) {
			turn := sent.Add(1)
			if turn > n || turn == n && !late {
				return nil, errDead
			}
			response, err := o.HTTPClient.Do(r)
			if err == nil && turn == n {
				_ = response.Body.Close()
				return nil, errDead
			}
			return response, err
		}),
	}, l.Clients.Scope)
}

var errDead = errors.New("the process is dead")

// Doer is a function that is an HTTP client.
type Doer func(*http.Request) (*http.Response, error)

// Do calls the function.
func (d Doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// Survives kills the correction at each of its requests, before and after its
// effect, and has the next process put everything right. set makes a Fixture in
// which there is something to do.
func Survives(t *testing.T, set func(t *testing.T) *Fixture) {
	t.Helper()
	for n := int64(1); ; n++ {
		ended := false
		for _, late := range []bool{false, true} {
			l := set(t)
			err := l.Apply(t.Context(), l.CrashingAfter(n, late))
			if err != nil && !errors.Is(err, errDead) {
				t.Fatalf("killed at request %d: %v", n, err)
			}
			ended = err == nil
			l.Converge()
		}
		if ended {
			if n < 3 {
				t.Fatalf("there was nothing to kill: all was done in %d requests", n-1)
			}
			return
		}
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
}

// RemoveAll removes all desired resources, twice, and checks that they are gone.
func (l *Fixture) RemoveAll() {
	l.Helper()
	for _, item := range l.Items() {
		live := l.ReadOne(item)
		for range 2 {
			if err := l.Remove(l.Context(), l.Clients, item.Key, live); err != nil {
				l.Fatalf("removing %s: %v", item.Key, err)
			}
		}
		if l.ReadOne(item).Object != nil {
			l.Errorf("%s is still there", item.Key)
		}
	}
}

// Requests checks which operations one observation costs.
func (l *Fixture) Requests(want map[string]int) {
	l.Helper()
	before := len(l.Cloud.Calls())
	l.ReadAll()
	if diff := cmp.Diff(want, l.Calls(before)); diff != "" {
		l.Errorf("one look (-want +got):\n%s", diff)
	}
}

// Deny makes one operation at a time fail, and checks that every desired resource is then
// unknown: neither there nor gone.
func (l *Fixture) Deny(service string, operations ...string) {
	l.Helper()
	for _, op := range operations {
		stop, err := l.Cloud.Inject(sandboxaws.Fault{Service: service, Operation: op, Code: "AccessDenied", Status: http.StatusForbidden, Message: "User is not authorized to perform: x:" + op})
		if err != nil {
			l.Fatal(err)
		}
		observed := l.ReadAll()
		stop()
		for _, item := range l.Items() {
			s := observed[item.Key]
			if s.Err == nil || s.Object != nil {
				l.Errorf("with %s denied, %s is %v, not unknown", op, item.Key, s.Object)
				continue
			}
			if !awserr.Denied(s.Err) {
				l.Errorf("with %s denied, %s says %v", op, item.Key, s.Err)
			}
		}
	}
}

// Do fails the test when a request by hand does.
func (l *Fixture) Do(_ any, err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// Delay makes one operation fail once as it does before a creation has taken effect
// everywhere, and checks that the error of the writer is awserr.ErrNotPropagated.
func (l *Fixture) Delay(service, operation string) {
	l.Helper()
	_, err := l.Cloud.Inject(sandboxaws.Fault{Service: service, Operation: operation, Code: "ResourceNotFoundException", Times: 1})
	if err != nil {
		l.Fatal(err)
	}
	if err := l.Apply(l.Context(), l.Clients); !errors.Is(err, awserr.ErrNotPropagated) {
		l.Errorf("with %s late: %v", operation, err)
	}
	l.Converge()
}

// Names are the names of items.
func Names(items []state.Item) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Key.Name)
	}
	return out
}

// Keys are the keys of items.
func Keys(items ...state.Item) []state.Key {
	var out []state.Key
	for _, i := range items {
		out = append(out, i.Key)
	}
	return out
}

// SpotInstance launches an EC2 Spot Instance and returns its id.
func SpotInstance(l *Fixture) string {
	l.Helper()
	ctx := l.Context()
	images, err := l.Clients.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{})
	if err != nil || len(images.Images) == 0 {
		l.Fatalf("images: %v", err)
	}
	nets, err := l.Clients.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil || len(nets.Subnets) == 0 {
		l.Fatalf("subnets: %v", err)
	}
	image := slices.IndexFunc(images.Images, func(i ec2types.Image) bool { return i.Architecture == ec2types.ArchitectureValuesX8664 })
	template := sdk.String("t-" + fmt.Sprint(len(l.Cloud.Calls())))
	l.Do(l.Clients.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: template, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: images.Images[image].ImageId},
	}))
	fleet, err := l.Clients.EC2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeSpot,
		},
		SpotOptions: &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: template, Version: sdk.String("$Latest")},
			Overrides: []ec2types.FleetLaunchTemplateOverridesRequest{{
				InstanceType: ec2types.InstanceTypeM5Large, SubnetId: nets.Subnets[0].SubnetId, AvailabilityZone: nets.Subnets[0].AvailabilityZone,
			}},
		}},
	})
	if err != nil || len(fleet.Instances) == 0 {
		l.Fatalf("fleet: %v %+v", err, fleet)
	}
	return fleet.Instances[0].InstanceIds[0]
}

// Texts are the sentences of findings, in their order.
func Texts(findings []finding.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Text)
	}
	return out
}
