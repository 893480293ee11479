package aws

import (
	"net/http"
	"strings"
)

// eksOperations is EKS as far as it is played: one cluster, its access
// entries, managed node groups, add-ons and Pod Identity associations. None is
// made or deleted but entries and associations.
func eksOperations() map[string]operation {
	listing := []string{"maxResults", "nextToken"}
	return map[string]operation{
		"ListClusters":        {params: append(listing, "include"), read: true, run: listClusters},
		"DescribeCluster":     {read: true, run: ofCluster(describeCluster)},
		"UpdateClusterConfig": {run: ofCluster(updateClusterConfig)},
		"DescribeUpdate":      {params: []string{"nodegroupName"}, read: true, run: ofCluster(describeUpdate)},

		"ListAccessEntries":   {params: listing, read: true, run: ofCluster(listEntries)},
		"CreateAccessEntry":   {run: ofCluster(createEntry)},
		"DescribeAccessEntry": {read: true, run: ofCluster(describeEntry)},
		"UpdateAccessEntry":   {run: ofCluster(updateEntry)},
		"DeleteAccessEntry":   {run: ofCluster(deleteEntry)},

		"ListNodegroups":        {params: listing, read: true, run: ofCluster(listNodeGroups)},
		"DescribeNodegroup":     {read: true, run: ofCluster(describeNodeGroup)},
		"UpdateNodegroupConfig": {run: ofCluster(updateNodeGroup)},

		"ListAddons":    {params: listing, read: true, run: ofCluster(listAddons)},
		"DescribeAddon": {read: true, run: ofCluster(describeAddon)},

		"ListPodIdentityAssociations":    {params: append(listing, "namespace", "serviceAccount"), read: true, run: ofCluster(listAssociations)},
		"CreatePodIdentityAssociation":   {run: ofCluster(createAssociation)},
		"DescribePodIdentityAssociation": {read: true, run: ofCluster(describeAssociation)},
		"UpdatePodIdentityAssociation":   {run: ofCluster(updateAssociation)},
		"DeletePodIdentityAssociation":   {run: ofCluster(deleteAssociation)},

		"TagResource":         {run: tagEKS},
		"UntagResource":       {params: []string{"tagKeys"}, run: untagEKS},
		"ListTagsForResource": {read: true, run: listEKSTags},
	}
}

// eksPaths are the operations by method and path; a star stands for one
// segment.
func eksPaths() map[string]string {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	entries, groups, identities := "/clusters/*/access-entries", "/clusters/*/node-groups", "/clusters/*/pod-identity-associations"
	return map[string]string{
		get + " /clusters":                  "ListClusters",
		get + " /clusters/*":                "DescribeCluster",
		post + " /clusters/*/update-config": "UpdateClusterConfig",
		get + " /clusters/*/updates/*":      "DescribeUpdate",

		get + " " + entries:         "ListAccessEntries",
		post + " " + entries:        "CreateAccessEntry",
		get + " " + entries + "/*":  "DescribeAccessEntry",
		post + " " + entries + "/*": "UpdateAccessEntry",
		del + " " + entries + "/*":  "DeleteAccessEntry",

		get + " " + groups:                       "ListNodegroups",
		get + " " + groups + "/*":                "DescribeNodegroup",
		post + " " + groups + "/*/update-config": "UpdateNodegroupConfig",

		get + " /clusters/*/addons":   "ListAddons",
		get + " /clusters/*/addons/*": "DescribeAddon",

		get + " " + identities:         "ListPodIdentityAssociations",
		post + " " + identities:        "CreatePodIdentityAssociation",
		get + " " + identities + "/*":  "DescribePodIdentityAssociation",
		post + " " + identities + "/*": "UpdatePodIdentityAssociation",
		del + " " + identities + "/*":  "DeletePodIdentityAssociation",

		post + " /tags/*": "TagResource",
		del + " /tags/*":  "UntagResource",
		get + " /tags/*":  "ListTagsForResource",
	}
}

// eksRoute names the operation behind a method and an escaped path.
func eksRoute(method, path string) string {
	have := strings.Split(path, "/")
	for route, op := range eksPaths() {
		verb, pattern, _ := strings.Cut(route, " ")
		if verb == method && samePath(strings.Split(pattern, "/"), have) {
			return op
		}
	}
	return ""
}

func samePath(pattern, have []string) bool {
	if len(pattern) != len(have) {
		return false
	}
	for n, p := range pattern {
		if p != have[n] && (p != "*" || have[n] == "") {
			return false
		}
	}
	return true
}
