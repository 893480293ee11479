package aws

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
)

func TestAnAdoptedRoleKeepsItsBoundaryItsPathAndItsInlinePolicies(t *testing.T) {
	l := newLife(t, roles{}, nil, nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	l.role("nodes", "/eks/", lambdaTrustText)
	l.do(l.c.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: l.node(), PolicyName: sdk.String("cache"), PolicyDocument: sdk.String(someDocument)}))
	admin := "arn:aws:iam::aws:policy/ReadOnlyAccess"
	l.do(l.c.iam.PutRolePermissionsBoundary(t.Context(), &iam.PutRolePermissionsBoundaryInput{RoleName: l.node(), PermissionsBoundary: &admin}))
	own, all := "arn:aws:iam::000000000000:policy/cache-reader", "arn:aws:iam::aws:policy/AdministratorAccess"
	l.do(l.c.iam.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("cache-reader"), PolicyDocument: sdk.String(someDocument)}))
	for _, arn := range []string{own, all} {
		l.do(l.c.iam.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: l.node(), PolicyArn: &arn}))
	}
	l.settle()
	got := l.see(l.wanted()[0])
	if have := listed(got.object["policies"]); !slices.Contains(have, own) || slices.Contains(have, all) || len(have) != 5 {
		t.Errorf("the policies are %q", have)
	}
	if !got.ours || got.object["permissionsBoundary"] != admin || fmt.Sprint(got.object["inlinePolicies"]) != "[cache]" || got.tags[policyTag] != "" {
		t.Errorf("ours %v, %v", got.ours, got.object)
	}
	if !slices.Equal(got.notes, []string{"it has inline policies that Poolwright does not know: cache", "it has policies of this account that Poolwright does not know: cache-reader"}) {
		t.Errorf("notes %q", got.notes)
	}
}

func TestTheBoundaryThatPoolwrightGivesIsNotAskedOfRolesOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name, declared string
		differs        bool
	}{
		{"the default", "", false},
		{"a boundary that is declared", "own", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife(t, roles{}, nil, nodes(func(n *v1alpha1.NodeRole) { n.PermissionsBoundary = tt.declared }))
			l.role("nodes", "/", nodeTrustText)
			item := l.wanted()[0]
			for _, arn := range listed(item.Object["policies"]) {
				l.do(l.c.iam.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: l.node(), PolicyArn: &arn}))
			}
			found := roles{}.withGrants(l.c.place, item.Object, asMarked(item.Object, project(item.Object, l.see(item).object)))
			if same := state.Equal(item.Object, found); same == tt.differs {
				t.Errorf("equal: %v: %v", same, found)
			}
		})
	}
}

func TestInlinePoliciesOfARoleThatIsNotOursAreLeftAlone(t *testing.T) {
	l := bootstrapped(t, roles{}, nil, nodes(nil))
	l.role("nodes", "/", nodeTrustText)
	l.do(l.c.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: l.node(), PolicyName: sdk.String("cache"), PolicyDocument: sdk.String(someDocument)}))
	item := l.wanted()[0]
	if err := l.write(t.Context(), l.c, item, l.see(item)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(l.see(item).object["inlinePolicies"]); got != "[cache]" {
		t.Errorf("inline policies are %s", got)
	}
}

func TestARoleIsMadeWithABoundaryAlsoWhereItWouldBeAdopted(t *testing.T) {
	l := newLife(t, roles{}, nil, nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	err := l.correct(t.Context(), l.c)
	if err == nil || errors.Is(err, errNotYet) || !strings.Contains(err.Error(), "poolwright-boundary-sandbox-us-east-1 does not exist: run `poolwright bootstrap`") {
		t.Errorf("without a boundary: %v", err)
	}
	l.do(l.c.iam.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("poolwright-boundary-sandbox-us-east-1"), PolicyDocument: sdk.String(someDocument)}))
	l.settle()
	if got := l.see(l.wanted()[0]).object["permissionsBoundary"]; got != "arn:aws:iam::000000000000:policy/poolwright-boundary-sandbox-us-east-1" {
		t.Errorf("the boundary is %v", got)
	}
}
