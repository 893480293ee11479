package eks

import (
	"net/http"
	"strings"
)

// paths are the operations by method and path; a star stands for one
// segment.
func paths() map[string]string {
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

// Route names the operation behind a method and an escaped path.
func Route(method, path string) string {
	have := strings.Split(path, "/")
	for route, op := range paths() {
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
