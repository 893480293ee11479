package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// TestWhatAnotherProcessMadeAnewGoesWithItsPart has bootstrap make anew what somebody
// deleted by hand, while a controller that has not looked again runs beside it.
func TestWhatAnotherProcessMadeAnewGoesWithItsPart(t *testing.T) {
	b := newBench(t, nil, bootstrapping)
	nodes := func(s *v1alpha1.ClusterSpec) {
		s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: deleting, Name: "nodes", InstanceProfile: "nodes"}
	}
	whole, without := b.declare(nodes), b.declare(nothing)
	b.converge(whole)
	controller := b.target

	principal := sdk.String(b.hand.Scope.IAMARN("role/nodes"))
	if _, err := b.hand.EKS.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: &b.hand.Scope.Cluster, PrincipalArn: principal}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.hand.IAM.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String("nodes"), RoleName: sdk.String("nodes")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.hand.IAM.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: sdk.String("nodes")}); err != nil {
		t.Fatal(err)
	}
	b.restart() // This is bootstrap, and makes both again.
	b.reconcile(whole)

	deletions := func(w *Target) []state.Key {
		b.target = w
		var out []state.Key
		for _, c := range b.plan(without).Changes {
			if c.Action == plan.Delete {
				out = append(out, c.Key)
			}
		}
		return out
	}
	// A fresh process is what `poolwright plan` is.
	planned, observed := deletions(b.restart()), deletions(controller)
	if d := cmp.Diff(planned, observed); d != "" || len(observed) != 4 {
		t.Errorf("a plan and the controller do not mean to delete the same, but %v:\n%s", observed, d)
	}
	for range 2 {
		b.reconcile(without)
	}
	b.nothingIsLeft(whole)
}

// TestADeletionPolicyCountsAsItWasBeforeThePartLeft: what a commit gives up is judged
// by the policy under which it was applied, not by that commit's.
func TestADeletionPolicyCountsAsItWasBeforeThePartLeft(t *testing.T) {
	b := newBench(t, nil, bootstrapping)
	role := func(name string, part v1alpha1.ManagementPolicy) state.Set {
		return b.declare(func(s *v1alpha1.ClusterSpec) { s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: part, Name: name} })
	}
	b.converge(role("first", v1alpha1.ManagementPolicy{}))
	renamed := b.plan(role("second", deleting))
	for _, c := range renamed.Changes {
		if c.Action == plan.Delete {
			t.Errorf("the commit that says Delete deletes %s, which was applied with Orphan", c.Key)
		}
	}
	b.converge(role("second", deleting))
	if p := b.plan(role("third", v1alpha1.ManagementPolicy{})); p.Count(plan.Delete) != 2 {
		t.Errorf("what was applied with Delete does not go:\n%s", show(p))
	}
}

func TestWithoutAdoptALogGroupIsNeitherMadeNorChanged(t *testing.T) {
	for name, is := range map[string]bool{"where there is none": false, "where EKS made one": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sandboxaws.Config) {
				if is {
					c.Cluster.Logging = []string{"api"}
				}
			})
			logs := func(adopt bool) state.Set {
				return b.declare(func(s *v1alpha1.ClusterSpec) { s.Logging = &v1alpha1.Logging{Adopt: adopt, RetentionDays: 30} })
			}
			p := b.reconcile(logs(false))
			if len(p.Changes) != 1 || !p.Changes[0].ReadOnly() || !strings.Contains(p.Changes[0].Hold.String(), "set adopt: true in spec.logging") {
				t.Errorf("without adopt:\n%s", show(p))
			}
			if got := b.writes(); len(got) > 0 {
				t.Errorf("it wrote %v", got)
			}
			b.reconcile(logs(true))
			b.converged(logs(true))
		})
	}
}
