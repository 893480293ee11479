package aws

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAnInstanceProfileIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, profiles{}, func(c *sandbox.Config) { c.Roles = []string{"other"} }, controlled(v1alpha1.IdentityPod))
	l.settle()
	got := l.see(l.wanted()[0])
	want := map[string]any{"role": "nodes", "tags": map[string]any{"team": "ml", clusterTag: sandboxMark, policyTag: "Orphan"}}
	if diff := cmp.Diff(want, got.object); diff != "" || !got.ours || !strings.Contains(got.uid, ":instance-profile/nodes#AIPA") {
		t.Errorf("ours %v, uid %s (-want +got):\n%s", got.ours, got.uid, diff)
	}
	l.asks(map[string]int{"GetInstanceProfile": 1})
	take := func() {
		l.do(l.c.iam.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: l.node(), RoleName: l.node()}))
	}
	l.broken("no role", take)
	l.broken("another role", func() {
		take()
		l.do(l.c.iam.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: l.node(), RoleName: sdk.String("other")}))
	})
	l.broken("a missing tag", func() {
		l.do(l.c.iam.UntagInstanceProfile(t.Context(), &iam.UntagInstanceProfileInput{InstanceProfileName: l.node(), TagKeys: []string{clusterTag}}))
	})
	l.broken("all of it gone", func() {
		take()
		l.do(l.c.iam.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: l.node()}))
	})
}

func TestAnInstanceProfileOfOthersIsNotOurs(t *testing.T) {
	l := newLife(t, profiles{}, func(c *sandbox.Config) {
		c.Roles, c.Profiles = []string{"nodes"}, map[string]string{"nodes": "nodes"}
	}, controlled(v1alpha1.IdentityPod))
	if got := l.see(l.wanted()[0]); got.ours || got.object["role"] != "nodes" {
		t.Errorf("ours %v, %v", got.ours, got.object)
	}
}

func (l *life) principal() *string { return sdk.String(l.c.place.iamARN("role/nodes")) }

func TestAnAccessEntryIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, accessEntries{}, nil, controlled(v1alpha1.IdentityPod))
	l.settle()
	got := l.see(l.wanted()[0])
	want := map[string]any{
		"principalArn": *l.principal(), "type": "EC2_LINUX", "tags": map[string]any{"team": "ml", clusterTag: sandboxMark, policyTag: "Orphan"},
	}
	if diff := cmp.Diff(want, got.object); diff != "" || !got.ours || !strings.Contains(got.uid, "access-entry/sandbox/") {
		t.Errorf("ours %v, uid %s (-want +got):\n%s", got.ours, got.uid, diff)
	}
	l.asks(map[string]int{"DescribeAccessEntry": 1})
	drop := func() {
		l.do(l.c.eks.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: l.principal()}))
	}
	l.broken("no entry", drop)
	l.broken("an entry of another type that is ours", func() {
		drop()
		l.do(l.c.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: l.principal(), Tags: tagsOf(l.wanted()[0])}))
	})
	l.broken("a missing tag", func() {
		arn, _, _ := strings.Cut(l.see(l.wanted()[0]).uid, "#")
		l.do(l.c.eks.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{clusterTag}}))
	})
}

func TestAnEntryThatEKSMadeItselfIsNotOurs(t *testing.T) {
	l := newLife(t, accessEntries{}, func(c *sandbox.Config) { c.Roles = []string{"nodes"} }, nodes(nil))
	l.do(l.c.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: l.principal(), Type: sdk.String("EC2_LINUX")}))
	if got := l.see(l.wanted()[0]); got.ours || got.object["type"] != "EC2_LINUX" {
		t.Errorf("ours %v, %v", got.ours, got.object)
	}
}

