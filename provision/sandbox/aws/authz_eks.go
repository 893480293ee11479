package aws

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func eksAuthorizations() map[string]authorization {
	out := map[string]authorization{
		"UpdateClusterConfig":          clusterConfigAsks,
		"DescribeUpdate":               describeUpdateAsks,
		"CreateAccessEntry":            createEntryAsks,
		"CreatePodIdentityAssociation": createAssociationAsks,
		"UpdatePodIdentityAssociation": updateAssociationAsks,
		"ListClusters":                 anything("eks:ListClusters"),
		"TagResource":                  tagEKSAsks,
		"UntagResource":                tagEKSAsks,
		"ListTagsForResource":          tagEKSAsks,
	}
	for _, kind := range []struct {
		about func(*call) api.AuthorizationRequest
		ops   []string
	}{
		{(*call).theCluster, []string{"DescribeCluster", "ListAccessEntries", "ListNodegroups", "ListAddons", "ListPodIdentityAssociations"}},
		{(*call).theEntry, []string{"DescribeAccessEntry", "UpdateAccessEntry", "DeleteAccessEntry"}},
		{(*call).theNodeGroup, []string{"DescribeNodegroup", "UpdateNodegroupConfig"}},
		{(*call).theAddon, []string{"DescribeAddon"}},
		{(*call).theAssociation, []string{"DescribePodIdentityAssociation", "DeletePodIdentityAssociation"}},
	} {
		for _, op := range kind.ops {
			out[op] = func(in *call) []api.AuthorizationRequest { return []api.AuthorizationRequest{kind.about(in)} }
		}
	}
	return out
}

func (in *call) onEKS(resource string, tags map[string]string) api.AuthorizationRequest {
	return api.AuthorizationRequest{Action: "eks:" + in.Op, Resource: resource, Tags: tags}
}

// eksName names something of the cluster in the path, which may not exist.
func (in *call) eksName(kind, rest string) string {
	return in.cloud.account.ARN("eks", kind+"/"+in.Segment(1)+rest)
}

func (in *call) theCluster() api.AuthorizationRequest {
	arn := in.eksName("cluster", "")
	if arn != in.cloud.clusterARN() {
		return in.onEKS(arn, nil)
	}
	return in.onEKS(arn, in.st.eks.tags)
}

// isHere tells whether the path names the cluster that there is.
func (in *call) isHere() bool { return in.Segment(1) == in.st.cluster.Name }

// entryName is the ARN of an access entry whose last part is not known.
func (in *call) entryName(principal string) string {
	role := principal[strings.LastIndexByte(principal, '/')+1:]
	return in.eksName("access-entry", fmt.Sprintf("/role/%s/%s/*", in.cloud.account.ID, role))
}

func (in *call) theEntry() api.AuthorizationRequest {
	principal := in.Segment(3)
	e := in.st.eks.entries[principal]
	if e == nil || !in.isHere() {
		return in.onEKS(in.entryName(principal), nil)
	}
	q := in.onEKS(e.arn, e.tags)
	q.Context = map[string][]string{"eks:principalArn": {e.principal}, "eks:accessEntryType": {e.kind}}
	return q
}

func (in *call) theNodeGroup() api.AuthorizationRequest {
	if g := in.st.eks.nodeGroups[in.Segment(3)]; g != nil && in.isHere() {
		return in.onEKS(in.cloud.nodeGroupARN(g), g.tags)
	}
	return in.onEKS(in.eksName("nodegroup", "/"+in.Segment(3)+"/*"), nil)
}

func (in *call) theAddon() api.AuthorizationRequest {
	if a := in.st.eks.addons[in.Segment(3)]; a != nil && in.isHere() {
		return in.onEKS(in.cloud.addonARN(a), a.tags)
	}
	return in.onEKS(in.eksName("addon", "/"+in.Segment(3)+"/*"), nil)
}

func (in *call) theAssociation() api.AuthorizationRequest {
	if a := in.st.eks.associations[in.Segment(3)]; a != nil && in.isHere() {
		return in.onEKS(in.cloud.associationARN(a), a.tags)
	}
	return in.onEKS(in.eksName("podidentityassociation", "/"+in.Segment(3)), nil)
}

