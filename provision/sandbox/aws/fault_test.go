package aws_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func (w *fixture) inject(t *testing.T, f sandboxaws.Fault) (remove func()) {
	t.Helper()
	remove, err := w.cloud.Inject(f)
	ok(t, err)
	return remove
}

func TestFaultsFailWhatTheyMatch(t *testing.T) {
	w := newFixture(t, nil)
	subnets := func() error { return drop(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})) }
	remove := w.inject(t, sandboxaws.Fault{Service: "ec2", Operation: "DescribeSubnets", Code: "InternalError", Status: 500, Message: "broken"})
	wantCode(t, subnets(), "InternalError")
	wantCode(t, drop(w.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})), "")
	remove()
	wantCode(t, subnets(), "")

	w.inject(t, sandboxaws.Fault{Operation: "DescribeSubnets", Code: "Twice", Times: 2})
	wantCode(t, subnets(), "Twice")
	wantCode(t, subnets(), "Twice")
	wantCode(t, subnets(), "")

	w.inject(t, sandboxaws.Fault{Match: "subnet-0a000000000000001", Code: "OnlyThatOne"})
	wantCode(t, drop(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0a000000000000001"}})), "OnlyThatOne")
	wantCode(t, drop(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0a000000000000002"}})), "")
}

func TestEveryServiceThrottlesWithItsOwnCode(t *testing.T) {
	w := newFixture(t, nil)
	w.inject(t, sandboxaws.Fault{Throttle: true})
	ctx := t.Context()
	for want, err := range map[string]error{
		"RequestLimitExceeded": drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})),
		"Throttling":           drop(w.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})),
		"ThrottlingException":  drop(w.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String("sandbox")})),
	} {
		wantCode(t, err, want)
		if !(retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}).IsErrorThrottle(err).Bool() {
			t.Errorf("the SDK does not see %v as throttling", err)
		}
	}
}

func TestTheSDKRetriesThroughAThrottle(t *testing.T) {
	w := newFixture(t, nil)
	w.inject(t, sandboxaws.Fault{Service: "ssm", Throttle: true, Times: 2})
	w.cfg.RetryMaxAttempts = 0 // else it goes before the retryer's own
	client := ssm.NewFromConfig(w.cfg, func(o *ssm.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.Backoff = 3, retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	})
	_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: sdk.String("/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id")})
	ok(t, err)
	if n := len(w.cloud.Calls()); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

func TestALostResponseLeavesItsEffect(t *testing.T) {
	w, zones := ready(t, nil)
	w.inject(t, sandboxaws.Fault{Operation: "CreateFleet", Code: "InternalError", Status: 500, Lost: true, Times: 1})
	in := fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})
	in.ClientToken = sdk.String("retried")
	_, err := w.ec2.CreateFleet(t.Context(), in)
	wantCode(t, err, "InternalError")
	if n := len(w.cloud.Instances()); n != 1 {
		t.Fatalf("%d instances", n)
	}
	out, err := w.ec2.CreateFleet(t.Context(), in)
	ok(t, err)
	if n := len(w.cloud.Instances()); n != 1 || out.Instances[0].InstanceIds[0] != w.cloud.Instances()[0].ID {
		t.Errorf("the repeated request made it %d instances", n)
	}
}

func TestADelayHoldsTheResponseNotTheEffect(t *testing.T) {
	w, zones := ready(t, func(c *sandboxaws.Config) { c.Delays.Fleet = time.Second })
	w.inject(t, sandboxaws.Fault{Operation: "CreateFleet", Delay: 10 * time.Second})
	events := w.cloud.Watch(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- drop(w.ec2.CreateFleet(context.Background(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})))
	}()
	w.clock.waitTimers(t, 1)
	if n := len(w.cloud.Instances()); n != 0 {
		t.Errorf("%d instances before the fleet's own second", n)
	}
	w.clock.advance(time.Second)
	if e := <-events; e.Kind != sandboxaws.Pending {
		t.Errorf("event %s", e.Kind)
	}
	select {
	case err := <-done:
		t.Fatalf("answered before its delay: %v", err)
	default:
	}
	w.clock.waitTimers(t, 2) // running, and the delayed answer
	w.clock.advance(10 * time.Second)
	ok(t, <-done)
}

