package aws

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
)

// queued declares the interruption queue and its rules.
func queued(part v1alpha1.ManagementPolicy) func(*v1alpha1.ClusterSpec) {
	return func(s *v1alpha1.ClusterSpec) {
		s.InterruptionQueue = &v1alpha1.InterruptionQueue{ManagementPolicy: part}
	}
}

func nothing(*v1alpha1.ClusterSpec) {}

func TestWithoutAnAWSPartNoRequestReachesAWS(t *testing.T) {
	b := newBench(t, nil)
	for _, declared := range []state.Set{{}, b.declare(nothing)} {
		if p := b.plan(declared); !p.Empty() {
			t.Errorf("got %s", show(p))
		}
	}
	if n := b.wire.requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestADeniedRequestLeavesTheRestKnown(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	end := b.fault(sandboxaws.Fault{Service: "sqs", Operation: "GetQueueAttributes", Code: "AccessDenied", Status: 403,
		Message: "User: arn:aws:sts::000000000000:assumed-role/poolwright/i-0123 is not authorized to perform: sqs:GetQueueAttributes on resource: arn"})
	rule := b.disableRule(0)
	p := b.plan(declared)
	if len(p.Unknown) != 1 || p.Unknown[0].Key.Kind != "Queue" || len(p.Changes) != 1 || p.Changes[0].Key.Name != rule {
		t.Fatalf("got %s", show(p))
	}
	reason := p.Unknown[0].Reason
	if !strings.Contains(reason, "the action sqs:GetQueueAttributes") || strings.Contains(reason, "i-0123") {
		t.Errorf("the reason is %q", reason)
	}
	status := b.status()
	if len(status.Unknown) != 1 || len(status.Differences) != 1 || !strings.Contains(status.Differences[0].Message, "state is DISABLED, declared is ENABLED") {
		t.Errorf("the status is %+v", status)
	}
	for k, err := range b.apply(t.Context(), p) {
		t.Fatalf("%s: %v", k, err)
	}
	end()
	b.converged(declared)
}

func TestThrottlingOnEveryCallEndsInUnknown(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	defer b.fault(sandboxaws.Fault{Throttle: true})()
	for _, restarted := range []bool{false, true} {
		if restarted {
			b.restart()
		}
		p := b.plan(declared)
		if len(p.Unknown) != b.want(declared).Len() || len(p.Changes) > 0 || p.Unchanged != 0 {
			t.Errorf("restarted %v: got %d unknown, %d unchanged, %s", restarted, len(p.Unknown), p.Unchanged, show(p))
		}
		for _, u := range p.Unknown {
			if !strings.HasPrefix(u.Reason, "throttled") {
				t.Errorf("%s: %s", u.Key, u.Reason)
			}
		}
	}
	// Nor is what is not desired any more taken for gone.
	if p := b.plan(b.declare(nothing)); len(p.Changes) > 0 || len(p.Unknown) != 6 {
		t.Errorf("undesired: %s", show(p))
	}
}

func TestAnotherAccountIsNeverTouched(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(deleting)(s)
		s.Account = "123456789012"
	})
	p := b.plan(declared)
	if len(p.Changes) > 0 || len(p.Unknown) != 6 {
		t.Fatalf("got %s", show(p))
	}
	for _, u := range p.Unknown {
		if !strings.Contains(u.Reason, "account 000000000000") || !strings.Contains(u.Reason, "account 123456789012") {
			t.Errorf("%s", u.Reason)
		}
	}
	item := b.want(declared).Items()[0]
	if err := b.target.Apply(t.Context(), plan.Change{Key: item.Key, Action: plan.Create, After: &item}); err == nil {
		t.Error("a thing was made in another account")
	}
	if w := b.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

