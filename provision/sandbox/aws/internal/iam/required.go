package iam

import "slices"

// required are the members that IAM's model marks as required.
func required() map[string][]string {
	tags := []string{"Tags.member.#.Key", "Tags.member.#.Value"}
	out := map[string][]string{
		"CreateRole":                    append([]string{"RoleName", "AssumeRolePolicyDocument"}, tags...),
		"UpdateAssumeRolePolicy":        {"RoleName", "PolicyDocument"},
		"PutRolePermissionsBoundary":    {"RoleName", "PermissionsBoundary"},
		"PutRolePolicy":                 {"RoleName", "PolicyName", "PolicyDocument"},
		"CreatePolicy":                  append([]string{"PolicyName", "PolicyDocument"}, tags...),
		"CreatePolicyVersion":           {"PolicyArn", "PolicyDocument"},
		"CreateInstanceProfile":         append([]string{"InstanceProfileName"}, tags...),
		"AddRoleToInstanceProfile":      {"InstanceProfileName", "RoleName"},
		"RemoveRoleFromInstanceProfile": {"InstanceProfileName", "RoleName"},
		"GetOpenIDConnectProvider":      {"OpenIDConnectProviderArn"},
		"SimulatePrincipalPolicy":       {"PolicySourceArn", "ActionNames"},
	}
	for kind, name := range map[string]string{"Role": "RoleName", "Policy": "PolicyArn", "InstanceProfile": "InstanceProfileName"} {
		out["Tag"+kind] = slices.Concat([]string{name, "Tags"}, tags)
		out["Untag"+kind] = []string{name, "TagKeys"}
		for _, verb := range []string{"Get", "Delete"} {
			out[verb+kind] = []string{name}
		}
		out["List"+kind+"Tags"] = []string{name}
	}
	for _, op := range []string{"UpdateRole", "DeleteRolePermissionsBoundary", "ListAttachedRolePolicies", "ListRolePolicies", "ListInstanceProfilesForRole"} {
		out[op] = []string{"RoleName"}
	}
	for _, op := range []string{"AttachRolePolicy", "DetachRolePolicy"} {
		out[op] = []string{"RoleName", "PolicyArn"}
	}
	for _, op := range []string{"GetRolePolicy", "DeleteRolePolicy"} {
		out[op] = []string{"RoleName", "PolicyName"}
	}
	for _, op := range []string{"GetPolicyVersion", "DeletePolicyVersion"} {
		out[op] = []string{"PolicyArn", "VersionId"}
	}
	out["ListPolicyVersions"] = []string{"PolicyArn"}
	return out
}