func TestAnEntryOfAnotherTypeThatOthersMadeIsNeverReplaced(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"of others":              nil,
		"of the other region":    {clusterTag: "us-west-2/sandbox", policyTag: "Delete"},
		"that was adopted once":  {clusterTag: sandboxMark},
		"with a tag of the team": {"team": "ml"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, accessEntries{}, func(c *sandbox.Config) { c.Roles = []string{"nodes"} }, nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
			l.do(l.c.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: l.principal(), Tags: tags}))
			item := l.wanted()[0]
			got := l.see(item)
			for _, command := range []string{"`aws eks delete-access-entry --cluster-name sandbox --principal-arn " + *l.principal(), "`aws eks create-access-entry ", "--type EC2_LINUX"} {
				if !strings.Contains(got.compareOnly, command) {
					t.Errorf("%q is not said: %s", command, got.compareOnly)
				}
			}
			if err := l.write(t.Context(), l.c, item, got); err == nil {
				t.Error("it was written")
			}
			if after := l.see(item); after.object["type"] != "STANDARD" || after.uid != got.uid {
				t.Errorf("it was replaced: %v", after.object)
			}
		})
	}
}

func TestTheEntryOfARoleWithAPathIsFoundAndNeverMade(t *testing.T) {
	l := newLife(t, accessEntries{}, nil, nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	l.role("nodes", "/eks/", nodeTrustText)
	item, principal := l.wanted()[0], l.c.place.iamARN("role/eks/nodes")
	missing := l.see(item)
	if missing.object != nil || !strings.Contains(missing.missing, "`aws eks create-access-entry --cluster-name sandbox --principal-arn "+principal+" --type EC2_LINUX --region us-east-1`") {
		t.Errorf("it is not made, and %q is said", missing.missing)
	}
	if err := l.write(t.Context(), l.c, item, liveResource{}); err == nil || !strings.Contains(err.Error(), "has a path") {
		t.Errorf("making it: %v", err)
	}
	l.do(l.c.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: &principal, Type: sdk.String("EC2_LINUX")}))
	l.settle()
	if got := l.see(item); !got.ours || !strings.Contains(got.uid, "/nodes/") {
		t.Errorf("ours %v, %v", got.ours, got.uid)
	}
}

func TestOnlyARoleThatEKSHasNotHeardOfIsWaitedFor(t *testing.T) {
	for message, want := range map[string]bool{
		"The specified principalArn is invalid: invalid principal.":                    true,
		"Role provided in the request does not exist.":                                 true,
		"The role arn:aws:iam::000000000000:role/nodes cannot be found.":               true,
		"The username is reserved.":                                                    false,
		"The tag key aws:x is not allowed.":                                            false,
		"The kubernetesGroups must be empty for an access entry of the type EC2_LINUX": false,
	} {
		err := &smithy.GenericAPIError{Code: "InvalidParameterException", Message: message}
		if unheard(err) != want {
			t.Errorf("%q: waited for: %v", message, !want)
		}
	}
	if unheard(&smithy.GenericAPIError{Code: "InvalidRequestException", Message: "role not found"}) {
		t.Error("another code is waited for")
	}
}

func TestARoleStaysInItsProfileUntilTheOtherMayComeIn(t *testing.T) {
	l := newLife(t, profiles{}, func(c *sandbox.Config) {
		c.Roles, c.Profiles = []string{"nodes", "other"}, map[string]string{"nodes": "other"}
	}, controlled(v1alpha1.IdentityPod))
	item := l.wanted()[0]
	if _, err := l.cloud.Inject(sandbox.Fault{Service: "iam", Operation: "AddRoleToInstanceProfile", Code: "AccessDenied", Message: "not authorized to perform: iam:PassRole on resource: nodes", Status: http.StatusForbidden}); err != nil {
		t.Fatal(err)
	}
	if err := l.write(t.Context(), l.c, item, l.see(item)); !denied(err) {
		t.Errorf("got %v", err)
	}
	if got := l.see(item); got.object["role"] != "other" {
		t.Errorf("the profile holds %v", got.object["role"])
	}
}

