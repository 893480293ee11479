package aws

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func newQueueLife(t *testing.T, change func(*sandbox.Config), q v1alpha1.InterruptionQueue) *life {
	t.Helper()
	return newLife(t, queues{}, change, v1alpha1.ClusterSpec{InterruptionQueue: &q, Tags: map[string]string{"team": "ml"}})
}

func (l *life) queueURL() *string {
	l.Helper()
	found, err := l.c.sqs.GetQueueUrl(l.Context(), &sqs.GetQueueUrlInput{QueueName: &l.wanted()[0].Key.Name})
	if err != nil {
		l.Fatal(err)
	}
	return found.QueueUrl
}

func (l *life) setQueue(attributes map[string]string) {
	l.Helper()
	l.do(l.c.sqs.SetQueueAttributes(l.Context(), &sqs.SetQueueAttributesInput{QueueUrl: l.queueURL(), Attributes: attributes}))
}

func TestAQueueIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{})
	l.settle()
	item := l.wanted()[0]
	want := map[string]any{
		"retentionSeconds": int64(300), "encryption": "SSE-SQS",
		"tags": map[string]any{"team": "ml", clusterTag: sandboxMark, policyTag: "Orphan"},
	}
	got := l.see(item)
	policy := got.object["policy"]
	delete(got.object, "policy")
	if diff := cmp.Diff(want, got.object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if policy == nil || !got.ours || item.Key.Name != "sandbox" {
		t.Errorf("policy %v, ours %v, name %s", policy, got.ours, item.Key.Name)
	}
	l.asks(map[string]int{"GetQueueUrl": 1, "GetQueueAttributes": 1, "ListQueueTags": 1})
	l.denied("sqs", "GetQueueUrl", "GetQueueAttributes", "ListQueueTags")

	l.broken("a longer retention", func() { l.setQueue(map[string]string{"MessageRetentionPeriod": "600"}) })
	l.broken("a KMS key", func() { l.setQueue(map[string]string{"KmsMasterKeyId": "alias/other"}) })
	l.broken("no encryption", func() { l.setQueue(map[string]string{"SqsManagedSseEnabled": "false"}) })
	l.broken("no policy", func() { l.setQueue(map[string]string{"Policy": ""}) })
	l.broken("an open policy", func() {
		l.setQueue(map[string]string{"Policy": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}`})
	})
	l.broken("a tag with another value", func() {
		l.do(l.c.sqs.TagQueue(l.Context(), &sqs.TagQueueInput{QueueUrl: l.queueURL(), Tags: map[string]string{"team": "web"}}))
	})
	l.broken("a missing tag", func() {
		l.do(l.c.sqs.UntagQueue(l.Context(), &sqs.UntagQueueInput{QueueUrl: l.queueURL(), TagKeys: []string{policyTag}}))
	})

	l.do(l.c.sqs.TagQueue(l.Context(), &sqs.TagQueueInput{QueueUrl: l.queueURL(), Tags: map[string]string{"others": "stay"}}))
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("others' tags differ: %v", bad)
	}
}

func TestADeclaredQueueIsFollowed(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{Name: "mine", Retention: &metav1.Duration{Duration: 90 * time.Second}})
	l.settle()
	for _, key := range []string{"alias/events", "arn:aws:kms:us-east-1:000000000000:key/1234abcd", "1234abcd", "arn:aws:kms:us-east-1:999999999999:key/far", ""} {
		l.declare(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.KMSKey = key })
		l.settle()
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Part.DeletionPolicy = v1alpha1.PartDelete })
	l.settle()
	if got := l.see(l.wanted()[0]).tags[policyTag]; got != "Delete" {
		t.Errorf("the policy is %q", got)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) {
		c.InterruptionQueue.Part = v1alpha1.Part{Adopt: true}
		c.InterruptionQueue.Retention.Duration = time.Hour
	})
	l.settle()
	if got, has := l.see(l.wanted()[0]).tags[policyTag]; has {
		t.Errorf("what is adopted says %q", got)
	}
}

func TestTheSameKeyInAnotherFormIsEqual(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{KMSKey: "arn:aws:kms:us-east-1:000000000000:alias/events"})
	l.settle()
	for _, form := range []string{"alias/events", "arn:aws:kms:us-east-1:000000000000:alias/events"} {
		l.setQueue(map[string]string{"KmsMasterKeyId": form})
		if bad := l.differences(); len(bad) > 0 {
			t.Errorf("%s differs", form)
		}
	}
}

func TestAQueueOfOthersIsNotOurs(t *testing.T) {
	l := newQueueLife(t, func(c *sandbox.Config) { c.Queues = []string{"sandbox"} }, v1alpha1.InterruptionQueue{})
	if seen := l.see(l.wanted()[0]); seen.ours || seen.object == nil {
		t.Errorf("ours %v, object %v", seen.ours, seen.object)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	l.settle()
	if seen := l.see(l.wanted()[0]); !seen.ours || seen.tags[policyTag] != "" {
		t.Errorf("after adoption: ours %v, tags %v", seen.ours, seen.tags)
	}
}

func TestAQueueSurvivesTheDeathOfItsMaker(t *testing.T) {
	survives(t, func(t *testing.T) *life { return newQueueLife(t, nil, v1alpha1.InterruptionQueue{}) })
	survives(t, func(t *testing.T) *life {
		l := newQueueLife(t, func(c *sandbox.Config) { c.Queues = []string{"sandbox"} }, v1alpha1.InterruptionQueue{KMSKey: "alias/x", Part: v1alpha1.Part{Adopt: true}})
		return l
	})
}

func TestAQueueDeletedAMomentAgoIsRefusedAsSuch(t *testing.T) {
	l := newQueueLife(t, nil, v1alpha1.InterruptionQueue{})
	l.settle()
	item := l.wanted()[0]
	uid := l.see(item).uid
	l.removed()
	err := l.write(t.Context(), l.c, item, liveResource{})
	if class, reason, wait := state.Classify(failed("creating", "", err)); class != state.Wait || reason != "QueueDeletedRecently" || wait < time.Minute {
		t.Errorf("%v is %v, %s, %s", err, class, reason, wait)
	}
	if uid == l.c.place.arn("sqs", "sandbox") {
		t.Errorf("%s does not tell a queue from its successor", uid)
	}
}

func TestTheQueuePolicyIsCanonical(t *testing.T) {
	for _, region := range []string{"us-east-1", "cn-north-1", "us-gov-west-1"} {
		p := place{Partition: iampolicy.PartitionOf(region), Region: region, Account: "111122223333", Cluster: "c"}
		policy := queuePolicy(p, "c")
		text, err := documentText(policy)
		if err != nil {
			t.Fatal(err)
		}
		again, err := document(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(policy, again); diff != "" {
			t.Errorf("%s (-wanted +read):\n%s", region, diff)
		}
	}
}

func TestOddAttributesOfAQueueAreDifferencesNotCrashes(t *testing.T) {
	p := place{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "c"}
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
				t.Error("it looks like the wanted policy")
			}
		})
	}
}

func FuzzQueueObject(f *testing.F) {
	f.Add("300", "alias/x", "true", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}`)
	f.Add("", "", "", "")
	f.Add("9223372036854775808", "arn:aws:kms:us-east-1:000000000000:key/", "false", "[1e400]")
	p := place{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "c"}
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
	if err := l.remove(t.Context(), l.c, l.wanted()[0].Key, liveResource{}); err != nil {
		t.Error(err)
	}
}