func TestCredentialsThatEndMakeEverythingUnknown(t *testing.T) {
	gone := false
	b := newBench(t, nil)
	b.mod = func(c *Config) {
		inner := c.AWS
		c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
			cfg, err := inner(ctx, region)
			good := cfg.Credentials
			cfg.Credentials = sdk.CredentialsProviderFunc(func(ctx context.Context) (sdk.Credentials, error) {
				if gone {
					return sdk.Credentials{}, errors.New("token hunter2 was refused")
				}
				return good.Retrieve(ctx)
			})
			return cfg, err
		}
	}
	b.restart()
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	for what, spoil := range map[string]func() func(){
		"there are none any more": func() func() { gone = true; return func() { gone = false } },
		"they have expired": func() func() {
			return b.fault(sandboxaws.Fault{Code: "ExpiredToken", Status: 403, Message: "The security token included in the request is expired"})
		},
	} {
		mend := spoil()
		p := b.plan(declared)
		if len(p.Changes) > 0 || len(p.Unknown) != 6 {
			t.Errorf("%s: got %s", what, show(p))
		}
		for _, u := range p.Unknown {
			if !strings.Contains(u.Reason, "credentials") || strings.Contains(u.Reason, "hunter2") {
				t.Errorf("%s: %s", what, u.Reason)
			}
		}
		mend()
		if p := b.plan(declared); !p.Empty() {
			t.Errorf("%s, and came back: got %s", what, show(p))
		}
	}
}

func TestWhatIsUnknownKeepsItsSince(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	end := b.fault(sandboxaws.Fault{Service: "sqs", Throttle: true})
	since := func() metav1.Time {
		t.Helper()
		u := b.status().Unknown
		if len(u) != 1 {
			t.Fatalf("got %v", u)
		}
		return u[0].Since
	}
	b.plan(declared)
	first := since()
	b.target.poll(t.Context())
	b.plan(declared)
	if again := since(); !again.Equal(&first) {
		t.Errorf("since %s became %s", first, again)
	}
	end()
	b.target.poll(t.Context())
	if u := b.status().Unknown; len(u) != 0 {
		t.Errorf("still unknown: %v", u)
	}
}

// Who calls a target has left such changes out; a target refuses them all the same.
func TestAChangeThatIsHeldOrReadOnlyIsRefused(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	rule := interruption.RuleNames(b.config.Cluster.Name)[0]
	if _, err := b.hand.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &rule, EventPattern: new(`{"source":["a"]}`), State: "DISABLED"}); err != nil {
		t.Fatal(err)
	}
	held := b.plan(declared).Changes[0]
	readOnly := held.AsReadOnly("by a test")
	held.Hold = hold.Reasons{{Rule: hold.MaxPrunePercent}}
	before := len(b.writes())
	for name, c := range map[string]plan.Change{"held": held, "read-only": readOnly} {
		if err := b.target.Apply(t.Context(), c); err == nil {
			t.Errorf("a change that is %s was made", name)
		}
	}
	if after := b.writes(); len(after) != before {
		t.Errorf("written: %v", after[before:])
	}
}

func TestAThingThatMovedSinceThePlanIsLeftToTheNextRun(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	rule := interruption.RuleNames(b.config.Cluster.Name)[0]
	disable := func(pattern string) {
		t.Helper()
		_, err := b.hand.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &rule, EventPattern: &pattern, State: "DISABLED"})
		if err != nil {
			t.Fatal(err)
		}
	}
	disable(`{"source":["a"]}`)
	p := b.plan(declared)
	disable(`{"source":["b"]}`)
	err := b.target.Apply(t.Context(), p.Changes[0])
	if !errors.Is(err, targets.ErrChanged) {
		t.Fatalf("got %v", err)
	}
	// Whoever prints it names the change.
	if got, want := err.Error(), "somebody else has changed it: "+targets.ErrChanged.Error(); got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
	b.reconcile(declared)
	b.converged(declared)
	// Somebody else may have done it already.
	b.removeRule(t, state.Key{Name: rule})
	p = b.plan(declared)
	b.restart()
	b.reconcile(declared)
	before := len(b.writes())
	if err := b.target.Apply(t.Context(), p.Changes[0]); err != nil {
		t.Errorf("what is done already: %v", err)
	}
	if n := len(b.writes()); n != before {
		t.Errorf("%d writes for what was done already", n-before)
	}
}

