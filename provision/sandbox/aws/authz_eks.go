package aws

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
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
		about func(*call) authorizationRequest
		ops   []string
	}{
		{(*call).theCluster, []string{"DescribeCluster", "ListAccessEntries", "ListNodegroups", "ListAddons", "ListPodIdentityAssociations"}},
		{(*call).theEntry, []string{"DescribeAccessEntry", "UpdateAccessEntry", "DeleteAccessEntry"}},
		{(*call).theNodeGroup, []string{"DescribeNodegroup", "UpdateNodegroupConfig"}},
		{(*call).theAddon, []string{"DescribeAddon"}},
		{(*call).theAssociation, []string{"DescribePodIdentityAssociation", "DeletePodIdentityAssociation"}},
	} {
		for _, op := range kind.ops {
			out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{kind.about(in)} }
		}
	}
	return out
}

func (in *call) onEKS(resource string, tags map[string]string) authorizationRequest {
	return authorizationRequest{action: "eks:" + in.op, resource: resource, tags: tags}
}

// eksName names something of the cluster in the path, which may not exist.
func (in *call) eksName(kind, rest string) string {
	return in.cloud.localARN("eks", kind+"/"+in.segment(1)+rest)
}

func (in *call) theCluster() authorizationRequest {
	arn := in.eksName("cluster", "")
	if arn != in.cloud.clusterARN() {
		return in.onEKS(arn, nil)
	}
	return in.onEKS(arn, in.st.eks.tags)
}

// isHere tells whether the path names the cluster that there is.
func (in *call) isHere() bool { return in.segment(1) == in.st.cluster.Name }

// entryName is the ARN of an access entry whose last part is not known.
func (in *call) entryName(principal string) string {
	role := principal[strings.LastIndexByte(principal, '/')+1:]
	return in.eksName("access-entry", fmt.Sprintf("/role/%s/%s/*", in.cloud.cfg.Account, role))
}

func (in *call) theEntry() authorizationRequest {
	principal := in.segment(3)
	e := in.st.eks.entries[principal]
	if e == nil || !in.isHere() {
		return in.onEKS(in.entryName(principal), nil)
	}
	q := in.onEKS(e.arn, e.tags)
	q.context = map[string][]string{"eks:principalArn": {e.principal}, "eks:accessEntryType": {e.kind}}
	return q
}

func (in *call) theNodeGroup() authorizationRequest {
	if g := in.st.eks.nodeGroups[in.segment(3)]; g != nil && in.isHere() {
		return in.onEKS(in.cloud.nodeGroupARN(g), g.tags)
	}
	return in.onEKS(in.eksName("nodegroup", "/"+in.segment(3)+"/*"), nil)
}

func (in *call) theAddon() authorizationRequest {
	if a := in.st.eks.addons[in.segment(3)]; a != nil && in.isHere() {
		return in.onEKS(in.cloud.addonARN(a), a.tags)
	}
	return in.onEKS(in.eksName("addon", "/"+in.segment(3)+"/*"), nil)
}

func (in *call) theAssociation() authorizationRequest {
	if a := in.st.eks.associations[in.segment(3)]; a != nil && in.isHere() {
		return in.onEKS(in.cloud.associationARN(a), a.tags)
	}
	return in.onEKS(in.eksName("podidentityassociation", "/"+in.segment(3)), nil)
}

// clusterConfigAsks knows the settings for which EKS has condition keys.
func clusterConfigAsks(in *call) []authorizationRequest {
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
	in.peek(&ask)
	q := in.theCluster()
	q.context = map[string][]string{}
	for key, value := range map[string]*string{
		"authenticationMode": ask.AccessConfig.AuthenticationMode, "supportType": ask.UpgradePolicy.SupportType, "controlPlaneScalingTier": ask.ControlPlaneScalingConfig.Tier,
	} {
		if value != nil {
			q.context["eks:"+key] = []string{*value}
		}
	}
	for key, value := range map[string]*bool{
		"blockStorageEnabled": ask.StorageConfig.BlockStorage.Enabled, "computeConfigEnabled": ask.ComputeConfig.Enabled,
		"deletionProtection": ask.DeletionProtection, "elasticLoadBalancingEnabled": ask.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled,
		"endpointPrivateAccess": ask.ResourcesVpcConfig.EndpointPrivateAccess, "endpointPublicAccess": ask.ResourcesVpcConfig.EndpointPublicAccess,
		"zonalShiftEnabled": ask.ZonalShiftConfig.Enabled,
	} {
		if value != nil {
			q.context["eks:"+key] = []string{strconv.FormatBool(*value)}
		}
	}
	return []authorizationRequest{q}
}

func describeUpdateAsks(in *call) []authorizationRequest {
	name := in.asked.Get("nodegroupName")
	if name == "" {
		return []authorizationRequest{in.theCluster()}
	}
	if g := in.st.eks.nodeGroups[name]; g != nil && in.isHere() {
		return []authorizationRequest{in.onEKS(in.cloud.nodeGroupARN(g), g.tags)}
	}
	return []authorizationRequest{in.onEKS(in.eksName("nodegroup", "/"+name+"/*"), nil)}
}

func createEntryAsks(in *call) []authorizationRequest {
	var ask entryAsk
	in.peek(&ask)
	if ask.Type == "" {
		ask.Type = "STANDARD"
	}
	q := in.theCluster()
	q.given = ask.Tags
	q.context = map[string][]string{"eks:principalArn": {ask.PrincipalArn}, "eks:accessEntryType": {ask.Type}}
	if ask.Username != "" {
		q.context["eks:username"] = []string{ask.Username}
	}
	if ask.KubernetesGroups != nil && len(*ask.KubernetesGroups) > 0 {
		q.context["eks:kubernetesGroups"] = *ask.KubernetesGroups
	}
	return in.alsoTags(q, in.entryName(ask.PrincipalArn))
}

// alsoTags asks a second time where the request also tags what it makes.
func (in *call) alsoTags(q authorizationRequest, made string) []authorizationRequest {
	if len(q.given) == 0 {
		return []authorizationRequest{q}
	}
	return []authorizationRequest{q, {action: "eks:TagResource", resource: made, given: q.given}}
}

func createAssociationAsks(in *call) []authorizationRequest {
	var ask struct {
		RoleArn string
		Tags    map[string]string
	}
	in.peek(&ask)
	q := in.theCluster()
	q.given = ask.Tags
	return append(in.alsoTags(q, in.eksName("podidentityassociation", "/*")), in.passing(roleIn(ask.RoleArn), "pods.eks"))
}

func updateAssociationAsks(in *call) []authorizationRequest {
	var ask struct{ RoleArn string }
	in.peek(&ask)
	if ask.RoleArn == "" {
		return []authorizationRequest{in.theAssociation()}
	}
	return []authorizationRequest{in.theAssociation(), in.passing(roleIn(ask.RoleArn), "pods.eks")}
}

// roleIn is the name at the end of a role's ARN.
func roleIn(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

func tagEKSAsks(in *call) []authorizationRequest {
	var ask struct{ Tags map[string]string }
	in.peek(&ask)
	q := in.onEKS(in.segment(1), nil)
	if have, err := in.eksTagged(); err == nil {
		q.tags = maps.Clone(have)
	}
	q.given, q.keys = ask.Tags, in.asked["tagKeys"]
	return []authorizationRequest{q}
}
