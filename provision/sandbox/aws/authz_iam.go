package aws

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func iamAuthorizations() map[string]authorization {
	out := map[string]authorization{
		"ListRoles":                  anything("iam:ListRoles"),
		"ListInstanceProfiles":       anything("iam:ListInstanceProfiles"),
		"ListOpenIDConnectProviders": anything("iam:ListOpenIDConnectProviders"),
		"GetOpenIDConnectProvider": func(in *call) []authorizationRequest {
			return []authorizationRequest{{action: "iam:GetOpenIDConnectProvider", resource: in.form.Get("OpenIDConnectProviderArn")}}
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
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofRole("iam:" + in.op)} }
	}
	for _, op := range []string{
		"GetInstanceProfile", "DeleteInstanceProfile", "RemoveRoleFromInstanceProfile", "TagInstanceProfile", "UntagInstanceProfile", "ListInstanceProfileTags",
	} {
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofProfile("iam:" + in.op)} }
	}
	for _, op := range []string{
		"GetPolicy", "DeletePolicy", "CreatePolicyVersion", "GetPolicyVersion", "ListPolicyVersions", "DeletePolicyVersion",
		"TagPolicy", "UntagPolicy", "ListPolicyTags",
	} {
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofPolicy("iam:" + in.op)} }
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
func (in *call) ofRole(action string) authorizationRequest {
	name := in.form.Get("RoleName")
	q := authorizationRequest{action: action, resource: in.cloud.iamARN("role", "/", name), context: map[string][]string{},
		given: formTags(in.form.Each("Tags.member")), keys: in.form.List("TagKeys.member")}
	if r := in.st.iam.roles[name]; r != nil {
		q.resource, q.tags = in.roleARN(r), r.tags
		if r.boundary != "" && changesPower(in.op) {
			q.context["iam:PermissionsBoundary"] = []string{r.boundary}
		}
	}
	if arn := in.form.Get("PolicyArn"); arn != "" {
		q.context["iam:PolicyARN"] = []string{arn}
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
	if path := in.form.Get("Path"); strings.HasPrefix(path, "/") && strings.HasSuffix(path, "/") {
		return path
	}
	return "/"
}

// tagging asks a second time where a request also tags what it makes.
func tagging(action string, q authorizationRequest) []authorizationRequest {
	if len(q.given) == 0 {
		return []authorizationRequest{q}
	}
	second := authorizationRequest{action: action, resource: q.resource, tags: q.tags, given: q.given}
	return []authorizationRequest{q, second}
}

// createRoleAsks, as all that create: of a role that exists already IAM knows
// the tags.
func createRoleAsks(in *call) []authorizationRequest {
	q := in.ofRole("iam:CreateRole")
	if q.tags == nil {
		q.resource = in.cloud.iamARN("role", in.fromPath(), in.form.Get("RoleName"))
	}
	if arn := in.form.Get("PermissionsBoundary"); arn != "" {
		q.context["iam:PermissionsBoundary"] = []string{arn}
	}
	return tagging("iam:TagRole", q)
}

func putBoundaryAsks(in *call) []authorizationRequest {
	q := in.ofRole("iam:PutRolePermissionsBoundary")
	q.context["iam:PermissionsBoundary"] = []string{in.form.Get("PermissionsBoundary")}
	return []authorizationRequest{q}
}

func (in *call) ofProfile(action string) authorizationRequest {
	name := in.form.Get("InstanceProfileName")
	q := authorizationRequest{action: action, resource: in.cloud.profileARN("/", name), given: formTags(in.form.Each("Tags.member")), keys: in.form.List("TagKeys.member")}
	if p := in.st.iam.profiles[name]; p != nil {
		q.resource, q.tags = in.cloud.profileARN(p.path, p.name), p.tags
	}
	return q
}

func createProfileAsks(in *call) []authorizationRequest {
	q := in.ofProfile("iam:CreateInstanceProfile")
	if q.tags == nil {
		q.resource = in.cloud.profileARN(in.fromPath(), in.form.Get("InstanceProfileName"))
	}
	return tagging("iam:TagInstanceProfile", q)
}

func addRoleAsks(in *call) []authorizationRequest {
	return []authorizationRequest{in.ofProfile("iam:AddRoleToInstanceProfile"), in.passing(in.form.Get("RoleName"), "ec2")}
}

// passing asks whether the caller may give a role to a service.
func (in *call) passing(role, service string) authorizationRequest {
	domain := ".amazonaws.com"
	if service == "ec2" && in.cloud.partition() == "aws-cn" {
		domain += ".cn"
	}
	q := authorizationRequest{action: "iam:PassRole", resource: in.cloud.iamARN("role", "/", role), context: map[string][]string{"iam:PassedToService": {service + domain}}}
	if r := in.st.iam.roles[role]; r != nil {
		q.resource, q.tags = in.roleARN(r), r.tags
	}
	return q
}

func (in *call) ofPolicy(action string) authorizationRequest {
	arn := in.form.Get("PolicyArn")
	q := authorizationRequest{action: action, resource: arn, given: formTags(in.form.Each("Tags.member")), keys: in.form.List("TagKeys.member")}
	if p := in.st.iam.policies[arn]; p != nil {
		q.tags = p.tags
	}
	return q
}

func createPolicyAsks(in *call) []authorizationRequest {
	q := in.ofPolicy("iam:CreatePolicy")
	q.resource = in.cloud.iamARN("policy", in.fromPath(), in.form.Get("PolicyName"))
	return tagging("iam:TagPolicy", q)
}