func TestNothingIsWrittenByAProcessThatMayNotAnyMore(t *testing.T) {
	stale, requested := false, 0
	b := newBench(t, nil, func(c *Config) {
		c.Begin = func() (func(), error) {
			if requested++; stale && requested > 1 {
				return nil, errors.New("the lease was lost")
			}
			return func() {}, nil
		}
	})
	declared := b.declare(queued(deleting))
	p := b.plan(declared)
	stale, requested = true, 0
	// The first question is Apply's own, the second the request's.
	err := b.target.Apply(t.Context(), p.Changes[0])
	if err == nil || !strings.Contains(err.Error(), "the lease was lost") {
		t.Errorf("got %v", err)
	}
	if w := b.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
	b.plan(declared) // Looking is free.
}

func TestWatchReportsWhatDriftedAndNotWhatIsOnlyCompared(t *testing.T) {
	b := newBench(t, nil, func(c *Config) { c.Poll = 20 * time.Millisecond })
	declared := b.declare(func(s *v1alpha1.ClusterSpec) { queued(deleting)(s); s.Version = "1.20" })
	p := b.plan(declared)
	if errs := b.apply(t.Context(), p); len(errs) > 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []state.Key
	rule := b.disableRule(2)
	if err := b.target.Watch(ctx, func(keys []state.Key) { got = keys; cancel() }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Name != rule {
		t.Errorf("reported: %v", got)
	}
	status := b.status()
	if len(status.Differences) != 2 {
		t.Errorf("the status tells of %v", status.Differences)
	}
}

func TestTheTargetsOwnRetriesEndSoon(t *testing.T) {
	b := newBench(t, nil, func(c *Config) {
		inner := c.AWS
		c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
			cfg, err := inner(ctx, region)
			cfg.RetryMaxAttempts = 0
			return cfg, err
		}
	})
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	end := b.fault(sandboxaws.Fault{Service: "sqs", Throttle: true, Times: 1})
	if p := b.plan(declared); !p.Empty() {
		t.Errorf("one refusal is not outlasted: %s", show(p))
	}
	end()
	defer b.fault(sandboxaws.Fault{Service: "sqs", Throttle: true})()
	before := len(b.cloud.Calls())
	p := b.plan(declared)
	if len(p.Unknown) != 1 || p.Unchanged != 5 {
		t.Errorf("got %s", show(p))
	}
	refused := 0
	for _, c := range b.cloud.Calls()[before:] {
		if c.Service == "sqs" {
			refused++
		}
	}
	if refused == 0 || refused > connection.Attempts {
		t.Errorf("%d requests were refused, want at most %d", refused, connection.Attempts)
	}
}

func TestReadyWaitsForNoPermission(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	defer b.fault(sandboxaws.Fault{Service: "sqs", Code: "AccessDenied", Status: 403, Message: "no"})()
	var keys []state.Key
	for _, item := range b.want(declared).Items() {
		keys = append(keys, item.Key)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	late, err := b.target.Ready(ctx, keys)
	if err != nil || ctx.Err() != nil || len(late) != 1 {
		t.Fatalf("got %v, %v", late, err)
	}
	for k, why := range late {
		if k.Kind != "Queue" || !strings.Contains(why, "denied") {
			t.Errorf("%s: %s", k, why)
		}
	}
}

func TestAQueueThatWasDeletedAMomentAgoIsWaitedFor(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	b.converge(b.declare(nothing))
	errs := b.apply(t.Context(), b.plan(declared))
	if len(errs) != 1 {
		t.Fatalf("got %v", errs)
	}
	for _, err := range errs {
		class, reason, after := state.Classify(err)
		if class != state.Wait || reason != "QueueDeletedRecently" || after < time.Minute {
			t.Errorf("got %s %s %s: %v", class, reason, after, err)
		}
	}
}
