package eks

import "github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"

// Table is what EKS can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: required()}
}

// operations is EKS as far as it is emulated: one cluster, its access
// entries, managed node groups, add-ons and Pod Identity associations. None is
// made or deleted but entries and associations.
func (svc *Service) operations() map[string]api.Operation {
	listing := []string{"maxResults", "nextToken"}
	return map[string]api.Operation{
		"ListClusters":        {Params: append(listing, "include"), Read: true, Run: svc.listClusters},
		"DescribeCluster":     {Read: true, Run: svc.ofCluster(svc.describeCluster)},
		"UpdateClusterConfig": {Run: svc.ofCluster(svc.updateClusterConfig)},
		"DescribeUpdate":      {Params: []string{"nodegroupName"}, Read: true, Run: svc.ofCluster(svc.describeUpdate)},

		"ListAccessEntries":   {Params: listing, Read: true, Run: svc.ofCluster(svc.listEntries)},
		"CreateAccessEntry":   {Run: svc.ofCluster(svc.createEntry)},
		"DescribeAccessEntry": {Read: true, Run: svc.ofCluster(svc.describeEntry)},
		"UpdateAccessEntry":   {Run: svc.ofCluster(svc.updateEntry)},
		"DeleteAccessEntry":   {Run: svc.ofCluster(svc.deleteEntry)},

		"ListNodegroups":        {Params: listing, Read: true, Run: svc.ofCluster(svc.listNodeGroups)},
		"DescribeNodegroup":     {Read: true, Run: svc.ofCluster(svc.describeNodeGroup)},
		"UpdateNodegroupConfig": {Run: svc.ofCluster(svc.updateNodeGroup)},

		"ListAddons":    {Params: listing, Read: true, Run: svc.ofCluster(svc.listAddons)},
		"DescribeAddon": {Read: true, Run: svc.ofCluster(svc.describeAddon)},

		"ListPodIdentityAssociations":    {Params: append(listing, "namespace", "serviceAccount"), Read: true, Run: svc.ofCluster(svc.listAssociations)},
		"CreatePodIdentityAssociation":   {Run: svc.ofCluster(svc.createAssociation)},
		"DescribePodIdentityAssociation": {Read: true, Run: svc.ofCluster(svc.describeAssociation)},
		"UpdatePodIdentityAssociation":   {Run: svc.ofCluster(svc.updateAssociation)},
		"DeletePodIdentityAssociation":   {Run: svc.ofCluster(svc.deleteAssociation)},

		"TagResource":         {Run: svc.tag},
		"UntagResource":       {Params: []string{"tagKeys"}, Run: svc.untag},
		"ListTagsForResource": {Read: true, Run: svc.listTags},
	}
}

// ofCluster lets an operation run only on the cluster that there is.
func (svc *Service) ofCluster(run func(*api.Call) (any, error)) func(*api.Call) (any, error) {
	return func(in *api.Call) (any, error) {
		if name := in.Segment(1); name != svc.cluster.Name {
			return nil, noResource("No cluster found for name: %s.", name)
		}
		return run(in)
	}
}

// required are the members that EKS's model marks as required.
func required() map[string][]string {
	return map[string][]string{
		"CreateAccessEntry":            {"principalArn"},
		"CreatePodIdentityAssociation": {"namespace", "serviceAccount", "roleArn"},
		"TagResource":                  {"tags"}, "UntagResource": {"tagKeys"},
	}
}
