package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	permissions "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func (l *life) policyARN(what string) *string {
	return sdk.String(l.c.place.iamARN("policy/poolwright-" + what + "-sandbox-us-east-1"))
}

// newVersion changes a policy by hand.
func (l *life) newVersion(what string) {
	l.Helper()
	if err := pruneVersions(l.Context(), l.c, *l.policyARN(what)); err != nil {
		l.Fatal(err)
	}
	l.do(l.c.iam.CreatePolicyVersion(l.Context(), &iam.CreatePolicyVersionInput{PolicyArn: l.policyARN(what), PolicyDocument: sdk.String(someDocument), SetAsDefault: true}))
}

func TestPoliciesAreMadeOfNothingAndPutRightWhereTheyAreBroken(t *testing.T) {
	l := bootstrapped(t, policies{}, nil, controlled(v1alpha1.IdentityPod))
	l.settle()
	if diff := cmp.Diff([]string{"poolwright-boundary-sandbox-us-east-1", "poolwright-engine-sandbox-us-east-1", "poolwright-limits-sandbox-us-east-1", "poolwright-loop-sandbox-us-east-1"}, names(l.wanted())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, item := range l.wanted() {
		if got := l.see(item); !got.ours || !strings.Contains(got.uid, ":policy/"+item.Key.Name+"#ANPA") {
			t.Errorf("%s: ours %v, uid %s", item.Key, got.ours, got.uid)
		}
	}
	l.asks(map[string]int{"GetPolicy": 4, "GetPolicyVersion": 4})
	ctx, api := t.Context(), l.c.iam
	// IAM keeps five versions: the sixth change must still pass.
	for range 6 {
		l.broken("another document", func() { l.newVersion("engine") })
	}
	all, err := api.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: l.policyARN("engine")})
	l.do(all, err)
	if len(all.Versions) != 5 {
		t.Errorf("there are %d versions: the test did not meet the limit", len(all.Versions))
	}
	l.broken("a missing tag", func() {
		l.do(api.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: l.policyARN("loop"), TagKeys: []string{clusterTag}}))
	})
}

func TestAPolicyOfOthersIsNotOurs(t *testing.T) {
	l := bootstrapped(t, policies{}, nil, controlled(v1alpha1.IdentityPod))
	l.do(l.c.iam.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("poolwright-loop-sandbox-us-east-1"), PolicyDocument: sdk.String(someDocument)}))
	for _, item := range l.wanted() {
		if got := l.see(item); got.ours {
			t.Errorf("%s is ours", item.Key)
		}
	}
}

func TestTheBoundaryIsWantedWhereARoleIsMadeWithIt(t *testing.T) {
	c, _ := newCloud(t, nil)
	for _, tt := range []struct {
		name string
		spec v1alpha1.ClusterSpec
		want []string
	}{
		{"a node role", nodes(nil), []string{"poolwright-boundary-sandbox-us-east-1"}},
		{"a node role with a boundary of its own", nodes(func(n *v1alpha1.NodeRole) { n.PermissionsBoundary = "own" }), nil},
		{"a node role that is adopted", nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }), nil},
		{"nothing", v1alpha1.ClusterSpec{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, names(policies{}.want(defaulted(c, tt.spec)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoliciesThatCannotBeWrittenSayWhy(t *testing.T) {
	c, _ := newCloud(t, nil)
	s := defaulted(c, v1alpha1.ClusterSpec{ControllerRole: &v1alpha1.ControllerRole{}})
	s.bootstrap = true
	for _, k := range []kind{policies{}, roles{}, podIdentities{}} {
		for _, item := range k.want(s) {
			if item.CompareOnly != needsNodes {
				t.Errorf("%s is held because %q", item.Key, item.CompareOnly)
			}
		}
	}
	for _, item := range (policies{}).want(s) {
		if err := (policies{}).write(t.Context(), c, item, liveResource{}); err == nil {
			t.Errorf("%s was written", item.Key)
		}
	}
}

func TestTheEnginesPolicyFollowsItsOwnQueue(t *testing.T) {
	c, _ := newCloud(t, nil)
	spec := controlled(v1alpha1.IdentityPod)
	spec.InterruptionQueue = &v1alpha1.InterruptionQueue{Name: "declared"}
	spec.Engine.InterruptionQueue = "elsewhere"
	s := defaulted(c, spec)
	for what, queue := range map[string]string{"engine": ":elsewhere", "loop": ":declared"} {
		write := map[string]func(permissions.Values) (string, error){"engine": permissions.Engine, "loop": permissions.Loop}[what]
		doc, err := s.permissions("poolwright-"+what+"-sandbox-us-east-1", write)
		text, errText := documentText(doc)
		if err != nil || errText != nil || !strings.Contains(text, queue+`"`) {
			t.Errorf("%s does not name %s: %v %v", what, queue, err, errText)
		}
		if len(text) > 6144 {
			t.Errorf("%s has %d characters", what, len(text))
		}
	}
}

func TestABoundaryThatBoundsARoleIsNotDeleted(t *testing.T) {
	l := bootstrapped(t, roles{}, nil, nodes(nil))
	l.settle()
	b := *l
	b.kind = policies{}
	item := b.wanted()[0]
	err := b.remove(t.Context(), b.c, item.Key, b.see(item))
	if err == nil || !strings.Contains(err.Error(), "still the permissions boundary of 1") {
		t.Errorf("got %v", err)
	}
	if b.see(item).object == nil {
		t.Error("it is gone")
	}
}
