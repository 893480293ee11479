package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// everything declares all that Poolwright makes; revised asks each for
// something else.
func everything(revised bool) func(*v1alpha1.ClusterSpec) {
	return func(s *v1alpha1.ClusterSpec) {
		s.InterruptionQueue = &v1alpha1.InterruptionQueue{ManagementPolicy: deleting}
		s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: deleting, Name: "nodes", InstanceProfile: "nodes"}
		s.ControllerRole = &v1alpha1.ControllerRole{}
		s.Tags = map[string]string{"team": "infra"}
		if revised {
			s.InterruptionQueue.Retention = &metav1.Duration{Duration: time.Hour}
			s.NodeRole.Policies = []v1alpha1.ManagedPolicyName{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly"}
			s.Tags = map[string]string{"team": "platform"}
		}
	}
}

func bootstrapping(c *Config) { c.Bootstrap = true }

// live runs one life: it plans and applies until it is done or dies.
func (b *bench) live(ctx context.Context, declared state.Set) error {
	desired, err := b.target.Desired(ctx, declared)
	if err != nil {
		return err
	}
	found, err := b.target.Observe(ctx, desired)
	if err != nil {
		return err
	}
	for _, err := range b.apply(ctx, plan.Compute(desired, found)) {
		return err
	}
	return ctx.Err()
}

