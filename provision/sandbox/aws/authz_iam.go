package aws

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func iamAuthorizations() map[string]authorization {
	out := map[string]authorization{
		"ListRoles":                  anything("iam:ListRoles"),
		"ListInstanceProfiles":       anything("iam:ListInstanceProfiles"),
		"ListOpenIDConnectProviders": anything("iam:ListOpenIDConnectProviders"),
		"GetOpenIDConnectProvider": func(in *call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{{Action: "iam:GetOpenIDConnectProvider", Resource: in.Form.Get("OpenIDConnectProviderArn")}}
		},
		"CreateRole":                 createRoleAsks,
		"PutRolePermissionsBoundary": putBoundaryAsks,
		"CreateInstanceProfile":      createProfileAsks,
		"AddRoleToInstanceProfile":   addRoleAsks,
		"CreatePolicy":               createPolicyAsks,
	}
	for _, op := range []string{
		"GetRole", "UpdateRole", "UpdateAssumeRolePolicy", "DeleteRole", "DeleteRolePermissionsBoundary", "TagRole", "UntagRole", "ListRoleTags",
		"AttachRolePolicy", "DetachRolePolicy", "ListAttachedRolePolicies", "PutRolePolicy", "GetRolePolicy", "DeleteRolePolicy", "ListRolePolicies",
		"ListInstanceProfilesForRole",
	} {
		out[op] = func(in *call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{in.ofRole("iam:" + in.Op)}
		}
	}
	for _, op := range []string{
		"GetInstanceProfile", "DeleteInstanceProfile", "RemoveRoleFromInstanceProfile", "TagInstanceProfile", "UntagInstanceProfile", "ListInstanceProfileTags",
	} {
		out[op] = func(in *call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{in.ofProfile("iam:" + in.Op)}
		}
	}
	for _, op := range []string{
		"GetPolicy", "DeletePolicy", "CreatePolicyVersion", "GetPolicyVersion", "ListPolicyVersions", "DeletePolicyVersion",
		"TagPolicy", "UntagPolicy", "ListPolicyTags",
	} {
		out[op] = func(in *call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{in.ofPolicy("iam:" + in.Op)}
		}
	}
	return out
}

// formTags are the tags of an IAM or EC2 request as they stand there.
func formTags(forms []query.Form) map[string]string {
	out := map[string]string{}
	for _, f := range forms {
		out[f.Get("Key")] = f.Get("Value")
	}
	return out
}

// ofRole asks about the role that the request names.
func (in *call) ofRole(action string) api.AuthorizationRequest {
	name := in.Form.Get("RoleName")
	q := api.AuthorizationRequest{Action: action, Resource: in.cloud.iamARN("role", "/", name), Context: map[string][]string{},
		Given: formTags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if r := in.st.iam.roles[name]; r != nil {
		q.Resource, q.Tags = in.roleARN(r), r.tags
		if r.boundary != "" && changesPower(in.Op) {
			q.Context["iam:PermissionsBoundary"] = []string{r.boundary}
		}
	}
	if arn := in.Form.Get("PolicyArn"); arn != "" {
		q.Context["iam:PolicyARN"] = []string{arn}
	}
	return q
}

// changesPower tells the operations for which IAM knows the role's boundary.
func changesPower(op string) bool {
	switch op {
	case "AttachRolePolicy", "DetachRolePolicy", "PutRolePolicy", "DeleteRolePolicy", "DeleteRolePermissionsBoundary":
		return true
	}
	return false
}

// fromPath is the path that a request for something new gives it.
func (in *call) fromPath() string {
	if path := in.Form.Get("Path"); strings.HasPrefix(path, "/") && strings.HasSuffix(path, "/") {
		return path
	}
	return "/"
}

// createRoleAsks, as all that create: of a role that exists already IAM knows
// the tags.
func createRoleAsks(in *call) []api.AuthorizationRequest {
	q := in.ofRole("iam:CreateRole")
	if q.Tags == nil {
		q.Resource = in.cloud.iamARN("role", in.fromPath(), in.Form.Get("RoleName"))
	}
	if arn := in.Form.Get("PermissionsBoundary"); arn != "" {
		q.Context["iam:PermissionsBoundary"] = []string{arn}
	}
	return q.AlsoTags("iam:TagRole")
}

func putBoundaryAsks(in *call) []api.AuthorizationRequest {
	q := in.ofRole("iam:PutRolePermissionsBoundary")
	q.Context["iam:PermissionsBoundary"] = []string{in.Form.Get("PermissionsBoundary")}
	return []api.AuthorizationRequest{q}
}

func (in *call) ofProfile(action string) api.AuthorizationRequest {
	name := in.Form.Get("InstanceProfileName")
	q := api.AuthorizationRequest{Action: action, Resource: in.cloud.profileARN("/", name), Given: formTags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if p := in.st.iam.profiles[name]; p != nil {
		q.Resource, q.Tags = in.cloud.profileARN(p.path, p.name), p.tags
	}
	return q
}

func createProfileAsks(in *call) []api.AuthorizationRequest {
	q := in.ofProfile("iam:CreateInstanceProfile")
	if q.Tags == nil {
		q.Resource = in.cloud.profileARN(in.fromPath(), in.Form.Get("InstanceProfileName"))
	}
	return q.AlsoTags("iam:TagInstanceProfile")
}

func addRoleAsks(in *call) []api.AuthorizationRequest {
	return []api.AuthorizationRequest{in.ofProfile("iam:AddRoleToInstanceProfile"), in.st.passRole(in.Form.Get("RoleName"), "ec2")}
}

// passRole asks whether the caller may give a role to a service.
func (st *state) passRole(role, service string) api.AuthorizationRequest {
	domain := ".amazonaws.com"
	if service == "ec2" && st.account.Partition() == "aws-cn" {
		domain += ".cn"
	}
	q := api.AuthorizationRequest{Action: "iam:PassRole", Resource: st.account.GlobalARN("iam", "role/"+role), Context: map[string][]string{"iam:PassedToService": {service + domain}}}
	if r := st.iam.roles[role]; r != nil {
		q.Resource, q.Tags = st.account.GlobalARN("iam", "role"+r.path+r.name), r.tags
	}
	return q
}

func (in *call) ofPolicy(action string) api.AuthorizationRequest {
	arn := in.Form.Get("PolicyArn")
	q := api.AuthorizationRequest{Action: action, Resource: arn, Given: formTags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if p := in.st.iam.policies[arn]; p != nil {
		q.Tags = p.tags
	}
	return q
}

func createPolicyAsks(in *call) []api.AuthorizationRequest {
	q := in.ofPolicy("iam:CreatePolicy")
	q.Resource = in.cloud.iamARN("policy", in.fromPath(), in.Form.Get("PolicyName"))
	return q.AlsoTags("iam:TagPolicy")
}
