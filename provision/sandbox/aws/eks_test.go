package aws_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// cluster is a change of the config: an EKS cluster with everything.
func cluster(c *sandboxaws.Config) {
	c.Cluster.Endpoint = "https://127.0.0.1:6443"
	c.Cluster.Logging = []string{"audit", "api"}
	c.Cluster.Addons = map[string]string{"vpc-cni": "v1.19.0-eksbuild.1", "coredns": "v1.11.4-eksbuild.2", "kube-proxy": "v1.33.0-eksbuild.1"}
	c.Cluster.NodeGroups = []sandboxaws.NodeGroup{
		{Name: "system", Min: 2, Desired: 2, Max: 4, Labels: map[string]string{"team": "platform"}, Taints: []string{"CriticalAddonsOnly=true:NO_SCHEDULE", "old:NO_EXECUTE"},
			InstanceTypes: []string{"m6i.large", "m6a.large"}, DiskSize: 80, CapacityType: "SPOT"},
		{Name: "plain", Min: 0, Desired: 1, Max: 1},
	}
	c.Roles = []string{"node", "other"}
}

const nodeARN, otherARN = "arn:aws:iam::000000000000:role/node", "arn:aws:iam::000000000000:role/other"

// describe reads the cluster.
func (w *fixture) describe(t *testing.T) *ekstypes.Cluster {
	t.Helper()
	out, err := w.eks.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: sdk.String("sandbox")})
	ok(t, err)
	return out.Cluster
}

// logTypesOn are the log types that the cluster shows as enabled.
func logTypesOn(k *ekstypes.Cluster) []ekstypes.LogType {
	var out []ekstypes.LogType
	for _, s := range k.Logging.ClusterLogging {
		if *s.Enabled {
			out = append(out, s.Types...)
		}
	}
	return out
}

func TestAClusterShowsWhatAroundItIsThere(t *testing.T) {
	w := newFixture(t, cluster)
	k := w.describe(t)
	if !strings.HasPrefix(*k.Identity.Oidc.Issuer, "https://oidc.eks.us-east-1.amazonaws.com/id/") || k.AccessConfig.AuthenticationMode != "API_AND_CONFIG_MAP" ||
		k.UpgradePolicy.SupportType != "STANDARD" || *k.ResourcesVpcConfig.ClusterSecurityGroupId == "" || k.Status != "ACTIVE" {
		t.Errorf("cluster %+v", k)
	}
	if diff := cmp.Diff([]ekstypes.LogType{"api", "audit"}, logTypesOn(k)); diff != "" {
		t.Error(diff)
	}
}

func TestTwoCallersAreDistinguishedByTheirKeys(t *testing.T) {
	w := newFixture(t, nil)
	who := func(key string) string {
		cfg := w.cfg.Copy()
		cfg.Credentials = sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: key, SecretAccessKey: "x"}, nil
		})
		out, err := sts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		ok(t, err)
		return *out.Arn
	}
	if a, b := who("AKIAONE"), who("AKIATWO"); a == b || !strings.HasSuffix(a, "/akiaone") {
		t.Errorf("callers %s and %s", a, b)
	}
}