// clusterConfigAsks knows the settings for which EKS has condition keys.
func clusterConfigAsks(in *call) []api.AuthorizationRequest {
	var ask struct {
		AccessConfig              struct{ AuthenticationMode *string }
		ComputeConfig             struct{ Enabled *bool }
		ControlPlaneScalingConfig struct{ Tier *string }
		DeletionProtection        *bool
		KubernetesNetworkConfig   struct {
			ElasticLoadBalancing struct{ Enabled *bool }
		}
		ResourcesVpcConfig struct{ EndpointPrivateAccess, EndpointPublicAccess *bool }
		StorageConfig      struct {
			BlockStorage struct{ Enabled *bool }
		}
		UpgradePolicy    struct{ SupportType *string }
		ZonalShiftConfig struct{ Enabled *bool }
	}
	in.Peek(&ask)
	q := in.theCluster()
	q.Context = map[string][]string{}
	for key, value := range map[string]*string{
		"authenticationMode": ask.AccessConfig.AuthenticationMode, "supportType": ask.UpgradePolicy.SupportType, "controlPlaneScalingTier": ask.ControlPlaneScalingConfig.Tier,
	} {
		if value != nil {
			q.Context["eks:"+key] = []string{*value}
		}
	}
	for key, value := range map[string]*bool{
		"blockStorageEnabled": ask.StorageConfig.BlockStorage.Enabled, "computeConfigEnabled": ask.ComputeConfig.Enabled,
		"deletionProtection": ask.DeletionProtection, "elasticLoadBalancingEnabled": ask.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled,
		"endpointPrivateAccess": ask.ResourcesVpcConfig.EndpointPrivateAccess, "endpointPublicAccess": ask.ResourcesVpcConfig.EndpointPublicAccess,
		"zonalShiftEnabled": ask.ZonalShiftConfig.Enabled,
	} {
		if value != nil {
			q.Context["eks:"+key] = []string{strconv.FormatBool(*value)}
		}
	}
	return []api.AuthorizationRequest{q}
}

func describeUpdateAsks(in *call) []api.AuthorizationRequest {
	name := in.Query.Get("nodegroupName")
	if name == "" {
		return []api.AuthorizationRequest{in.theCluster()}
	}
	if g := in.st.eks.nodeGroups[name]; g != nil && in.isHere() {
		return []api.AuthorizationRequest{in.onEKS(in.cloud.nodeGroupARN(g), g.tags)}
	}
	return []api.AuthorizationRequest{in.onEKS(in.eksName("nodegroup", "/"+name+"/*"), nil)}
}

func createEntryAsks(in *call) []api.AuthorizationRequest {
	var ask entryAsk
	in.Peek(&ask)
	if ask.Type == "" {
		ask.Type = "STANDARD"
	}
	q := in.theCluster()
	q.Given = ask.Tags
	q.Context = map[string][]string{"eks:principalArn": {ask.PrincipalArn}, "eks:accessEntryType": {ask.Type}}
	if ask.Username != "" {
		q.Context["eks:username"] = []string{ask.Username}
	}
	if ask.KubernetesGroups != nil && len(*ask.KubernetesGroups) > 0 {
		q.Context["eks:kubernetesGroups"] = *ask.KubernetesGroups
	}
	return in.alsoTags(q, in.entryName(ask.PrincipalArn))
}

// alsoTags asks a second time where the request also tags what it makes.
func (in *call) alsoTags(q api.AuthorizationRequest, made string) []api.AuthorizationRequest {
	if len(q.Given) == 0 {
		return []api.AuthorizationRequest{q}
	}
	return []api.AuthorizationRequest{q, {Action: "eks:TagResource", Resource: made, Given: q.Given}}
}

func createAssociationAsks(in *call) []api.AuthorizationRequest {
	var ask struct {
		RoleArn string
		Tags    map[string]string
	}
	in.Peek(&ask)
	q := in.theCluster()
	q.Given = ask.Tags
	return append(in.alsoTags(q, in.eksName("podidentityassociation", "/*")), in.st.passRole(roleIn(ask.RoleArn), "pods.eks"))
}

func updateAssociationAsks(in *call) []api.AuthorizationRequest {
	var ask struct{ RoleArn string }
	in.Peek(&ask)
	if ask.RoleArn == "" {
		return []api.AuthorizationRequest{in.theAssociation()}
	}
	return []api.AuthorizationRequest{in.theAssociation(), in.st.passRole(roleIn(ask.RoleArn), "pods.eks")}
}

// roleIn is the name at the end of a role's ARN.
func roleIn(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

func tagEKSAsks(in *call) []api.AuthorizationRequest {
	var ask struct{ Tags map[string]string }
	in.Peek(&ask)
	q := in.onEKS(in.Segment(1), nil)
	if have, err := in.eksTagged(); err == nil {
		q.Tags = maps.Clone(have)
	}
	q.Given, q.Keys = ask.Tags, in.Query["tagKeys"]
	return []api.AuthorizationRequest{q}
}
