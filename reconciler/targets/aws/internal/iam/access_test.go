package iam

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

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func TestAnInstanceProfileIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, InstanceProfiles{}, func(c *sandboxaws.Config) { c.Roles = []string{"other"} }, kindtest.Controlled(v1alpha1.IdentityPod))
	l.Converge()
	got := l.ReadOne(l.Items()[0])
	want := map[string]any{"role": "nodes", "tags": map[string]any{"team": "ml", tag.Cluster: kindtest.Mark, tag.DeletionPolicy: "Orphan"}}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Ours || !strings.Contains(got.UID, ":instance-profile/nodes#AIPA") {
		t.Errorf("ours %v, uid %s (-want +got):\n%s", got.Ours, got.UID, diff)
	}
	l.Requests(map[string]int{"GetInstanceProfile": 1})
	take := func() {
		l.Do(l.Clients.IAM.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: nodesName(l), RoleName: nodesName(l)}))
	}
	l.Break("no role", take)
	l.Break("another role", func() {
		take()
		l.Do(l.Clients.IAM.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: nodesName(l), RoleName: sdk.String("other")}))
	})
	l.Break("a missing tag", func() {
		l.Do(l.Clients.IAM.UntagInstanceProfile(t.Context(), &iam.UntagInstanceProfileInput{InstanceProfileName: nodesName(l), TagKeys: []string{tag.Cluster}}))
	})
	l.Break("all of it gone", func() {
		take()
		l.Do(l.Clients.IAM.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: nodesName(l)}))
	})
}

func TestAnInstanceProfileOfOthersIsNotOurs(t *testing.T) {
	l := kindtest.NewFixture(t, InstanceProfiles{}, func(c *sandboxaws.Config) {
		c.Roles, c.Profiles = []string{"nodes"}, map[string]string{"nodes": "nodes"}
	}, kindtest.Controlled(v1alpha1.IdentityPod))
	if got := l.ReadOne(l.Items()[0]); got.Ours || got.Object["role"] != "nodes" {
		t.Errorf("ours %v, %v", got.Ours, got.Object)
	}
}

func nodePrincipal(l *kindtest.Fixture) *string {
	return sdk.String(l.Clients.Scope.IAMARN("role/nodes"))
}

func TestAnAccessEntryIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, AccessEntries{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
	l.Converge()
	got := l.ReadOne(l.Items()[0])
	want := map[string]any{
		"principalArn": *nodePrincipal(l), "type": "EC2_LINUX", "tags": map[string]any{"team": "ml", tag.Cluster: kindtest.Mark, tag.DeletionPolicy: "Orphan"},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Ours || !strings.Contains(got.UID, "access-entry/sandbox/") {
		t.Errorf("ours %v, uid %s (-want +got):\n%s", got.Ours, got.UID, diff)
	}
	l.Requests(map[string]int{"DescribeAccessEntry": 1})
	drop := func() {
		l.Do(l.Clients.EKS.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: nodePrincipal(l)}))
	}
	l.Break("no entry", drop)
	l.Break("an entry of another type that is ours", func() {
		drop()
		l.Do(l.Clients.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: nodePrincipal(l), Tags: tag.Declared(l.Items()[0])}))
	})
	l.Break("a missing tag", func() {
		arn, _, _ := strings.Cut(l.ReadOne(l.Items()[0]).UID, "#")
		l.Do(l.Clients.EKS.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{tag.Cluster}}))
	})
}

func TestAnEntryThatEKSMadeItselfIsNotOurs(t *testing.T) {
	l := kindtest.NewFixture(t, AccessEntries{}, func(c *sandboxaws.Config) { c.Roles = []string{"nodes"} }, kindtest.Nodes(nil))
	l.Do(l.Clients.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: nodePrincipal(l), Type: sdk.String("EC2_LINUX")}))
	if got := l.ReadOne(l.Items()[0]); got.Ours || got.Object["type"] != "EC2_LINUX" {
		t.Errorf("ours %v, %v", got.Ours, got.Object)
	}
}