func TestAccessEntries(t *testing.T) {
	w := newFixture(t, cluster)
	ctx, name := t.Context(), sdk.String("sandbox")
	made, err := w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN), Type: sdk.String("EC2_LINUX"),
		Tags: map[string]string{"a": "b"}, ClientRequestToken: sdk.String("once")})
	ok(t, err)
	again, err := w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN), ClientRequestToken: sdk.String("once")})
	ok(t, err)
	read := func(principal string) *ekstypes.AccessEntry {
		t.Helper()
		out, err := w.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: name, PrincipalArn: &principal})
		ok(t, err)
		return out.AccessEntry
	}
	e := read(nodeARN)
	if *e.AccessEntryArn != *made.AccessEntry.AccessEntryArn || *e.AccessEntryArn != *again.AccessEntry.AccessEntryArn || *e.Type != "EC2_LINUX" ||
		*e.Username != "system:node:{{EC2PrivateDNSName}}" || !slices.Equal(e.KubernetesGroups, []string{"system:nodes"}) || e.Tags["a"] != "b" ||
		!strings.HasPrefix(*e.AccessEntryArn, "arn:aws:eks:us-east-1:000000000000:access-entry/sandbox/role/000000000000/node/") || !e.CreatedAt.Equal(w.clock.Now()) {
		t.Errorf("entry %+v", e)
	}
	_, err = w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(otherARN), KubernetesGroups: []string{"viewers"}})
	ok(t, err)
	_, err = w.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(otherARN), KubernetesGroups: []string{"admins"}, Username: sdk.String("other")})
	ok(t, err)
	if e := read(otherARN); *e.Type != "STANDARD" || !slices.Equal(e.KubernetesGroups, []string{"admins"}) || *e.Username != "other" {
		t.Errorf("entry %+v", e)
	}
	var all []string
	for p := eks.NewListAccessEntriesPaginator(w.eks, &eks.ListAccessEntriesInput{ClusterName: name, MaxResults: sdk.Int32(1)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		all = append(all, page.AccessEntries...)
	}
	if !slices.Equal(all, []string{nodeARN, otherARN}) {
		t.Errorf("entries %q", all)
	}
	_, err = w.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN)})
	ok(t, err)
	_, err = w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN)})
	ok(t, err)
	if second := read(nodeARN); *second.AccessEntryArn == *e.AccessEntryArn || *second.Username != "arn:aws:sts::000000000000:assumed-role/node/{{SessionName}}" {
		t.Errorf("its successor %+v", second)
	}
}

func TestPodIdentityAssociations(t *testing.T) {
	w := newFixture(t, cluster)
	ctx, name := t.Context(), sdk.String("sandbox")
	create := func(namespace, account, token string) *ekstypes.PodIdentityAssociation {
		t.Helper()
		out, err := w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: &namespace, ServiceAccount: &account,
			RoleArn: sdk.String(nodeARN), ClientRequestToken: &token, Tags: map[string]string{"a": "b"}})
		ok(t, err)
		return out.Association
	}
	a := create("ns", "sa", "once")
	if *create("ns", "sa", "once").AssociationId != *a.AssociationId || !strings.HasPrefix(*a.AssociationId, "a-") ||
		*a.AssociationArn != "arn:aws:eks:us-east-1:000000000000:podidentityassociation/sandbox/"+*a.AssociationId {
		t.Errorf("association %+v", a)
	}
	create("ns", "sb", "b")
	create("nt", "sa", "c")
	count := func(input eks.ListPodIdentityAssociationsInput) (n int) {
		input.ClusterName, input.MaxResults = name, sdk.Int32(1)
		for p := eks.NewListPodIdentityAssociationsPaginator(w.eks, &input); p.HasMorePages(); {
			page, err := p.NextPage(ctx)
			ok(t, err)
			n += len(page.Associations)
		}
		return n
	}
	for want, input := range map[int]eks.ListPodIdentityAssociationsInput{3: {}, 2: {Namespace: sdk.String("ns")}, 1: {Namespace: sdk.String("ns"), ServiceAccount: sdk.String("sa")}} {
		if got := count(input); got != want {
			t.Errorf("%d associations are listed, want %d", got, want)
		}
	}
	_, err := w.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: name, AssociationId: a.AssociationId, RoleArn: sdk.String(otherARN)})
	ok(t, err)
	read, err := w.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: name, AssociationId: a.AssociationId})
	ok(t, err)
	if *read.Association.RoleArn != otherARN || read.Association.Tags["a"] != "b" {
		t.Errorf("the changed association %+v", read.Association)
	}
	_, err = w.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: name, AssociationId: a.AssociationId})
	ok(t, err)
	if *create("ns", "sa", "once").AssociationId == *a.AssociationId {
		t.Error("its successor has the same id")
	}
}

