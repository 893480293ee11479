package aws

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// withProblems are declarations with a problem in the Cluster.
func (b *bench) withProblems() map[string]state.Set {
	second := b.declare(queued(v1alpha1.ManagementPolicy{})).Items()[0]
	second.Key.Name = "second"
	return map[string]state.Set{
		"a tag of AWS": b.declare(func(s *v1alpha1.ClusterSpec) {
			queued(v1alpha1.ManagementPolicy{})(s)
			s.Tags = map[string]string{"aws:foo": "bar"}
		}),
		"two Clusters": state.NewSet(append(b.declare(queued(v1alpha1.ManagementPolicy{})).Items(), second)...),
	}
}

// read wants and observes, problems or not.
func (b *bench) read(declared state.Set) (desired state.Set, p plan.Plan, problems error) {
	b.Helper()
	desired, problems = b.target.Desired(b.Context(), declared)
	found, err := b.target.Observe(b.Context(), desired)
	if err != nil {
		b.Fatal(err)
	}
	return desired, plan.Compute(desired, found), problems
}

func TestAProblemInTheClusterDropsNoRecordAndIsNotInSync(t *testing.T) {
	b := newBench(t, nil)
	good := b.declare(queued(v1alpha1.ManagementPolicy{}))
	b.reconcile(good)
	for _, restarted := range []bool{false, true} {
		for name, declared := range b.withProblems() {
			if restarted {
				b.restart()
			}
			for range 3 {
				before := b.wire.requests()
				desired, p, problems := b.read(declared)
				if problems == nil {
					t.Fatalf("%s: no problem", name)
				}
				if n := len(b.target.store.Records()); n != 6 {
					t.Errorf("%s, restarted %v: %d records", name, restarted, n)
				}
				if len(p.Changes) > 0 || len(p.Unknown) != 1 || !strings.HasPrefix(p.Unknown[0].Reason, "not compared: the declaration has problems") {
					t.Errorf("%s, restarted %v: %s", name, restarted, show(p))
				}
				if want := map[bool]int{false: 6, true: 0}[restarted]; desired.Len() != want {
					t.Errorf("%s, restarted %v: %d things are desired", name, restarted, desired.Len())
				}
				if restarted && b.wire.requests() != before {
					t.Errorf("%s: AWS was asked", name)
				}
				if u := b.status().Unknown; len(u) != 1 || u[0].Resource != "Cluster.poolwright.dev/cluster" {
					t.Errorf("%s, restarted %v: the status is %+v", name, restarted, b.status())
				}
			}
		}
	}
	b.converged(good)
	if s := b.status(); len(s.Unknown) != 0 || s.ObservedAt.IsZero() {
		t.Errorf("after it was mended: %+v", s)
	}
}

func TestAClusterMustBeAbsentTwiceBeforeItsRecordsAreDropped(t *testing.T) {
	b := newBench(t, nil)
	good := b.declare(queued(v1alpha1.ManagementPolicy{}))
	b.reconcile(good)
	var since metav1.Time
	for _, records := range []int{6, 0} {
		if _, p, _ := b.read(state.Set{}); len(p.Changes) > 0 {
			t.Errorf("got %s", show(p))
		}
		if n := len(b.target.store.Records()); n != records {
			t.Errorf("%d records, want %d", n, records)
		}
		if u := b.status().Unknown; len(u) != 1 || !strings.Contains(u[0].Reason, "no Cluster is declared any more") {
			t.Errorf("the status is %+v", b.status())
		} else if !since.IsZero() && !u[0].Since.Equal(&since) {
			t.Errorf("since %s became %s", since, u[0].Since)
		} else {
			since = u[0].Since
		}
	}
	b.reconcile(good)
	if u := b.status().Unknown; len(u) != 0 || len(b.target.store.Records()) != 6 {
		t.Errorf("after it came back: %+v", u)
	}
}

func TestOneAbsenceDropsNoRecord(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(b.declare(queued(deleting)))
	rule := b.hand.Scope.Regional("events", "Rule", interruption.RuleNames(b.config.Cluster.Name)[0])
	b.removeRule(t, rule)
	for _, known := range []bool{true, false} {
		b.read(b.declare(nothing))
		if _, is := b.target.store.Get(rule); is != known {
			t.Errorf("it is recorded: %v, want %v", is, known)
		}
	}
}

func TestFindingsOfTheSchemaAreProblemsToo(t *testing.T) {
	b := newBench(t, nil, func(c *Config) {
		c.Check = func(item state.Item) []state.Problem {
			return []state.Problem{{Origin: item.Origin, Message: "retention: too short"}}
		}
	})
	desired, _, problems := b.read(b.declare(queued(deleting)))
	if problems == nil || desired.Len() != 0 || !strings.Contains(problems.Error(), "too short") || len(b.writes()) > 0 {
		t.Errorf("got %v and %d things", problems, desired.Len())
	}
}