func TestAnEntryOfAnotherTypeThatOthersMadeIsNeverReplaced(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"of others":              nil,
		"of the other region":    {tag.Cluster: "us-west-2/sandbox", tag.DeletionPolicy: "Delete"},
		"that was adopted once":  {tag.Cluster: kindtest.Mark},
		"with a tag of the team": {"team": "ml"},
	} {
		t.Run(name, func(t *testing.T) {
			l := kindtest.NewFixture(t, AccessEntries{}, func(c *sandboxaws.Config) { c.Roles = []string{"nodes"} }, kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
			l.Do(l.Clients.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: nodePrincipal(l), Tags: tags}))
			item := l.Items()[0]
			got := l.ReadOne(item)
			for _, command := range []string{"`aws eks delete-access-entry --cluster-name sandbox --principal-arn " + *nodePrincipal(l), "`aws eks create-access-entry ", "--type EC2_LINUX"} {
				if !strings.Contains(got.ReadOnly, command) {
					t.Errorf("%q is not said: %s", command, got.ReadOnly)
				}
			}
			if err := l.Write(t.Context(), l.Clients, item, got); err == nil {
				t.Error("it was written")
			}
			if after := l.ReadOne(item); after.Object["type"] != "STANDARD" || after.UID != got.UID {
				t.Errorf("it was replaced: %v", after.Object)
			}
		})
	}
}

func TestTheEntryOfARoleWithAPathIsFoundAndNeverMade(t *testing.T) {
	l := kindtest.NewFixture(t, AccessEntries{}, nil, kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt = true }))
	roleWithTrust(l, "nodes", "/eks/", nodeTrustText)
	item, principal := l.Items()[0], l.Clients.Scope.IAMARN("role/eks/nodes")
	missing := l.ReadOne(item)
	if missing.Object != nil || !strings.Contains(missing.Missing, "`aws eks create-access-entry --cluster-name sandbox --principal-arn "+principal+" --type EC2_LINUX --region us-east-1`") {
		t.Errorf("it is not made, and %q is said", missing.Missing)
	}
	if err := l.Write(t.Context(), l.Clients, item, resource.Live{}); err == nil || !strings.Contains(err.Error(), "has a path") {
		t.Errorf("making it: %v", err)
	}
	l.Do(l.Clients.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: sdk.String("sandbox"), PrincipalArn: &principal, Type: sdk.String("EC2_LINUX")}))
	l.Converge()
	if got := l.ReadOne(item); !got.Ours || !strings.Contains(got.UID, "/nodes/") {
		t.Errorf("ours %v, %v", got.Ours, got.UID)
	}
}

func TestOnlyARoleThatEKSDoesNotFindIsWaitedFor(t *testing.T) {
	for message, want := range map[string]bool{
		"The specified principalArn is invalid: invalid principal.":                    true,
		"Role provided in the request does not exist.":                                 true,
		"The role arn:aws:iam::000000000000:role/nodes cannot be found.":               true,
		"The username is reserved.":                                                    false,
		"The tag key aws:x is not allowed.":                                            false,
		"The kubernetesGroups must be empty for an access entry of the type EC2_LINUX": false,
	} {
		err := &smithy.GenericAPIError{Code: "InvalidParameterException", Message: message}
		if roleNotPropagated(err) != want {
			t.Errorf("%q: waited for: %v", message, !want)
		}
	}
	if roleNotPropagated(&smithy.GenericAPIError{Code: "InvalidRequestException", Message: "role not found"}) {
		t.Error("another code is waited for")
	}
}

func TestARoleStaysInItsProfileUntilTheOtherMayComeIn(t *testing.T) {
	l := kindtest.NewFixture(t, InstanceProfiles{}, func(c *sandboxaws.Config) {
		c.Roles, c.Profiles = []string{"nodes", "other"}, map[string]string{"nodes": "other"}
	}, kindtest.Controlled(v1alpha1.IdentityPod))
	item := l.Items()[0]
	if _, err := l.Cloud.Inject(sandboxaws.Fault{Service: "iam", Operation: "AddRoleToInstanceProfile", Code: "AccessDenied", Message: "not authorized to perform: iam:PassRole on resource: nodes", Status: http.StatusForbidden}); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); !awserr.Denied(err) {
		t.Errorf("got %v", err)
	}
	if got := l.ReadOne(item); got.Object["role"] != "other" {
		t.Errorf("the profile holds %v", got.Object["role"])
	}
}