func TestAFleetIsLaunchedForACallerThatDied(t *testing.T) {
	w, zones := ready(t, func(c *sandboxaws.Config) { c.Delays.Fleet = time.Second })
	events := w.cloud.Watch(t.Context())
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- drop(w.ec2.CreateFleet(ctx, fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})))
	}()
	w.clock.waitTimers(t, 1)
	kill()
	if err := <-done; err == nil {
		t.Error("the dead caller got an answer")
	}
	w.clock.advance(time.Second)
	if e := <-events; e.Kind != sandboxaws.Pending {
		t.Errorf("event %s", e.Kind)
	}
}

func TestStaleResponsesComeFromTheTimeOfTheFault(t *testing.T) {
	w, zones := ready(t, nil)
	launch := func() {
		t.Helper()
		_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))
		ok(t, err)
	}
	count := func() (n int, first string) {
		t.Helper()
		out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		ok(t, err)
		return len(out.Reservations), string(out.Reservations[0].Instances[0].State.Name)
	}
	launch()
	remove := w.inject(t, sandboxaws.Fault{Service: "ec2", Stale: true})
	launch()
	w.clock.advance(time.Minute)
	if n, state := count(); n != 1 || state != "pending" {
		t.Errorf("stale: %d instances, the first %s; want 1, pending", n, state)
	}
	remove()
	if n, state := count(); n != 2 || state != "running" {
		t.Errorf("now: %d instances, the first %s; want 2, running", n, state)
	}
}

func TestAFaultThatCannotActIsRefused(t *testing.T) {
	w := newFixture(t, nil)
	for name, f := range map[string]sandboxaws.Fault{
		"an unknown service":         {Service: "s3", Code: "X"},
		"an unknown operation":       {Service: "ec2", Operation: "MakeCoffee", Code: "X"},
		"nothing":                    {Service: "ec2"},
		"a status without a code":    {Status: 500},
		"two failures":               {Code: "X", Throttle: true},
		"a lost response of nothing": {Lost: true, Delay: time.Second},
		"a status of success":        {Code: "X", Status: 200},
		"a stale write":              {Service: "ec2", Operation: "CreateFleet", Stale: true},
	} {
		if _, err := w.cloud.Inject(f); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestRateLimitsApplyWhenConfigured(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.LimitsRequests = true })
	ids := &ec2.TerminateInstancesInput{InstanceIds: []string{"i-00000000000000000"}}
	for range 100 {
		_, err := w.ec2.TerminateInstances(t.Context(), ids)
		wantCode(t, err, "InvalidInstanceID.NotFound")
	}
	wantCode(t, drop(w.ec2.TerminateInstances(t.Context(), ids)), "RequestLimitExceeded")
	wantCode(t, drop(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})), "")
	wantCode(t, drop(w.iam.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{})), "")
	w.clock.advance(time.Second)
	for range 5 {
		wantCode(t, drop(w.ec2.TerminateInstances(t.Context(), ids)), "InvalidInstanceID.NotFound")
	}
	wantCode(t, drop(w.ec2.TerminateInstances(t.Context(), ids)), "RequestLimitExceeded")
}

func TestASlowWatcherLosesNothing(t *testing.T) {
	w, zones := ready(t, nil)
	events := w.cloud.Watch(t.Context())
	const n = 300
	_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", n, pool{"g5.xlarge", zones["us-east-1a"], 0}))
	ok(t, err)
	w.clock.advance(time.Minute)
	observed := map[string]int{}
	for range 2 * n {
		select {
		case e := <-events:
			observed[string(e.Kind)]++
		case <-time.After(time.Minute):
			t.Fatalf("events stopped at %v", observed)
		}
	}
	if observed["pending"] != n || observed["running"] != n {
		t.Errorf("events %v, want %d of each", observed, n)
	}
}

