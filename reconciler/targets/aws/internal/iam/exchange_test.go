package iam

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

// former are the names that an earlier release gave the policies of the controller's role.
var former = []string{"poolwright-limits-sandbox-us-east-1", "poolwright-loop-sandbox-us-east-1"}

func TestPoliciesOfARoleAreAttachedBeforeFormerOnesAreDetached(t *testing.T) {
	upgraded := []string{
		"Attach poolwright-deny-sandbox-us-east-1", "Attach poolwright-resources-sandbox-us-east-1",
		"Detach poolwright-loop-sandbox-us-east-1", "Detach poolwright-limits-sandbox-us-east-1",
	}
	const refused = " LimitExceeded"
	for name, c := range map[string]struct {
		others, refusals int
		trust            string
		want             []string
	}{
		"policies of an earlier release": {0, 0, "", upgraded},
		"a role with a quota for one more policy": {6, 0, "", slices.Concat(
			upgraded[:1], []string{upgraded[1] + refused}, others(0, 1), upgraded[1:2], others(1, 6), upgraded[2:])},
		"a role without a quota for one more policy": {7, 0, "", slices.Concat(
			[]string{upgraded[0] + refused}, others(0, 1), upgraded[:1], []string{upgraded[1] + refused}, others(1, 2), upgraded[1:2], others(2, 7), upgraded[2:])},
		"a role that exceeds its quota by one": {0, 2, "", []string{
			upgraded[0] + refused, upgraded[2], upgraded[0] + refused, upgraded[3], upgraded[0], upgraded[1],
		}},
		"a role whose trust changes too": {0, 0, lambdaTrustText, []string{
			"Attach poolwright-deny-sandbox-us-east-1", "Detach poolwright-loop-sandbox-us-east-1", "Trust",
			"Attach poolwright-resources-sandbox-us-east-1", "Detach poolwright-limits-sandbox-us-east-1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := kindtest.Nodes(nil)
			spec.ControllerRole = &v1alpha1.ControllerRole{}
			l := bootstrapped(t, Roles{}, nil, spec)
			l.Converge()
			items := l.Items()
			item := items[slices.IndexFunc(items, func(i state.Item) bool {
				return strings.Contains(fmt.Sprint(i.Object["policies"]), "poolwright-engine-")
			})]
			role := &item.Key.Name
			for _, kind := range []string{"deny", "resources"} {
				l.Do(l.Clients.IAM.DetachRolePolicy(t.Context(), &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: sdk.String("arn:aws:iam::000000000000:policy/poolwright-" + kind + "-sandbox-us-east-1")}))
			}
			names := former
			for i := range c.others {
				names = append(slices.Clone(names), fmt.Sprintf("other-%d", i))
			}
			for _, name := range names {
				made, err := l.Clients.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: sdk.String(someDocument)})
				if err != nil {
					t.Fatal(err)
				}
				l.Do(l.Clients.IAM.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: made.Policy.Arn}))
			}
			if c.trust != "" {
				l.Do(l.Clients.IAM.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: role, PolicyDocument: &c.trust}))
			}
			if c.refusals > 0 {
				exceedQuota(l, c.refusals)
			}
			before := len(l.Cloud.Calls())
			if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, call := range l.Cloud.Calls()[before:] {
				switch name := policyName.FindString(call.Params); call.Operation {
				case "AttachRolePolicy":
					got = append(got, strings.TrimSpace("Attach "+name+" "+call.Code))
				case "DetachRolePolicy":
					got = append(got, "Detach "+name)
				case "UpdateAssumeRolePolicy":
					got = append(got, "Trust")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// exceedQuota has AWS refuse so many attachments of policies.
func exceedQuota(l *kindtest.Fixture, times int) {
	l.Helper()
	if _, err := l.Cloud.Inject(sandboxaws.Fault{Service: "iam", Operation: "AttachRolePolicy", Code: "LimitExceeded", Status: http.StatusConflict, Times: times}); err != nil {
		l.Fatal(err)
	}
}

func TestAQuotaThatNoFormerPolicyIsDetachedForIsAnError(t *testing.T) {
	spec := kindtest.Nodes(nil)
	spec.ControllerRole = &v1alpha1.ControllerRole{}
	l := bootstrapped(t, Roles{}, nil, spec)
	l.Converge()
	items := l.Items()
	item := items[slices.IndexFunc(items, func(i state.Item) bool {
		return strings.Contains(fmt.Sprint(i.Object["policies"]), "poolwright-engine-")
	})]
	arn := "arn:aws:iam::000000000000:policy/poolwright-deny-sandbox-us-east-1"
	l.Do(l.Clients.IAM.DetachRolePolicy(t.Context(), &iam.DetachRolePolicyInput{RoleName: &item.Key.Name, PolicyArn: &arn}))
	exceedQuota(l, 1)
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); awserr.Code(err) != "LimitExceeded" {
		t.Errorf("error %v", err)
	}
}

var policyName = regexp.MustCompile(`poolwright-(deny|resources|limits|loop)-sandbox-us-east-1|other-\d`)

// others are the requests that detach other policies, from one number up to another.
func others(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("Detach other-%d", i))
	}
	return out
}