func TestAClusterWithoutAccessEntriesNamesTheRemedy(t *testing.T) {
	l := kindtest.NewFixture(t, AccessEntries{}, nil, kindtest.Nodes(nil))
	if _, err := l.Cloud.Inject(sandboxaws.Fault{
		Service: "eks", Operation: "DescribeAccessEntry", Code: "InvalidRequestException",
		Message: "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
	}); err != nil {
		t.Fatal(err)
	}
	item := l.Items()[0]
	setAuthentication(l, "CONFIG_MAP")
	got := l.Read(t.Context(), l.Clients, kindtest.Keys(item))[item.Key]
	if got.Err == nil || !strings.Contains(got.Err.Error(), "`aws eks update-cluster-config --name sandbox --access-config authenticationMode=API_AND_CONFIG_MAP`") {
		t.Errorf("got %v", got.Err)
	}
	if text := awserr.Explain("role x", got.Err).Error(); !strings.Contains(text, "update-cluster-config") {
		t.Errorf("a reader sees %s", text)
	}
	setAuthentication(l, "API")
	if got := l.Read(t.Context(), l.Clients, kindtest.Keys(item))[item.Key]; awserr.Code(got.Err) != "InvalidRequestException" {
		t.Errorf("of another cause it says %v", got.Err)
	}
}

func TestAClusterThatDoesNotExistIsAnError(t *testing.T) {
	for _, k := range []resource.Kind{AccessEntries{}, PodIdentityAssociations{}} {
		l := kindtest.NewFixture(t, k, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		l.Declared.Cluster = "other"
		item := l.Items()[0]
		got := l.Read(t.Context(), l.Clients, kindtest.Keys(item))[item.Key]
		if got.Err == nil || !strings.Contains(got.Err.Error(), `EKS has no cluster "other" in us-east-1`) {
			t.Errorf("%T: %v, %v", k, got.Object, got.Err)
		}
	}
}

func TestAPodIdentityAssociationIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, PodIdentityAssociations{}, func(c *sandboxaws.Config) {
		c.Roles, c.Cluster.Addons = []string{"other"}, map[string]string{"eks-pod-identity-agent": "v1.3.8-eksbuild.2"}
	}, kindtest.Controlled(v1alpha1.IdentityPod))
	l.Converge()
	got := l.ReadOne(l.Items()[0])
	want := map[string]any{
		"namespace": "poolwright-system", "serviceAccount": "poolwright", "role": "poolwright-sandbox-us-east-1",
		"tags": map[string]any{"team": "ml", tag.Cluster: kindtest.Mark, tag.DeletionPolicy: "Orphan"},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Ours || len(got.Notes) > 0 {
		t.Errorf("ours %v, notes %q (-want +got):\n%s", got.Ours, got.Notes, diff)
	}
	l.Requests(map[string]int{"ListPodIdentityAssociations": 1, "DescribePodIdentityAssociation": 1, "DescribeAddon": 1})
	id := func() *string { return sdk.String(associationID(l.ReadOne(l.Items()[0]))) }
	l.Break("another role", func() {
		l.Do(l.Clients.EKS.UpdatePodIdentityAssociation(t.Context(), &eks.UpdatePodIdentityAssociationInput{
			ClusterName: sdk.String("sandbox"), AssociationId: id(), RoleArn: sdk.String(l.Clients.Scope.IAMARN("role/other")),
		}))
	})
	l.Break("no association", func() {
		l.Do(l.Clients.EKS.DeletePodIdentityAssociation(t.Context(), &eks.DeletePodIdentityAssociationInput{ClusterName: sdk.String("sandbox"), AssociationId: id()}))
	})
	l.Break("a missing tag", func() {
		arn, _, _ := strings.Cut(l.ReadOne(l.Items()[0]).UID, "#")
		l.Do(l.Clients.EKS.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{tag.Cluster}}))
	})
}