func TestConfigNamesWhatIsInvalid(t *testing.T) {
	for name, change := range map[string]func(*sandboxaws.Config){
		"the region":     func(c *sandboxaws.Config) { c.Region = "mars" },
		"another region": func(c *sandboxaws.Config) { c.Region = "xx-east-1" },
		"the account":    func(c *sandboxaws.Config) { c.Account = "1" },
		"no cluster":     func(c *sandboxaws.Config) { c.Cluster = sandboxaws.Cluster{} },
		"the version":    func(c *sandboxaws.Config) { c.Cluster.Version = "v1.33" },
		"the release":    func(c *sandboxaws.Config) { c.Releases = []string{"latest"} },
		"no releases":    func(c *sandboxaws.Config) { c.Releases = nil },
		"the log type":   func(c *sandboxaws.Config) { c.Cluster.Logging = []string{"kubelet"} },
		"a group's sizes": func(c *sandboxaws.Config) {
			c.Cluster.NodeGroups = []sandboxaws.NodeGroup{{Name: "a", Min: 2, Desired: 1, Max: 3}}
		},
		"a group's name": func(c *sandboxaws.Config) { c.Cluster.NodeGroups = []sandboxaws.NodeGroup{{Max: 1}} },
		"a group's taint": func(c *sandboxaws.Config) {
			c.Cluster.NodeGroups = []sandboxaws.NodeGroup{{Name: "a", Max: 1, Taints: []string{"a=b:NoSchedule"}}}
		},
		"a group's purchase option": func(c *sandboxaws.Config) {
			c.Cluster.NodeGroups = []sandboxaws.NodeGroup{{Name: "a", Max: 1, CapacityType: "LEASE"}}
		},
		"a profile's role": func(c *sandboxaws.Config) { c.Profiles = map[string]string{"p": ""} },
	} {
		cfg := sandboxaws.DefaultConfig()
		change(&cfg)
		if _, err := sandboxaws.New(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestAFleetMayGetMoreOrFewerInstancesThanRequested(t *testing.T) {
	for extra, want := range map[int]int{1: 3, -1: 1, -5: 0} {
		t.Run(fmt.Sprintf("%+d", extra), func(t *testing.T) {
			w, zones := ready(t, nil)
			w.inject(t, sandboxaws.Fault{Operation: "CreateFleet", Extra: extra, Times: 1})
			for n, want := range []int{want, 2} {
				out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 2, pool{"g5.xlarge", zones["us-east-1a"], 0}))
				ok(t, err)
				got := 0
				for _, i := range out.Instances {
					got += len(i.InstanceIds)
				}
				if got != want || len(out.Errors) > 0 {
					t.Errorf("request %d: got %d instances and %d errors, want %d and none", n, got, len(out.Errors), want)
				}
			}
		})
	}
	if _, err := newFixture(t, nil).cloud.Inject(sandboxaws.Fault{Operation: "RunInstances", Extra: 1}); err == nil {
		t.Error("another operation has a extra")
	}
}

func TestOthersMayUseUpTheRequestsOfTheAccount(t *testing.T) {
	w := newFixture(t, nil)
	subnets := func() error { return drop(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})) }
	wantCode(t, subnets(), "")
	lift, err := w.cloud.ShareRequests(0.1) // of 20 reads in a second
	ok(t, err)
	wantCode(t, subnets(), "RequestLimitExceeded")
	w.clock.advance(500 * time.Millisecond)
	wantCode(t, subnets(), "")
	wantCode(t, subnets(), "RequestLimitExceeded")
	ok(t, drop(w.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})))
	lift()
	wantCode(t, subnets(), "")
	if _, err := w.cloud.ShareRequests(0); err == nil {
		t.Error("others may leave nothing")
	}
}

func TestEveryServiceRefusesAKeyThatIsExpired(t *testing.T) {
	w, ctx := newFixture(t, nil), t.Context()
	renew := w.cloud.Expire("EMULATED")
	for want, call := range map[string]func() error{
		"RequestExpired": func() error { return drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})) },
		"ExpiredToken":   func() error { return drop(w.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})) },
		"ExpiredTokenException": func() error {
			return drop(w.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String("sandbox")}))
		},
	} {
		wantCode(t, call(), want)
	}
	renew()
	ok(t, drop(w.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})))
}
