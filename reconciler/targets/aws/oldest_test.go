package aws

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// While an older Cluster is live, what another one asks of AWS is compared and nothing else.
func TestAClusterThatIsNotTheOldestChangesNothingInAWS(t *testing.T) {
	oldest := ""
	b := newBench(t, nil, func(c *Config) {
		c.Live = func(context.Context) (Status, error) { return Status{Cluster: oldest}, nil }
	})
	declared := b.declare(queued(deleting))
	other := b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(deleting)(s)
		s.InterruptionQueue.Name = "another"
	})
	nobody := b.declare(nothing)

	oldest = "older"
	compared := func(name string, declared state.Set, actions ...plan.Action) {
		t.Helper()
		p := b.plan(declared)
		found := map[plan.Action]bool{}
		for _, c := range p.Changes {
			found[c.Action] = true
			if !c.ReadOnly() {
				t.Errorf("%s: %s of %s is not read-only", name, c.Action, c.Key)
			}
		}
		for _, a := range actions {
			if !found[a] {
				t.Errorf("%s: nothing to %s in %s", name, a, show(p))
			}
		}
	}
	compared("nothing is there yet", declared, plan.Create)
	oldest = ""
	b.reconcile(declared)
	records := len(b.target.store.Records())
	for _, restarted := range []bool{false, true} {
		if restarted {
			b.restart()
		}
		oldest = "older"
		before := len(b.writes())
		compared("a renamed queue", other, plan.Create, plan.Delete)
		compared("a part that left", nobody, plan.Delete)
		if n := len(b.writes()) - before; n != 0 {
			t.Errorf("%d writes", n)
		}
		if n := len(b.target.store.Records()); n != records {
			t.Errorf("%d records, want %d", n, records)
		}
	}
	// The old one is deleted, and this one takes over.
	oldest = "cluster"
	b.reconcile(other)
	b.converged(other)
}

// What another Cluster does not declare any more is forgotten for good, so that an older one would
// not own it: neither a part that stays in AWS nor one that is gone from there is, as long as the
// older one decides.
func TestAClusterThatIsNotTheOldestDropsNoRecord(t *testing.T) {
	for name, c := range map[string]struct {
		policy v1alpha1.ManagementPolicy
		// gone deletes the queue by hand.
		gone bool
	}{
		"a part that stays in AWS":   {policy: v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyOrphan}},
		"a part that is gone twice":  {policy: deleting, gone: true},
		"an orphan that is gone too": {policy: v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyOrphan}, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			oldest := ""
			b := newBench(t, nil, func(c *Config) {
				c.Live = func(context.Context) (Status, error) { return Status{Cluster: oldest}, nil }
			})
			declared, nobody := b.declare(queued(c.policy)), b.declare(nothing)
			b.reconcile(declared)
			hasQueue := func() bool {
				return slices.ContainsFunc(b.target.store.Records(), func(r inventory.Record) bool { return r.Key.Kind == "Queue" })
			}
			if c.gone {
				at, err := b.hand.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &b.config.Cluster.Name})
				if err == nil {
					_, err = b.hand.SQS.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: at.QueueUrl})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			records := len(b.target.store.Records())
			oldest = "older"
			for range 3 {
				b.reconcile(nobody)
				if n := len(b.target.store.Records()); n != records || !hasQueue() {
					t.Fatalf("%d records, want %d", n, records)
				}
			}
			oldest = "cluster" // The older one is deleted, and this one takes over.
			for range 2 {
				b.reconcile(nobody)
			}
			if hasQueue() {
				t.Error("the queue is not forgotten by the Cluster that decides")
			}
		})
	}
}
