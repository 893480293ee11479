package eks

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{
		"UpdateClusterConfig":          svc.clusterConfigRequests,
		"DescribeUpdate":               svc.describeUpdateRequests,
		"CreateAccessEntry":            svc.createEntryRequests,
		"CreatePodIdentityAssociation": svc.createAssociationRequests,
		"UpdatePodIdentityAssociation": svc.updateAssociationRequests,
		"ListClusters":                 api.Anything("eks:ListClusters"),
		"TagResource":                  svc.tagRequests,
		"UntagResource":                svc.tagRequests,
		"ListTagsForResource":          svc.tagRequests,
	}
	for _, kind := range []struct {
		about func(*api.Call) api.AuthorizationRequest
		ops   []string
	}{
		{svc.theCluster, []string{"DescribeCluster", "ListAccessEntries", "ListNodegroups", "ListAddons", "ListPodIdentityAssociations"}},
		{svc.theEntry, []string{"DescribeAccessEntry", "UpdateAccessEntry", "DeleteAccessEntry"}},
		{svc.theNodeGroup, []string{"DescribeNodegroup", "UpdateNodegroupConfig"}},
		{svc.theAddon, []string{"DescribeAddon"}},
		{svc.theAssociation, []string{"DescribePodIdentityAssociation", "DeletePodIdentityAssociation"}},
	} {
		for _, op := range kind.ops {
			out[op] = func(in *api.Call) []api.AuthorizationRequest { return []api.AuthorizationRequest{kind.about(in)} }
		}
	}
	return out
}

func on(in *api.Call, resource string, tags map[string]string) api.AuthorizationRequest {
	return api.AuthorizationRequest{Action: "eks:" + in.Op, Resource: resource, Tags: tags}
}

// named names something of the cluster in the path, which may not exist.
func (svc *Service) named(in *api.Call, kind, rest string) string {
	return svc.account.ARN("eks", kind+"/"+in.Segment(1)+rest)
}

func (svc *Service) theCluster(in *api.Call) api.AuthorizationRequest {
	arn := svc.named(in, "cluster", "")
	if arn != svc.clusterARN() {
		return on(in, arn, nil)
	}
	return on(in, arn, svc.tags)
}

// isHere reports whether the path names the cluster that there is.
func (svc *Service) isHere(in *api.Call) bool { return in.Segment(1) == svc.cluster.Name }

// entryName is the ARN of an access entry whose last part is not known.
func (svc *Service) entryName(in *api.Call, principal string) string {
	role := principal[strings.LastIndexByte(principal, '/')+1:]
	return svc.named(in, "access-entry", fmt.Sprintf("/role/%s/%s/*", svc.account.ID, role))
}

func (svc *Service) theEntry(in *api.Call) api.AuthorizationRequest {
	principal := in.Segment(3)
	e := svc.entries[principal]
	if e == nil || !svc.isHere(in) {
		return on(in, svc.entryName(in, principal), nil)
	}
	q := on(in, e.arn, e.tags)
	q.Context = map[string][]string{"eks:principalArn": {e.principal}, "eks:accessEntryType": {e.kind}}
	return q
}

func (svc *Service) theNodeGroup(in *api.Call) api.AuthorizationRequest {
	if g := svc.nodeGroups[in.Segment(3)]; g != nil && svc.isHere(in) {
		return on(in, svc.nodeGroupARN(g), g.tags)
	}
	return on(in, svc.named(in, "nodegroup", "/"+in.Segment(3)+"/*"), nil)
}

func (svc *Service) theAddon(in *api.Call) api.AuthorizationRequest {
	if a := svc.addons[in.Segment(3)]; a != nil && svc.isHere(in) {
		return on(in, svc.addonARN(a), a.tags)
	}
	return on(in, svc.named(in, "addon", "/"+in.Segment(3)+"/*"), nil)
}

func (svc *Service) theAssociation(in *api.Call) api.AuthorizationRequest {
	if a := svc.associations[in.Segment(3)]; a != nil && svc.isHere(in) {
		return on(in, svc.associationARN(a), a.tags)
	}
	return on(in, svc.named(in, "podidentityassociation", "/"+in.Segment(3)), nil)
}