// mortal is live with a process that is killed after its k-th request that
// changes AWS, before it hears the answer. To be killed after a request that
// changes nothing is to be killed after the last that did.
func (b *bench) mortal(k int, declared state.Set) {
	b.Helper()
	b.restart()
	b.wire.last = len(b.writes()) + k
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		select {
		case <-b.wire.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = b.live(ctx, declared)
}

// converge lives until nothing differs; a few lives must do.
func (b *bench) converge(declared state.Set) {
	b.Helper()
	var err error
	for range 4 {
		b.restart()
		if err = b.live(b.Context(), declared); err != nil {
			continue
		}
		if p := b.plan(declared); p.Empty() {
			return
		}
	}
	b.Fatalf("four lives later (%v):\n%s", err, show(b.plan(declared)))
}

// nothingIsLeft fails unless AWS holds nothing of what was declared to go with
// its part, and the inventory knows nothing.
func (b *bench) nothingIsLeft(declared state.Set) {
	b.Helper()
	for _, rec := range b.target.store.Records() {
		b.Errorf("left in the inventory: %s", rec.Key)
	}
	desired := b.want(declared)
	found, err := b.target.ObserveOnly(b.Context(), desired)
	if err != nil {
		b.Fatal(err)
	}
	for _, item := range found.Items() {
		requested, _ := desired.Get(item.Key)
		stays := deletionPolicyOf(b.hand.Scope, requested) != string(v1alpha1.AWSDeletionPolicyDelete)
		if item.Object != nil && !stays || item.Unknown != "" {
			b.Errorf("left over: %s %s", item.Key, item.Unknown)
		}
	}
}

func TestAKillAfterAnyRequestHeals(t *testing.T) {
	for _, phase := range []struct {
		name        string
		from, under func(*v1alpha1.ClusterSpec)
	}{
		{"while everything is made", nothing, everything(false)},
		{"while everything is revised", everything(false), everything(true)},
		{"while everything is deleted", everything(false), nothing},
	} {
		t.Run(phase.name, func(t *testing.T) {
			n := countWrites(t, phase.from, phase.under)
			if n < 10 {
				t.Fatalf("the whole takes %d requests that change AWS", n)
			}
			for k := 1; k <= n; k++ {
				t.Run(fmt.Sprintf("after request %d of %d", k, n), func(t *testing.T) {
					// Each has an account of its own: SQS takes the name of a
					// deleted queue only after a minute.
					b := newBench(t, nil, bootstrapping)
					under := b.declare(phase.under)
					b.converge(b.declare(phase.from))
					b.mortal(k, under)
					b.converge(under)
					b.converged(under)
					b.converge(b.declare(nothing))
					b.nothingIsLeft(b.declare(everything(false)))
				})
			}
		})
	}
}

// countWrites counts the requests that change AWS in a whole run.
func countWrites(t *testing.T, from, under func(*v1alpha1.ClusterSpec)) int {
	t.Helper()
	b := newBench(t, nil, bootstrapping)
	b.converge(b.declare(from))
	before := len(b.writes())
	b.restart()
	b.reconcile(b.declare(under))
	return len(b.writes()) - before
}

func TestTwoTargetsAtOnceEndWithOneOfEachThing(t *testing.T) {
	b := newBench(t, nil, bootstrapping)
	declared := b.declare(everything(false))
	var both sync.WaitGroup
	for range 2 {
		w := b.connect(b.wire)
		both.Go(func() {
			desired, err := w.Desired(t.Context(), declared)
			if err != nil {
				t.Error(err)
				return
			}
			found, err := w.Observe(t.Context(), desired)
			if err != nil {
				t.Error(err)
				return
			}
			p := plan.Compute(desired, found)
			if err := w.Begin(t.Context(), p.Changes); err != nil {
				t.Error(err)
			}
			for _, c := range p.Changes {
				// What the other was faster at is for the next run to judge.
				_ = w.Apply(t.Context(), c)
			}
			if err := w.End(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	b.converge(declared)
	b.converged(declared)
	b.converge(b.declare(nothing))
	b.nothingIsLeft(declared)
}

func TestWhatAWSShowsLateIsMadeOnce(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) { c.Delays.Visible = 1500 * time.Millisecond }, bootstrapping)
	declared := b.declare(everything(false))
	b.converge(declared)
	b.converged(declared)
	made := map[string]int{}
	for _, c := range b.cloud.Calls() {
		if c.Code == "" && (c.Operation == "CreateRole" || c.Operation == "CreateInstanceProfile" || c.Operation == "CreateQueue") {
			made[c.Operation+" "+c.Params]++
		}
	}
	for what, times := range made {
		if times > 1 && what[:11] != "CreateQueue" { // an equal queue is made any number of times
			t.Errorf("%d times: %s", times, what)
		}
	}
}

var _ targets.Target = (*Target)(nil)

// upgraded puts the controller's role into the state in which an earlier release leaves it.
func (b *bench) upgraded(role string) {
	b.Helper()
	arn := func(name string) *string { return sdk.String(b.hand.Scope.IAMARN("policy/" + name)) }
	suffix := "-" + b.hand.Scope.Cluster + "-" + b.hand.Scope.Region
	document := `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:*","Resource":"*"}]}`
	for _, renamed := range [][2]string{{"poolwright-limits", "poolwright-deny"}, {"poolwright-loop", "poolwright-resources"}} {
		_, err := b.hand.IAM.CreatePolicy(b.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String(renamed[0] + suffix), PolicyDocument: &document})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := b.hand.IAM.AttachRolePolicy(b.Context(), &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: arn(renamed[0] + suffix)}); err != nil {
			b.Fatal(err)
		}
		if _, err := b.hand.IAM.DetachRolePolicy(b.Context(), &iam.DetachRolePolicyInput{RoleName: &role, PolicyArn: arn(renamed[1] + suffix)}); err != nil {
			b.Fatal(err)
		}
		if _, err := b.hand.IAM.DeletePolicy(b.Context(), &iam.DeletePolicyInput{PolicyArn: arn(renamed[1] + suffix)}); err != nil {
			b.Fatal(err)
		}
	}
}

// attached reports whether the role has a policy of that beginning.
func (b *bench) attached(role, beginning string) bool {
	b.Helper()
	out, err := b.hand.IAM.ListAttachedRolePolicies(b.Context(), &iam.ListAttachedRolePoliciesInput{RoleName: &role})
	if err != nil {
		b.Fatal(err)
	}
	return slices.ContainsFunc(out.AttachedPolicies, func(p iamtypes.AttachedPolicy) bool {
		return strings.HasPrefix(sdk.ToString(p.PolicyName), beginning)
	})
}

func TestAKillOfTheUpgradesBootstrapLeavesTheControllerDeniedAndAllowedWhatItMustBe(t *testing.T) {
	const most = 20
	for k := 1; ; k++ {
		if k > most {
			t.Fatalf("the upgrade takes more than %d requests that change AWS", most)
		}
		b := newBench(t, nil, bootstrapping)
		declared := b.declare(everything(false))
		b.converge(declared)
		role := iampolicy.NamesOf(b.hand.Scope.Cluster, b.hand.Scope.Region).Role
		b.upgraded(role)
		before := len(b.writes())
		b.mortal(k, declared)
		if !b.attached(role, "poolwright-deny-") && !b.attached(role, "poolwright-limits-") {
			t.Errorf("after request %d the role has no policy that denies", k)
		}
		if !b.attached(role, "poolwright-resources-") && !b.attached(role, "poolwright-loop-") {
			t.Errorf("after request %d the role has no policy for resources", k)
		}
		done := len(b.writes()) - before
		b.converge(declared)
		b.converged(declared)
		if b.attached(role, "poolwright-limits-") || b.attached(role, "poolwright-loop-") {
			t.Errorf("after request %d the former policies stay", k)
		}
		if done < k {
			return
		}
	}
}
