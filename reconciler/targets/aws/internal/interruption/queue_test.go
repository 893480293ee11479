package interruption

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func newQueueLife(t *testing.T, change func(*sandboxaws.Config), q v1alpha1.InterruptionQueue) *kindtest.Fixture {
	t.Helper()
	return kindtest.NewFixture(t, Queues{}, change, v1alpha1.ClusterSpec{InterruptionQueue: &q, Tags: map[string]string{"team": "ml"}})
}

func queueURL(l *kindtest.Fixture) *string {
	l.Helper()
	found, err := l.Clients.SQS.GetQueueUrl(l.Context(), &sqs.GetQueueUrlInput{QueueName: &l.Items()[0].Key.Name})
	if err != nil {
		l.Fatal(err)
	}
	return found.QueueUrl
}

func setQueue(l *kindtest.Fixture, attributes map[string]string) {
	l.Helper()
	l.Do(l.Clients.SQS.SetQueueAttributes(l.Context(), &sqs.SetQueueAttributesInput{QueueUrl: queueURL(l), Attributes: attributes}))
}

func TestAQueueIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{})
	l.Converge()
	item := l.Items()[0]
	want := map[string]any{
		"retentionSeconds": int64(300), "encryption": "SSE-SQS",
		"tags": map[string]any{"team": "ml", tag.Cluster: kindtest.Mark, tag.DeletionPolicy: "Orphan"},
	}
	got := l.ReadOne(item)
	policy := got.Object["policy"]
	delete(got.Object, "policy")
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if policy == nil || !got.Ours || item.Key.Name != "sandbox" {
		t.Errorf("policy %v, ours %v, name %s", policy, got.Ours, item.Key.Name)
	}
	l.Requests(map[string]int{"GetQueueUrl": 1, "GetQueueAttributes": 1, "ListQueueTags": 1})
	l.Deny("sqs", "GetQueueUrl", "GetQueueAttributes", "ListQueueTags")

	l.Break("a longer retention", func() { setQueue(l, map[string]string{"MessageRetentionPeriod": "600"}) })
	l.Break("a KMS key", func() { setQueue(l, map[string]string{"KmsMasterKeyId": "alias/other"}) })
	l.Break("no encryption", func() { setQueue(l, map[string]string{"SqsManagedSseEnabled": "false"}) })
	l.Break("no policy", func() { setQueue(l, map[string]string{"Policy": ""}) })
	l.Break("an open policy", func() {
		setQueue(l, map[string]string{"Policy": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}`})
	})
	l.Break("a tag with another value", func() {
		l.Do(l.Clients.SQS.TagQueue(l.Context(), &sqs.TagQueueInput{QueueUrl: queueURL(l), Tags: map[string]string{"team": "web"}}))
	})
	l.Break("a missing tag", func() {
		l.Do(l.Clients.SQS.UntagQueue(l.Context(), &sqs.UntagQueueInput{QueueUrl: queueURL(l), TagKeys: []string{tag.DeletionPolicy}}))
	})

	l.Do(l.Clients.SQS.TagQueue(l.Context(), &sqs.TagQueueInput{QueueUrl: queueURL(l), Tags: map[string]string{"others": "stay"}}))
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("others' tags differ: %v", bad)
	}
}

func TestADeclaredQueueIsFollowed(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{Name: "mine", Retention: &metav1.Duration{Duration: 90 * time.Second}})
	l.Converge()
	for _, key := range []string{"alias/events", "arn:aws:kms:us-east-1:000000000000:key/1234abcd", "1234abcd", "arn:aws:kms:us-east-1:999999999999:key/far", ""} {
		l.Change(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.KMSKey = key })
		l.Converge()
	}
	l.Change(func(c *v1alpha1.ClusterSpec) {
		c.InterruptionQueue.ManagementPolicy.DeletionPolicy = v1alpha1.AWSDeletionPolicyDelete
	})
	l.Converge()
	if got := l.ReadOne(l.Items()[0]).Tags[tag.DeletionPolicy]; got != "Delete" {
		t.Errorf("the policy is %q", got)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) {
		c.InterruptionQueue.ManagementPolicy = v1alpha1.ManagementPolicy{Adopt: true}
		c.InterruptionQueue.Retention.Duration = time.Hour
	})
	l.Converge()
	if got, has := l.ReadOne(l.Items()[0]).Tags[tag.DeletionPolicy]; has {
		t.Errorf("what is adopted says %q", got)
	}
}

func TestTheSameKeyInAnotherFormIsEqual(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{KMSKey: "arn:aws:kms:us-east-1:000000000000:alias/events"})
	l.Converge()
	for _, form := range []string{"alias/events", "arn:aws:kms:us-east-1:000000000000:alias/events"} {
		setQueue(l, map[string]string{"KmsMasterKeyId": form})
		if bad := l.Differences(); len(bad) > 0 {
			t.Errorf("%s differs", form)
		}
	}
}

func TestAQueueOfOthersIsNotOurs(t *testing.T) {
	l := newQueueLife(t, func(c *sandboxaws.Config) { c.Queues = []string{"sandbox"} }, v1alpha1.InterruptionQueue{})
	if observed := l.ReadOne(l.Items()[0]); observed.Ours || observed.Object == nil {
		t.Errorf("ours %v, object %v", observed.Ours, observed.Object)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	l.Converge()
	if observed := l.ReadOne(l.Items()[0]); !observed.Ours || observed.Tags[tag.DeletionPolicy] != "" {
		t.Errorf("after adoption: ours %v, tags %v", observed.Ours, observed.Tags)
	}
}

func TestAQueueSurvivesACrashDuringItsCreation(t *testing.T) {
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newQueueLife(t, nil, v1alpha1.InterruptionQueue{}) })
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture {
		l := newQueueLife(t, func(c *sandboxaws.Config) { c.Queues = []string{"sandbox"} }, v1alpha1.InterruptionQueue{KMSKey: "alias/x", ManagementPolicy: v1alpha1.ManagementPolicy{Adopt: true}})
		return l
	})
}

func TestAQueueDeletedAMomentAgoIsRefusedAsSuch(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{})
	l.Converge()
	item := l.Items()[0]
	uid := l.ReadOne(item).UID
	l.RemoveAll()
	err := l.Write(t.Context(), l.Clients, item, resource.Live{})
	if class, reason, wait := state.Classify(awserr.Fail("", err)); class != state.Wait || reason != "QueueDeletedRecently" || wait < time.Minute {
		t.Errorf("%v is %v, %s, %s", err, class, reason, wait)
	}
	if uid == l.Clients.Scope.ARN("sqs", "sandbox") {
		t.Errorf("%s does not tell a queue from its successor", uid)
	}
}

func TestTheQueuePolicyIsCanonical(t *testing.T) {
	for _, region := range []string{"us-east-1", "cn-north-1", "us-gov-west-1"} {
		p := resource.Scope{Partition: iampolicy.PartitionOf(region), Region: region, Account: "111122223333", Cluster: "c"}
		policy := queuePolicy(p, "c")
		text, err := policydoc.Text(policy)
		if err != nil {
			t.Fatal(err)
		}
		again, err := policydoc.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(policy, again); diff != "" {
			t.Errorf("%s (-desired +read):\n%s", region, diff)
		}
	}
}

func TestInvalidAttributesOfAQueueAreDifferencesNotCrashes(t *testing.T) {
	p := resource.Scope{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "c"}
	for name, tt := range map[string]struct {
		attributes map[string]string
		fails      bool
	}{
		"a retention that is no number":         {map[string]string{"MessageRetentionPeriod": "soon"}, true},
		"no attributes":                         {map[string]string{}, true},
		"a policy that is no JSON":              {map[string]string{"MessageRetentionPeriod": "300", "Policy": "{"}, false},
		"a policy whose statement is no object": {map[string]string{"MessageRetentionPeriod": "300", "Policy": `{"Statement":["x"]}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := queueObject(p, tt.attributes)
			if (err != nil) != tt.fails {
				t.Fatalf("%v, %v", got, err)
			}
			if !tt.fails && state.Equal(got["policy"], queuePolicy(p, "c")) {
				t.Error("it looks like the desired policy")
			}
		})
	}
}

func FuzzQueueObject(f *testing.F) {
	f.Add("300", "alias/x", "true", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}`)
	f.Add("", "", "", "")
	f.Add("9223372036854775808", "arn:aws:kms:us-east-1:000000000000:key/", "false", "[1e400]")
	p := resource.Scope{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "c"}
	f.Fuzz(func(t *testing.T, retention, key, managed, policy string) {
		got, err := queueObject(p, map[string]string{
			"MessageRetentionPeriod": retention, "KmsMasterKeyId": key, "SqsManagedSseEnabled": managed, "Policy": policy,
		})
		if err != nil {
			return
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatalf("it cannot be written: %v", err)
		}
		if !state.Equal(got, got) {
			t.Fatal("it does not equal itself")
		}
	})
}

func TestAQueueWhoseDeletionIsRepeatedIsNoError(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{})
	if err := l.Remove(t.Context(), l.Clients, l.Items()[0].Key, resource.Live{}); err != nil {
		t.Error(err)
	}
}