func TestAClusterWithoutAccessEntriesSaysWhatToDo(t *testing.T) {
	l := newLife(t, accessEntries{}, nil, nodes(nil))
	if _, err := l.cloud.Inject(sandbox.Fault{
		Service: "eks", Operation: "DescribeAccessEntry", Code: "InvalidRequestException",
		Message: "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
	}); err != nil {
		t.Fatal(err)
	}
	item := l.wanted()[0]
	l.authentication("CONFIG_MAP")
	got := l.read(t.Context(), l.c, keysOf(item))[item.Key]
	if got.err == nil || !strings.Contains(got.err.Error(), "`aws eks update-cluster-config --name sandbox --access-config authenticationMode=API_AND_CONFIG_MAP`") {
		t.Errorf("got %v", got.err)
	}
	if _, text := describe("role x", got.err); !strings.Contains(text, "update-cluster-config") {
		t.Errorf("a reader sees %s", text)
	}
	l.authentication("API")
	if got := l.read(t.Context(), l.c, keysOf(item))[item.Key]; codeOf(got.err) != "InvalidRequestException" {
		t.Errorf("of another cause it says %v", got.err)
	}
}

func TestAClusterThatDoesNotExistIsAnError(t *testing.T) {
	for _, k := range []kind{accessEntries{}, podIdentities{}} {
		l := newLife(t, k, nil, controlled(v1alpha1.IdentityPod))
		l.scope.Cluster = "other"
		item := l.wanted()[0]
		got := l.read(t.Context(), l.c, keysOf(item))[item.Key]
		if got.err == nil || !strings.Contains(got.err.Error(), `EKS has no cluster "other" in us-east-1`) {
			t.Errorf("%T: %v, %v", k, got.object, got.err)
		}
	}
}

func TestAPodIdentityAssociationIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, podIdentities{}, func(c *sandbox.Config) {
		c.Roles, c.Cluster.Addons = []string{"other"}, map[string]string{"eks-pod-identity-agent": "v1.3.8-eksbuild.2"}
	}, controlled(v1alpha1.IdentityPod))
	l.settle()
	got := l.see(l.wanted()[0])
	want := map[string]any{
		"namespace": "poolwright-system", "serviceAccount": "poolwright", "role": "poolwright-sandbox-us-east-1",
		"tags": map[string]any{"team": "ml", clusterTag: sandboxMark, policyTag: "Orphan"},
	}
	if diff := cmp.Diff(want, got.object); diff != "" || !got.ours || len(got.notes) > 0 {
		t.Errorf("ours %v, notes %q (-want +got):\n%s", got.ours, got.notes, diff)
	}
	l.asks(map[string]int{"ListPodIdentityAssociations": 1, "DescribePodIdentityAssociation": 1, "DescribeAddon": 1})
	id := func() *string { return sdk.String(associationID(l.see(l.wanted()[0]))) }
	l.broken("another role", func() {
		l.do(l.c.eks.UpdatePodIdentityAssociation(t.Context(), &eks.UpdatePodIdentityAssociationInput{
			ClusterName: sdk.String("sandbox"), AssociationId: id(), RoleArn: sdk.String(l.c.place.iamARN("role/other")),
		}))
	})
	l.broken("no association", func() {
		l.do(l.c.eks.DeletePodIdentityAssociation(t.Context(), &eks.DeletePodIdentityAssociationInput{ClusterName: sdk.String("sandbox"), AssociationId: id()}))
	})
	l.broken("a missing tag", func() {
		arn, _, _ := strings.Cut(l.see(l.wanted()[0]).uid, "#")
		l.do(l.c.eks.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{clusterTag}}))
	})
}

func TestAMissingIdentityAgentIsNoted(t *testing.T) {
	const missing = "the add-on eks-pod-identity-agent is not installed, and without its agent no pod gets the role: " +
		"`aws eks create-addon --cluster-name sandbox --region us-east-1 --addon-name eks-pod-identity-agent`"
	for _, tt := range []struct {
		name   string
		change func(*sandbox.Config)
		denied bool
		want   []string
	}{
		{"no add-on", nil, false, []string{missing}},
		{"Auto Mode has it built in", func(c *sandbox.Config) { c.Cluster.AutoMode = true }, false, nil},
		{"who may not look cannot say", nil, true, []string{"whether the add-on eks-pod-identity-agent is installed is unknown: denied eks:DescribeAddon"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife(t, podIdentities{}, tt.change, controlled(v1alpha1.IdentityPod))
			if tt.denied {
				if _, err := l.cloud.Inject(sandbox.Fault{Service: "eks", Operation: "DescribeAddon", Code: "AccessDeniedException", Status: http.StatusForbidden}); err != nil {
					t.Fatal(err)
				}
			}
			// The association does not exist yet: the note is there already.
			if got := l.see(l.wanted()[0]); !slices.Equal(got.notes, tt.want) || got.object != nil {
				t.Errorf("notes %q, object %v", got.notes, got.object)
			}
		})
	}
}