// clusterConfigRequests has the settings for which EKS has condition keys.
func (svc *Service) clusterConfigRequests(in *api.Call) []api.AuthorizationRequest {
	var input struct {
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
	in.Peek(&input)
	q := svc.theCluster(in)
	q.Context = map[string][]string{}
	for key, value := range map[string]*string{
		"authenticationMode": input.AccessConfig.AuthenticationMode, "supportType": input.UpgradePolicy.SupportType, "controlPlaneScalingTier": input.ControlPlaneScalingConfig.Tier,
	} {
		if value != nil {
			q.Context["eks:"+key] = []string{*value}
		}
	}
	for key, value := range map[string]*bool{
		"blockStorageEnabled": input.StorageConfig.BlockStorage.Enabled, "computeConfigEnabled": input.ComputeConfig.Enabled,
		"deletionProtection": input.DeletionProtection, "elasticLoadBalancingEnabled": input.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled,
		"endpointPrivateAccess": input.ResourcesVpcConfig.EndpointPrivateAccess, "endpointPublicAccess": input.ResourcesVpcConfig.EndpointPublicAccess,
		"zonalShiftEnabled": input.ZonalShiftConfig.Enabled,
	} {
		if value != nil {
			q.Context["eks:"+key] = []string{strconv.FormatBool(*value)}
		}
	}
	return []api.AuthorizationRequest{q}
}

func (svc *Service) describeUpdateRequests(in *api.Call) []api.AuthorizationRequest {
	name := in.Query.Get("nodegroupName")
	if name == "" {
		return []api.AuthorizationRequest{svc.theCluster(in)}
	}
	if g := svc.nodeGroups[name]; g != nil && svc.isHere(in) {
		return []api.AuthorizationRequest{on(in, svc.nodeGroupARN(g), g.tags)}
	}
	return []api.AuthorizationRequest{on(in, svc.named(in, "nodegroup", "/"+name+"/*"), nil)}
}

func (svc *Service) createEntryRequests(in *api.Call) []api.AuthorizationRequest {
	var input accessEntryRequest
	in.Peek(&input)
	if input.Type == "" {
		input.Type = "STANDARD"
	}
	q := svc.theCluster(in)
	q.RequestTags = input.Tags
	q.Context = map[string][]string{"eks:principalArn": {input.PrincipalArn}, "eks:accessEntryType": {input.Type}}
	if input.Username != "" {
		q.Context["eks:username"] = []string{input.Username}
	}
	if input.KubernetesGroups != nil && len(*input.KubernetesGroups) > 0 {
		q.Context["eks:kubernetesGroups"] = *input.KubernetesGroups
	}
	return alsoTags(q, svc.entryName(in, input.PrincipalArn))
}

// alsoTags adds a second request where the request also tags what it makes.
func alsoTags(q api.AuthorizationRequest, made string) []api.AuthorizationRequest {
	if len(q.RequestTags) == 0 {
		return []api.AuthorizationRequest{q}
	}
	return []api.AuthorizationRequest{q, {Action: "eks:TagResource", Resource: made, RequestTags: q.RequestTags}}
}

func (svc *Service) createAssociationRequests(in *api.Call) []api.AuthorizationRequest {
	var input struct {
		RoleArn string
		Tags    map[string]string
	}
	in.Peek(&input)
	q := svc.theCluster(in)
	q.RequestTags = input.Tags
	return append(alsoTags(q, svc.named(in, "podidentityassociation", "/*")), svc.roles.PassRole(roleIn(input.RoleArn), "pods.eks"))
}

func (svc *Service) updateAssociationRequests(in *api.Call) []api.AuthorizationRequest {
	var input struct{ RoleArn string }
	in.Peek(&input)
	if input.RoleArn == "" {
		return []api.AuthorizationRequest{svc.theAssociation(in)}
	}
	return []api.AuthorizationRequest{svc.theAssociation(in), svc.roles.PassRole(roleIn(input.RoleArn), "pods.eks")}
}

// roleIn is the name at the end of a role's ARN.
func roleIn(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

func (svc *Service) tagRequests(in *api.Call) []api.AuthorizationRequest {
	var input struct{ Tags map[string]string }
	in.Peek(&input)
	q := on(in, in.Segment(1), nil)
	if have, err := svc.tagged(in); err == nil {
		q.Tags = maps.Clone(have)
	}
	q.RequestTags, q.Keys = input.Tags, in.Query["tagKeys"]
	return []api.AuthorizationRequest{q}
}
