package iam

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func TestAnAdoptedRoleKeepsItsBoundaryItsPathAndItsInlinePolicies(t *testing.T) {
	l := kindtest.NewFixture(t, Roles{}, nil, kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	roleWithTrust(l, "nodes", "/eks/", lambdaTrustText)
	l.Do(l.Clients.IAM.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: nodesName(l), PolicyName: sdk.String("cache"), PolicyDocument: sdk.String(someDocument)}))
	admin := "arn:aws:iam::aws:policy/ReadOnlyAccess"
	l.Do(l.Clients.IAM.PutRolePermissionsBoundary(t.Context(), &iam.PutRolePermissionsBoundaryInput{RoleName: nodesName(l), PermissionsBoundary: &admin}))
	own, all := "arn:aws:iam::000000000000:policy/cache-reader", "arn:aws:iam::aws:policy/AdministratorAccess"
	l.Do(l.Clients.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("cache-reader"), PolicyDocument: sdk.String(someDocument)}))
	for _, arn := range []string{own, all} {
		l.Do(l.Clients.IAM.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: nodesName(l), PolicyArn: &arn}))
	}
	l.Converge()
	got := l.ReadOne(l.Items()[0])
	if have := listed(got.Object["policies"]); !slices.Contains(have, own) || slices.Contains(have, all) || len(have) != 5 {
		t.Errorf("the policies are %q", have)
	}
	if !got.Ours || got.Object["permissionsBoundary"] != admin || fmt.Sprint(got.Object["inlinePolicies"]) != "[cache]" || got.Tags[tag.DeletionPolicy] != "" {
		t.Errorf("ours %v, %v", got.Ours, got.Object)
	}
	if !slices.Equal(kindtest.Texts(got.Notes), []string{"it has inline policies that are not Poolwright's: cache", "it has policies of this account that are not Poolwright's: cache-reader"}) {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestTheBoundaryThatPoolwrightGivesIsNotRequiredOfRolesOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name, declared string
		differs        bool
	}{
		{"the default", "", false},
		{"a boundary that is declared", "own", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, Roles{}, nil, kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.PermissionsBoundary = tt.declared }))
			roleWithTrust(l, "nodes", "/", nodeTrustText)
			item := l.Items()[0]
			for _, arn := range listed(item.Object["policies"]) {
				l.Do(l.Clients.IAM.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: nodesName(l), PolicyArn: &arn}))
			}
			found := Roles{}.WithGrants(l.Clients.Scope, item.Object, projection.WithOwnTags(item.Object, projection.Project(item.Object, l.ReadOne(item).Object)))
			if same := state.Equal(item.Object, found); same == tt.differs {
				t.Errorf("equal: %v: %v", same, found)
			}
		})
	}
}

func TestInlinePoliciesOfARoleThatIsNotOursAreLeftAlone(t *testing.T) {
	l := bootstrapped(t, Roles{}, nil, kindtest.Nodes(nil))
	roleWithTrust(l, "nodes", "/", nodeTrustText)
	l.Do(l.Clients.IAM.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: nodesName(l), PolicyName: sdk.String("cache"), PolicyDocument: sdk.String(someDocument)}))
	item := l.Items()[0]
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(l.ReadOne(item).Object["inlinePolicies"]); got != "[cache]" {
		t.Errorf("inline policies are %s", got)
	}
}

func TestARoleIsMadeWithABoundaryAlsoWhereItWouldBeAdopted(t *testing.T) {
	l := kindtest.NewFixture(t, Roles{}, nil, kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	err := l.Apply(t.Context(), l.Clients)
	if err == nil || errors.Is(err, awserr.ErrNotPropagated) || !strings.Contains(err.Error(), "poolwright-boundary-sandbox-us-east-1 does not exist: run `poolwright bootstrap`") {
		t.Errorf("without a boundary: %v", err)
	}
	l.Do(l.Clients.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("poolwright-boundary-sandbox-us-east-1"), PolicyDocument: sdk.String(someDocument)}))
	l.Converge()
	if got := l.ReadOne(l.Items()[0]).Object["permissionsBoundary"]; got != "arn:aws:iam::000000000000:policy/poolwright-boundary-sandbox-us-east-1" {
		t.Errorf("the boundary is %v", got)
	}
}