func TestCheckFindsOfflineWhatATargetFinds(t *testing.T) {
	one := func(n int32) *int32 { return &n }
	raw := func(change func(spec map[string]any)) state.Set {
		item := declareIn(t, sandboxaws.DefaultConfig(), queued(deleting)).Items()[0]
		change(item.Object["spec"].(map[string]any))
		return state.NewSet(item)
	}
	with := func(change func(*v1alpha1.ClusterSpec)) state.Set {
		return declareIn(t, sandboxaws.DefaultConfig(), change)
	}
	for _, tt := range []struct {
		name     string
		declared state.Set
		message  []string
	}{
		{"nothing wrong", with(queued(deleting)), nil},
		{"nothing at all", state.Set{}, nil},
		{"what its schema finds", raw(func(s map[string]any) { s["interruptionQeue"] = "x" }), nil},
		{"sizes", with(func(s *v1alpha1.ClusterSpec) {
			s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "a", MinSize: one(5), MaxSize: one(3), DesiredSize: one(9)}}
		}), []string{"desiredSize 9 above maxSize 3", "minSize 5 above maxSize 3"}},
		{"the key of discovery", with(func(s *v1alpha1.ClusterSpec) { s.Discovery = &v1alpha1.Discovery{Key: "aws:x"} }), []string{`spec.discovery.key holds "aws:x"`}},
		{"an empty value of discovery", raw(func(s map[string]any) { s["discovery"] = map[string]any{"value": ""} }), []string{"spec.discovery.value is empty"}},
		{"a part without content", raw(func(s map[string]any) { s["logging"] = nil }), []string{"spec.logging is there and holds nothing: write {}"}},
		{"a queue that nobody reads", with(func(s *v1alpha1.ClusterSpec) {
			queued(deleting)(s)
			s.Engine.InterruptionQueue = "other"
		}), []string{`spec.engine.interruptionQueue is "other", and spec.interruptionQueue is "sandbox"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := Check(tt.declared)
			if len(problems) != len(tt.message) {
				t.Fatalf("got %v", problems)
			}
			for i, text := range tt.message {
				if !strings.Contains(problems[i].Message, text) {
					t.Errorf("got %s", problems[i])
				}
			}
		})
	}
}

func TestAClusterOfTheSameNameInAnotherRegionIsNotOurs(t *testing.T) {
	b := newBench(t, nil)
	roles := func(s *v1alpha1.ClusterSpec) {
		s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: deleting, Name: "nodes", PermissionsBoundary: "elsewhere"}
	}
	if _, err := b.hand.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("elsewhere"),
		PolicyDocument: sdk.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`)}); err != nil {
		t.Fatal(err)
	}
	b.reconcile(b.declare(roles))
	// The emulator answers for one region; IAM is one for all of them.
	inner := b.mod
	b.mod = func(c *Config) {
		inner(c)
		aws := c.AWS
		c.AWS = func(ctx context.Context, _ string) (sdk.Config, error) { return aws(ctx, b.config.Region) }
	}
	b.sync += "-west"
	b.restart()
	west := func(change func(*v1alpha1.ClusterSpec)) state.Set {
		return b.declare(func(s *v1alpha1.ClusterSpec) { change(s); s.Region = "us-west-2" })
	}
	before := len(b.writes())
	for _, declared := range []state.Set{west(roles), west(nothing), west(nothing), {}} {
		_, p, _ := b.read(declared)
		for _, c := range p.Changes {
			if !c.ReadOnly() {
				t.Errorf("%s", show(p))
			}
		}
		for _, rec := range b.target.store.Records() {
			t.Errorf("recorded: %s", rec.Key)
		}
		b.apply(t.Context(), p)
	}
	if w := b.writes(); len(w) != before {
		t.Errorf("written: %v", w[before:])
	}
	out, err := b.hand.IAM.GetRole(t.Context(), &iam.GetRoleInput{RoleName: sdk.String("nodes")})
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for _, one := range out.Role.Tags {
		tags[sdk.ToString(one.Key)] = sdk.ToString(one.Value)
	}
	if tags[tag.Cluster] != kindtest.Mark {
		t.Errorf("its tags are %v", tags)
	}
}