func TestAMissingIdentityAgentIsNoted(t *testing.T) {
	const missing = "the add-on eks-pod-identity-agent is not installed, and without its agent no pod gets the role: " +
		"`aws eks create-addon --cluster-name sandbox --region us-east-1 --addon-name eks-pod-identity-agent`"
	for _, tt := range []struct {
		name   string
		change func(*sandboxaws.Config)
		denied bool
		want   []string
	}{
		{"no add-on", nil, false, []string{missing}},
		{"Auto Mode has it built in", func(c *sandboxaws.Config) { c.Cluster.AutoMode = true }, false, nil},
		{"who may not read cannot report", nil, true, []string{"whether the add-on eks-pod-identity-agent is installed is unknown: denied eks:DescribeAddon"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, PodIdentityAssociations{}, tt.change, kindtest.Controlled(v1alpha1.IdentityPod))
			if tt.denied {
				if _, err := l.Cloud.Inject(sandboxaws.Fault{Service: "eks", Operation: "DescribeAddon", Code: "AccessDeniedException", Status: http.StatusForbidden}); err != nil {
					t.Fatal(err)
				}
			}
			// The association does not exist yet: the note is there already.
			if got := l.ReadOne(l.Items()[0]); !slices.Equal(kindtest.Texts(got.Notes), tt.want) || got.Object != nil {
				t.Errorf("notes %q, object %v", got.Notes, got.Object)
			}
		})
	}
}

func TestTheControllersTrustNamesItsIssuer(t *testing.T) {
	for _, provider := range []bool{true, false} {
		l := bootstrapped(t, Roles{}, func(c *sandboxaws.Config) { c.Cluster.OIDC = provider }, kindtest.Controlled(v1alpha1.IdentityIRSA))
		l.Converge()
		item := l.Items()[1]
		got := l.ReadOne(item)
		role, err := l.Clients.IAM.GetRole(t.Context(), &iam.GetRoleInput{RoleName: sdk.String(item.Key.Name)})
		l.Do(role, err)
		doc, err := policydoc.Parse(*role.Role.AssumeRolePolicyDocument)
		l.Do(doc, err)
		text, err := policydoc.Text(doc)
		l.Do(text, err)
		issuer, err := oidcIssuer(t.Context(), l.Clients)
		l.Do(issuer, err)
		if issuer == "" || strings.Contains(text, "<") || !strings.Contains(text, issuer+`:sub":"system:serviceaccount:poolwright-system:poolwright"`) {
			t.Errorf("with issuer %s the trust is %s", issuer, text)
		}
		if noted := slices.ContainsFunc(got.Notes, func(f finding.Finding) bool { return f.Code == codeOIDCProviderMissing }); noted == provider {
			t.Errorf("with a provider %v the notes are %q", provider, got.Notes)
		}
		l.Break("another issuer", func() {
			l.Do(l.Clients.IAM.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{
				RoleName: sdk.String(item.Key.Name), PolicyDocument: sdk.String(strings.ReplaceAll(text, issuer, issuer+"0")),
			}))
		})
		l.Break("another service account", func() {
			l.Do(l.Clients.IAM.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{
				RoleName: sdk.String(item.Key.Name), PolicyDocument: sdk.String(strings.ReplaceAll(text, "poolwright-system:poolwright", "default:default")),
			}))
		})
	}
}

// setAuthentication lets the cluster answer with another authentication mode than
// the emulator has.
func setAuthentication(l *kindtest.Fixture, mode string) {
	o := l.Clients.SQS.Options()
	l.Clients = resource.NewClients(sdk.Config{
		Region: l.Clients.Scope.Region, BaseEndpoint: o.BaseEndpoint, RetryMaxAttempts: 1, Credentials: o.Credentials,
		HTTPClient: kindtest.Doer(func(r *http.Request) (*http.Response, error) {
			response, err := o.HTTPClient.Do(r)
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(response.Body)
			changed := regexp.MustCompile(`"authenticationMode":"[A-Z_]+"`).ReplaceAll(body, []byte(`"authenticationMode":"`+mode+`"`))
			response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
			return response, err
		}),
	}, l.Clients.Scope)
}

func TestEveryIdentityOnItsWayIsUnknownWhereItsReadIsDenied(t *testing.T) {
	for _, tt := range []struct {
		kind       resource.Kind
		service    string
		operations []string
	}{
		{Policies{}, "iam", []string{"GetPolicy", "GetPolicyVersion"}},
		{InstanceProfiles{}, "iam", []string{"GetInstanceProfile"}},
		{AccessEntries{}, "eks", []string{"DescribeAccessEntry"}},
		{PodIdentityAssociations{}, "eks", []string{"ListPodIdentityAssociations", "DescribePodIdentityAssociation"}},
	} {
		l := bootstrapped(t, tt.kind, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		l.Converge()
		l.Deny(tt.service, tt.operations...)
	}
}
