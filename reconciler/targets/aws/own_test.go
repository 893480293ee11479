package aws

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func TestWhatIsNotOursIsComparedUntilItIsAdopted(t *testing.T) {
	b := newBench(t, nil)
	name := b.config.Cluster.Name
	if _, err := b.hand.SQS.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Tags: map[string]string{"team": "infra"}}); err != nil {
		t.Fatal(err)
	}
	key := b.hand.Scope.Regional("sqs", "Queue", name)
	declared := b.declare(queued(deleting))
	p := b.plan(declared)
	held := p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Key == key })]
	if held.Action != plan.Update || !held.ReadOnly() || !strings.Contains(held.Hold.String(), "adopt: true in spec.interruptionQueue") {
		t.Fatalf("got %s", show(p))
	}
	before := b.writes()
	if err := b.target.Apply(t.Context(), held); err == nil {
		t.Error("a held change was made")
	}
	held.Hold, held.Before = nil, &state.Item{Key: key, Object: held.Before.Object, Live: held.Before.Live}
	if err := b.target.Apply(t.Context(), held); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("changing what is not ours returned %v", err)
	}
	if after := b.writes(); len(after) != len(before) {
		t.Errorf("written: %v", after[len(before):])
	}
	adopting := b.declare(queued(v1alpha1.ManagementPolicy{Adopt: true}))
	b.reconcile(adopting)
	b.converged(adopting)
	// What was adopted stays when it leaves.
	b.want(adopting)
	if p := b.plan(b.declare(nothing)); p.Count(plan.Delete) != 0 {
		t.Errorf("got %s", show(p))
	}
	url, err := b.hand.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	tags, err := b.hand.SQS.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: url.QueueUrl})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"team": "infra", tag.Cluster: b.hand.Scope.ClusterTagValue()}; !maps.Equal(tags.Tags, want) {
		t.Errorf("its tags are %v", tags.Tags)
	}
}

func TestLeavingTheRepositoryDeletesOnlyWhereTheDeletionPolicyIsDelete(t *testing.T) {
	for _, tt := range []struct {
		name    string
		parts   []v1alpha1.ManagementPolicy
		deletes int
	}{
		{"no policy leaves them", []v1alpha1.ManagementPolicy{{}}, 0},
		{"Orphan leaves them", []v1alpha1.ManagementPolicy{{DeletionPolicy: v1alpha1.AWSDeletionPolicyOrphan}}, 0},
		{"Delete deletes them", []v1alpha1.ManagementPolicy{deleting}, 6},
		{"Orphan after Delete leaves them", []v1alpha1.ManagementPolicy{deleting, {}}, 0},
		{"Delete after Orphan deletes them", []v1alpha1.ManagementPolicy{{}, deleting}, 6},
		{"adoption after Delete leaves them", []v1alpha1.ManagementPolicy{deleting, {Adopt: true}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			for _, p := range tt.parts {
				b.reconcile(b.declare(queued(p)))
			}
			b.restart()
			p := b.reconcile(b.declare(nothing))
			if p.Count(plan.Delete) != tt.deletes || len(p.Changes) != tt.deletes {
				t.Errorf("got %s", show(p))
			}
			b.converged(b.declare(nothing))
			if n := len(b.target.store.Records()); n != 0 {
				t.Errorf("%d records are left", n)
			}
			_, err := b.hand.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: sdk.String(b.config.Cluster.Name)})
			if exists := err == nil; exists != (tt.deletes == 0) {
				t.Errorf("the queue exists: %v (%v)", exists, err)
			}
		})
	}
}

func TestALostInventoryDeletesNothingAndIsRebuilt(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	lose := func() {
		t.Helper()
		err := b.keys.CoreV1().ConfigMaps(b.home).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "poolwright.dev/inventory"})
		if err != nil {
			t.Fatal(err)
		}
		b.restart()
	}
	lose()
	if p := b.plan(b.declare(nothing)); !p.Empty() {
		t.Errorf("without an inventory: %s", show(p))
	}
	b.restart()
	b.plan(declared)
	if err := b.target.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if p := b.plan(b.declare(nothing)); p.Count(plan.Delete) != 6 {
		t.Errorf("after it was rebuilt: %s", show(p))
	}
}

func TestADiscoveryTagComesAndGoesWithItsPart(t *testing.T) {
	b := newBench(t, nil)
	found, err := b.hand.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	id := sdk.ToString(found.Subnets[0].SubnetId)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		s.Discovery = &v1alpha1.Discovery{ManagementPolicy: deleting, Subnets: []string{id}}
	})
	tags := func() map[string]string {
		t.Helper()
		out, err := b.hand.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		return tagMap(out.Subnets[0].Tags)
	}
	before := tags()
	b.reconcile(declared)
	b.converged(declared)
	key := "karpenter.sh/discovery"
	_, err = b.hand.EC2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: &key}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := b.reconcile(declared); len(p.Changes) != 1 || !p.Changes[0].Drift {
		t.Errorf("taken off by hand: %s", show(p))
	}
	if tags()[key] != b.config.Cluster.Name {
		t.Errorf("the tags are %v", tags())
	}
	b.converge(b.declare(nothing))
	if after := tags(); !maps.Equal(before, after) {
		t.Errorf("the tags were %v and are %v", before, after)
	}
	if n := len(b.target.store.Records()); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestTheControllersOwnRoleIsLeftToBootstrap(t *testing.T) {
	b := newBench(t, nil, bootstrapping)
	declared := b.declare(everything(false))
	b.converge(declared)
	b.mod = func(*Config) {}
	b.restart()
	b.converged(declared)
	role := resource.Global("Role", iampolicy.NamesOf(b.config.Cluster.Name, b.hand.Scope.Region).Role)
	other := b.declare(func(s *v1alpha1.ClusterSpec) { everything(false)(s); s.ControllerRole.Identity = v1alpha1.IdentityIRSA })
	for _, c := range b.plan(other).Changes {
		if c.Key == role && !c.ReadOnly() {
			t.Errorf("%s %s is not held", c.Action, c.Key)
		}
	}
	// Nor does the controller delete it when it leaves the repository.
	for _, c := range b.plan(b.declare(nothing)).Changes {
		if c.Key == role && (c.Action != plan.Delete || !c.ReadOnly()) {
			t.Errorf("%s %s is not held", c.Action, c.Key)
		}
		if c.Key.Kind == "Queue" && !c.Admitted() {
			t.Errorf("%s is held: %s", c.Key, c.Hold)
		}
	}
}

func TestOrphanLeavesWhatAWSHolds(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	before := len(b.writes())
	if err := b.target.Orphan(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if p := b.plan(state.Set{}); !p.Empty() || len(b.writes()) != before {
		t.Errorf("got %s", show(p))
	}
}

func TestAClusterThatMovesTakesItsOldThingsAlong(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(b.declare(queued(deleting)))
	b.restart()
	// The emulator knows one region: what is desired in another is unknown, and
	// what was made in the first is found there.
	p := b.plan(b.declare(func(s *v1alpha1.ClusterSpec) { queued(deleting)(s); s.Region = "eu-west-1" }))
	if len(p.Unknown) != 6 || p.Count(plan.Delete) != 6 || len(p.Changes) != 6 {
		t.Fatalf("got %s", show(p))
	}
	for k, err := range b.apply(t.Context(), p) {
		t.Errorf("%s: %v", k, err)
	}
	if n := len(b.target.store.Records()); n != 0 {
		t.Errorf("%d records are left", n)
	}
}