func TestWhatIsNotOursAndAsDeclaredDoesNotDiffer(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(v1alpha1.ManagementPolicy{})(s)
		s.Tags = map[string]string{"team": "infra"}
	})
	b.reconcile(declared)
	url, err := b.hand.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &b.config.Cluster.Name})
	if err != nil {
		t.Fatal(err)
	}
	// What is left is a queue that somebody else could have made.
	if _, err := b.hand.SQS.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: url.QueueUrl, TagKeys: []string{tag.Cluster, tag.DeletionPolicy, "team"}}); err != nil {
		t.Fatal(err)
	}
	if p := b.plan(declared); len(p.Changes) != 1 || !p.Changes[0].ReadOnly() {
		t.Errorf("the mark of what we made is gone, and nobody says so: %s", show(p))
	}
	b.sync += "-other"
	b.restart()
	if p := b.plan(declared); !p.Empty() {
		t.Errorf("got %s", show(p))
	}
	if _, err := b.hand.SQS.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url.QueueUrl, Attributes: map[string]string{"MessageRetentionPeriod": "999"}}); err != nil {
		t.Fatal(err)
	}
	p := b.plan(declared)
	if len(p.Changes) != 1 || !p.Changes[0].ReadOnly() || len(p.Changes[0].Fields) != 1 {
		t.Errorf("after a hand change: %s", show(p))
	}
}

func TestWhatIsNeverMadeIsMissedWithTheCommand(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) { s.Addons = []v1alpha1.Addon{{Name: "nobody-made-it"}} })
	p := b.plan(declared)
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.Create || !p.Changes[0].ReadOnly() || len(p.Unknown) > 0 {
		t.Errorf("got %s", show(p))
	}
	if d := b.status().Differences; len(d) != 1 || !strings.Contains(d[0].Message, "aws eks") {
		t.Errorf("the status tells of %v", d)
	}
}

func TestPollsReportWhatBecomesUnknownOrDiffersForGood(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(deleting)(s)
		s.Addons = []v1alpha1.Addon{{Name: "later"}}
	})
	b.reconcile(declared)
	b.plan(declared)
	expect := func(when string, kinds ...string) {
		t.Helper()
		for _, want := range []int{len(kinds), 0} { // once
			keys := b.target.poll(t.Context())
			if len(keys) != want || want > 0 && keys[0].Kind != kinds[0] {
				t.Errorf("%s: reported %v", when, keys)
			}
		}
	}
	expect("nothing has changed")
	end := b.fault(sandboxaws.Fault{Service: "sqs", Throttle: true})
	expect("the queue is unknown", "Queue")
	end()
	expect("it is known again", "Queue")
	url, err := b.hand.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &b.config.Cluster.Name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.hand.SQS.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: url.QueueUrl, TagKeys: []string{tag.Cluster}}); err != nil {
		t.Fatal(err)
	}
	expect("the queue is not ours any more", "Queue")
}

func TestSinceOutlivesTheProcess(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	defer b.fault(sandboxaws.Fault{Service: "sqs", Throttle: true})()
	b.plan(declared)
	reported := b.status()
	reported.Unknown[0].Since = metav1.NewTime(reported.Unknown[0].Since.Add(-time.Hour))
	b.mod = func(c *Config) {
		c.Live = func(context.Context) (Status, error) { return Status{Cluster: "cluster", AWS: reported}, nil }
	}
	b.restart()
	since := reported.Unknown[0].Since
	b.plan(declared)
	reported.Unknown[0].Since = metav1.Now() // What this process knows by now counts.
	b.plan(declared)
	if u := b.status().Unknown; len(u) != 1 || !u[0].Since.Equal(&since) {
		t.Errorf("since %s: %+v", since, u)
	}
	// A restart in the middle of a problem does not report that AWS was asked now.
	b.restart()
	b.read(b.withProblems()["two Clusters"])
	if s := b.status(); !s.ObservedAt.Equal(&reported.ObservedAt) || len(s.Unknown) != 1 {
		t.Errorf("the status is %+v", s)
	}
}

func TestWhatNodesLiveOnIsDeletedWithLosses(t *testing.T) {
	b := newBench(t, nil)
	pools := func(set state.Set) state.Set {
		items := set.Items()
		for _, name := range []string{"a", "b"} {
			items = append(items, state.Item{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}})
		}
		return state.NewSet(items...)
	}
	b.reconcile(pools(b.declare(queued(deleting))))
	for _, tt := range []struct {
		declared state.Set
		want     string
	}{
		{pools(b.declare(nothing)), "the nodes of 2 NodePools are not drained any more before AWS takes them away"},
		{pools(state.Set{}), "the nodes of 2 NodePools are not drained any more before AWS takes them away"},
		{b.declare(nothing), ""},
	} {
		for _, c := range b.plan(tt.declared).Changes {
			if c.Before.Impact != tt.want {
				t.Errorf("%s: %q", c.Key, c.Before.Impact)
			}
		}
	}
}
