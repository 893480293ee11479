package iam

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func policyARN(l *kindtest.Fixture, what string) *string {
	return sdk.String(l.Clients.Scope.IAMARN("policy/poolwright-" + what + "-sandbox-us-east-1"))
}

// addVersion changes a policy by hand.
func addVersion(l *kindtest.Fixture, what string) {
	l.Helper()
	if err := pruneVersions(l.Context(), l.Clients, *policyARN(l, what)); err != nil {
		l.Fatal(err)
	}
	l.Do(l.Clients.IAM.CreatePolicyVersion(l.Context(), &iam.CreatePolicyVersionInput{PolicyArn: policyARN(l, what), PolicyDocument: sdk.String(someDocument), SetAsDefault: true}))
}

func TestPoliciesAreMadeOfNothingAndPutRightWhereTheyAreBroken(t *testing.T) {
	l := bootstrapped(t, Policies{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
	l.Converge()
	if diff := cmp.Diff([]string{"poolwright-boundary-sandbox-us-east-1", "poolwright-engine-sandbox-us-east-1", "poolwright-deny-sandbox-us-east-1", "poolwright-resources-sandbox-us-east-1"}, kindtest.Names(l.Items())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, item := range l.Items() {
		if got := l.ReadOne(item); !got.Ours || !strings.Contains(got.UID, ":policy/"+item.Key.Name+"#ANPA") {
			t.Errorf("%s: ours %v, uid %s", item.Key, got.Ours, got.UID)
		}
	}
	l.Requests(map[string]int{"GetPolicy": 4, "GetPolicyVersion": 4})
	ctx, api := t.Context(), l.Clients.IAM
	// IAM keeps five versions: the sixth change must still pass.
	for range 6 {
		l.Break("another document", func() { addVersion(l, "engine") })
	}
	all, err := api.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: policyARN(l, "engine")})
	l.Do(all, err)
	if len(all.Versions) != 5 {
		t.Errorf("there are %d versions: the test did not meet the limit", len(all.Versions))
	}
	l.Break("a missing tag", func() {
		l.Do(api.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: policyARN(l, "resources"), TagKeys: []string{tag.Cluster}}))
	})
}

func TestAPolicyOfOthersIsNotOurs(t *testing.T) {
	l := bootstrapped(t, Policies{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
	l.Do(l.Clients.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("poolwright-resources-sandbox-us-east-1"), PolicyDocument: sdk.String(someDocument)}))
	for _, item := range l.Items() {
		if got := l.ReadOne(item); got.Ours {
			t.Errorf("%s is ours", item.Key)
		}
	}
}

func TestTheBoundaryIsDesiredWhereARoleIsMadeWithIt(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	for _, tt := range []struct {
		name string
		spec v1alpha1.ClusterSpec
		want []string
	}{
		{"a node role", kindtest.Nodes(nil), []string{"poolwright-boundary-sandbox-us-east-1"}},
		{"a node role with a boundary of its own", kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.PermissionsBoundary = "own" }), nil},
		{"a node role that is adopted", kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }), nil},
		{"nothing", v1alpha1.ClusterSpec{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, kindtest.Names(Policies{}.Desired(kindtest.Defaulted(c, tt.spec)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoliciesThatCannotBeWrittenReportTheReason(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	s := kindtest.Defaulted(c, v1alpha1.ClusterSpec{ControllerRole: &v1alpha1.ControllerRole{}})
	s.Bootstrap = true
	for _, k := range []resource.Kind{Policies{}, Roles{}, PodIdentityAssociations{}} {
		for _, item := range k.Desired(s) {
			if item.ReadOnly != needsNodes {
				t.Errorf("%s is held because %q", item.Key, item.ReadOnly)
			}
		}
	}
	for _, item := range (Policies{}).Desired(s) {
		if err := (Policies{}).Write(t.Context(), c, item, resource.Live{}); err == nil {
			t.Errorf("%s was written", item.Key)
		}
	}
}

func TestTheEnginesPolicyFollowsItsOwnQueue(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	spec := kindtest.Controlled(v1alpha1.IdentityPod)
	spec.InterruptionQueue = &v1alpha1.InterruptionQueue{Name: "declared"}
	spec.Engine.InterruptionQueue = "elsewhere"
	s := kindtest.Defaulted(c, spec)
	for what, queue := range map[string]string{"engine": ":elsewhere", "resources": ":declared"} {
		write := map[string]func(iampolicy.Values) (string, error){"engine": iampolicy.Engine, "resources": iampolicy.Resources}[what]
		doc, err := policyDocument(s, "poolwright-"+what+"-sandbox-us-east-1", write)
		text, errText := policydoc.Text(doc)
		if err != nil || errText != nil || !strings.Contains(text, queue+`"`) {
			t.Errorf("%s does not name %s: %v %v", what, queue, err, errText)
		}
		if len(text) > 6144 {
			t.Errorf("%s has %d characters", what, len(text))
		}
	}
}

func TestABoundaryThatBoundsARoleIsNotDeleted(t *testing.T) {
	l := bootstrapped(t, Roles{}, nil, kindtest.Nodes(nil))
	l.Converge()
	b := *l
	b.Kind = Policies{}
	item := b.Items()[0]
	err := b.Remove(t.Context(), b.Clients, item.Key, b.ReadOne(item))
	if err == nil || !strings.Contains(err.Error(), "still the permissions boundary of 1") {
		t.Errorf("got %v", err)
	}
	if b.ReadOne(item).Object == nil {
		t.Error("it is gone")
	}
}