func TestTheControllersTrustNamesItsIssuer(t *testing.T) {
	for _, provider := range []bool{true, false} {
		l := bootstrapped(t, roles{}, func(c *sandbox.Config) { c.Cluster.OIDC = provider }, controlled(v1alpha1.IdentityIRSA))
		l.settle()
		item := l.wanted()[1]
		got := l.see(item)
		role, err := l.c.iam.GetRole(t.Context(), &iam.GetRoleInput{RoleName: sdk.String(item.Key.Name)})
		l.do(role, err)
		doc, err := document(*role.Role.AssumeRolePolicyDocument)
		l.do(doc, err)
		text, err := documentText(doc)
		l.do(text, err)
		issuer, err := l.c.issuer(t.Context())
		l.do(issuer, err)
		if issuer == "" || strings.Contains(text, "<") || !strings.Contains(text, issuer+`:sub":"system:serviceaccount:poolwright-system:poolwright"`) {
			t.Errorf("with issuer %s the trust is %s", issuer, text)
		}
		if noted := slices.ContainsFunc(got.notes, func(n string) bool { return strings.Contains(n, "eksctl utils associate-iam-oidc-provider") }); noted == provider {
			t.Errorf("with a provider %v the notes are %q", provider, got.notes)
		}
		l.broken("another issuer", func() {
			l.do(l.c.iam.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{
				RoleName: sdk.String(item.Key.Name), PolicyDocument: sdk.String(strings.ReplaceAll(text, issuer, issuer+"0")),
			}))
		})
		l.broken("another service account", func() {
			l.do(l.c.iam.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{
				RoleName: sdk.String(item.Key.Name), PolicyDocument: sdk.String(strings.ReplaceAll(text, "poolwright-system:poolwright", "default:default")),
			}))
		})
	}
}

// authentication lets the cluster answer with another authentication mode than
// the emulator has.
func (l *life) authentication(mode string) {
	o := l.c.sqs.Options()
	l.c = newClients(sdk.Config{
		Region: l.c.place.Region, BaseEndpoint: o.BaseEndpoint, RetryMaxAttempts: 1, Credentials: o.Credentials,
		HTTPClient: doing(func(r *http.Request) (*http.Response, error) {
			answer, err := o.HTTPClient.Do(r)
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(answer.Body)
			changed := regexp.MustCompile(`"authenticationMode":"[A-Z_]+"`).ReplaceAll(body, []byte(`"authenticationMode":"`+mode+`"`))
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
			return answer, err
		}),
	}, l.c.place, l.c.clock)
}

func keysOf(items ...state.Item) []state.Key {
	var out []state.Key
	for _, i := range items {
		out = append(out, i.Key)
	}
	return out
}

func TestEveryIdentityOnItsWayIsUnknownWhereItsReadIsDenied(t *testing.T) {
	for _, tt := range []struct {
		kind       kind
		service    string
		operations []string
	}{
		{policies{}, "iam", []string{"GetPolicy", "GetPolicyVersion"}},
		{profiles{}, "iam", []string{"GetInstanceProfile"}},
		{accessEntries{}, "eks", []string{"DescribeAccessEntry"}},
		{podIdentities{}, "eks", []string{"ListPodIdentityAssociations", "DescribePodIdentityAssociation"}},
	} {
		l := bootstrapped(t, tt.kind, nil, controlled(v1alpha1.IdentityPod))
		l.settle()
		l.denied(tt.service, tt.operations...)
	}
}