func TestAddonsAreListedAndDescribed(t *testing.T) {
	w := newFixture(t, cluster)
	ctx, name := t.Context(), sdk.String("sandbox")
	var all []string
	for p := eks.NewListAddonsPaginator(w.eks, &eks.ListAddonsInput{ClusterName: name, MaxResults: sdk.Int32(2)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		all = append(all, page.Addons...)
	}
	if !slices.Equal(all, []string{"coredns", "kube-proxy", "vpc-cni"}) {
		t.Errorf("add-ons %q", all)
	}
	out, err := w.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: name, AddonName: sdk.String("vpc-cni")})
	ok(t, err)
	if a := out.Addon; *a.AddonVersion != "v1.19.0-eksbuild.1" || a.Status != "ACTIVE" || !strings.HasPrefix(*a.AddonArn, "arn:aws:eks:us-east-1:000000000000:addon/sandbox/vpc-cni/") {
		t.Errorf("add-on %+v", a)
	}
}

func TestEverythingOfEKSCarriesTags(t *testing.T) {
	w := newFixture(t, cluster)
	ctx, name := t.Context(), sdk.String("sandbox")
	entry, err := w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN)})
	ok(t, err)
	association, err := w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: sdk.String("n"), ServiceAccount: sdk.String("s"), RoleArn: sdk.String(nodeARN)})
	ok(t, err)
	add, err := w.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: name, AddonName: sdk.String("coredns")})
	ok(t, err)
	for kind, arn := range map[string]*string{"a cluster": w.describe(t).Arn, "an access entry": entry.AccessEntry.AccessEntryArn,
		"an association": association.Association.AssociationArn, "an add-on": add.Addon.AddonArn, "a node group": w.nodeGroup(t, "system").NodegroupArn} {
		t.Run(kind, func(t *testing.T) {
			ok(t, drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"a": "1", "b": "2"}})))
			ok(t, drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"b": "3", "c/d e&f": "4"}})))
			ok(t, drop(w.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a", "c/d e&f", "never"}})))
			out, err := w.eks.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: arn})
			ok(t, err)
			if diff := cmp.Diff(map[string]string{"b": "3"}, out.Tags); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := w.nodeGroup(t, "system").Tags["b"] + w.describe(t).Tags["b"]; got != "33" {
		t.Errorf("what is described has the tags %s", got)
	}
}

func eksRefusals() []refusal {
	s, name := sdk.String, sdk.String("sandbox")
	entry := func(change func(*eks.CreateAccessEntryInput)) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			input := &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: s(otherARN)}
			change(input)
			return drop(w.eks.CreateAccessEntry(ctx, input))
		}
	}
	pods := func(namespace, account, role string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: &namespace, ServiceAccount: &account, RoleArn: &role}))
		}
	}
	var many = map[string]string{}
	for n := range 51 {
		many[fmt.Sprint(n)] = ""
	}
	return []refusal{
		{"an entry that exists", entry(func(i *eks.CreateAccessEntryInput) { i.PrincipalArn = s(nodeARN) }), "ResourceInUseException"},
		{"an entry of a role that does not exist", entry(func(i *eks.CreateAccessEntryInput) { i.PrincipalArn = s("arn:aws:iam::000000000000:role/ghost") }), "InvalidParameterException"},
		{"an entry of another cluster", entry(func(i *eks.CreateAccessEntryInput) { i.ClusterName = s("none") }), "ResourceNotFoundException"},
		{"an entry of an unknown type", entry(func(i *eks.CreateAccessEntryInput) { i.Type = s("ADMIN") }), "InvalidParameterException"},
		{"an entry of nodes with groups", entry(func(i *eks.CreateAccessEntryInput) { i.Type, i.KubernetesGroups = s("EC2_LINUX"), []string{"g"} }), "InvalidParameterException"},
		{"an entry in the masters' group", entry(func(i *eks.CreateAccessEntryInput) { i.KubernetesGroups = []string{"system:masters"} }), "InvalidParameterException"},
		{"an entry with a reserved user name", entry(func(i *eks.CreateAccessEntryInput) { i.Username = s("system:admin") }), "InvalidParameterException"},
		{"an entry with a tag of AWS's own", entry(func(i *eks.CreateAccessEntryInput) { i.Tags = map[string]string{"aws:x": "y"} }), "InvalidParameterException"},
		{"an entry with too many tags", entry(func(i *eks.CreateAccessEntryInput) { i.Tags = many }), "InvalidParameterException"},
		{"giving nodes a user name", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: name, PrincipalArn: s(nodeARN), Username: s("me")}))
		}, "InvalidParameterException"},
		{"changing an entry that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: name, PrincipalArn: s(otherARN)}))
		}, "ResourceNotFoundException"},
		{"reading an entry that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: name, PrincipalArn: s(otherARN)}))
		}, "ResourceNotFoundException"},
		{"deleting an entry that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: name, PrincipalArn: s(otherARN)}))
		}, "ResourceNotFoundException"},
		{"a filter of entries that is not emulated", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: name, AssociatedPolicyArn: s("x")}))
		}, "ValidationException"},
		{"too large a page", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: name, MaxResults: sdk.Int32(101)}))
		}, "InvalidParameterException"},
		{"a token of another list", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: name, NextToken: s("abc")}))
		}, "InvalidParameterException"},
		{"a second association of a service account", pods("n", "s", otherARN), "ResourceInUseException"},
		{"an association with a role that does not exist", pods("n", "t", "arn:aws:iam::000000000000:role/ghost"), "InvalidParameterException"},
		{"an association without a service account", pods("n", "", nodeARN), "InvalidParameterException"},
		{"an association that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: name, AssociationId: s("a-1")}))
		}, "ResourceNotFoundException"},
		{"changing an association that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: name, AssociationId: s("a-1")}))
		}, "ResourceNotFoundException"},
		{"deleting an association that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: name, AssociationId: s("a-1")}))
		}, "ResourceNotFoundException"},
		{"an association with a tag of AWS's own", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: s("n"), ServiceAccount: s("t"),
				RoleArn: s(nodeARN), Tags: map[string]string{"aws:x": "y"}}))
		}, "InvalidParameterException"},
		{"giving an association a role that does not exist", func(ctx context.Context, w *fixture) error {
			all, err := w.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: name})
			if err != nil {
				return err
			}
			return drop(w.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: name, AssociationId: all.Associations[0].AssociationId,
				RoleArn: s("arn:aws:iam::000000000000:role/ghost")}))
		}, "InvalidParameterException"},
		{"an association's session tags, which are not emulated", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: s("n"), ServiceAccount: s("t"),
				RoleArn: s(nodeARN), DisableSessionTags: sdk.Bool(true)}))
		}, "ValidationException"},
		{"changing a node group that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: name, NodegroupName: s("none")}))
		}, "ResourceNotFoundException"},
		{"a node group's way to update, which is not emulated", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: name, NodegroupName: s("system"),
				UpdateConfig: &ekstypes.NodegroupUpdateConfig{MaxUnavailable: sdk.Int32(2)}}))
		}, "ValidationException"},
		{"an add-on that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: name, AddonName: s("none")}))
		}, "ResourceNotFoundException"},
		{"a node group that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: name, NodegroupName: s("none")}))
		}, "ResourceNotFoundException"},
		{"an update that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: name, UpdateId: s("none")}))
		}, "ResourceNotFoundException"},
		{"tagging what does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: s("arn:aws:eks:us-east-1:000000000000:cluster/none"), Tags: map[string]string{"a": "b"}}))
		}, "NotFoundException"},
		{"the tags of what does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: s("x")}))
		}, "NotFoundException"},
		{"untagging what does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: s("x"), TagKeys: []string{"a"}}))
		}, "NotFoundException"},
		{"too many tags", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: s("arn:aws:eks:us-east-1:000000000000:cluster/sandbox"), Tags: many}))
		}, "BadRequestException"},
		{"changing a cluster's network", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: name, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{EndpointPublicAccess: sdk.Bool(false)}}))
		}, "ValidationException"},
	}
}

func TestEKSRefuses(t *testing.T) {
	w := newFixture(t, cluster)
	ctx, name := t.Context(), sdk.String("sandbox")
	_, err := w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: sdk.String(nodeARN), Type: sdk.String("EC2_LINUX")})
	ok(t, err)
	_, err = w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: name, Namespace: sdk.String("n"), ServiceAccount: sdk.String("s"), RoleArn: sdk.String(nodeARN)})
	ok(t, err)
	for _, r := range eksRefusals() {
		t.Run(r.name, func(t *testing.T) { wantCode(t, r.call(t.Context(), w), r.code) })
	}
	_, err = w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: sdk.String("other")})
	ok(t, err)
}
