package iam

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{
		"ListRoles":                  api.Anything("iam:ListRoles"),
		"ListInstanceProfiles":       api.Anything("iam:ListInstanceProfiles"),
		"ListOpenIDConnectProviders": api.Anything("iam:ListOpenIDConnectProviders"),
		"GetOpenIDConnectProvider": func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{{Action: "iam:GetOpenIDConnectProvider", Resource: in.Form.Get("OpenIDConnectProviderArn")}}
		},
		"SimulatePrincipalPolicy": func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{{Action: "iam:SimulatePrincipalPolicy", Resource: in.Form.Get("PolicySourceArn")}}
		},
		"CreateRole":                 svc.createRoleRequests,
		"PutRolePermissionsBoundary": svc.putBoundaryRequests,
		"CreateInstanceProfile":      svc.createProfileRequests,
		"AddRoleToInstanceProfile":   svc.addRoleRequests,
		"CreatePolicy":               svc.createPolicyRequests,
	}
	for _, op := range []string{
		"GetRole", "UpdateRole", "UpdateAssumeRolePolicy", "DeleteRole", "DeleteRolePermissionsBoundary", "TagRole", "UntagRole", "ListRoleTags",
		"AttachRolePolicy", "DetachRolePolicy", "ListAttachedRolePolicies", "PutRolePolicy", "GetRolePolicy", "DeleteRolePolicy", "ListRolePolicies",
		"ListInstanceProfilesForRole",
	} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{svc.ofRole(in, "iam:"+in.Op)}
		}
	}
	for _, op := range []string{
		"GetInstanceProfile", "DeleteInstanceProfile", "RemoveRoleFromInstanceProfile", "TagInstanceProfile", "UntagInstanceProfile", "ListInstanceProfileTags",
	} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{svc.ofProfile(in, "iam:"+in.Op)}
		}
	}
	for _, op := range []string{
		"GetPolicy", "DeletePolicy", "CreatePolicyVersion", "GetPolicyVersion", "ListPolicyVersions", "DeletePolicyVersion",
		"TagPolicy", "UntagPolicy", "ListPolicyTags",
	} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{svc.ofPolicy(in, "iam:"+in.Op)}
		}
	}
	return out
}

// ofRole is a request about the role that the request names.
func (svc *Service) ofRole(in *api.Call, action string) api.AuthorizationRequest {
	name := in.Form.Get("RoleName")
	q := api.AuthorizationRequest{Action: action, Resource: svc.arn("role", "/", name), Context: map[string][]string{},
		RequestTags: query.Tags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if r := svc.roles[name]; r != nil {
		q.Resource, q.Tags = svc.roleARN(r), r.tags
		if r.boundary != "" && changesPower(in.Op) {
			q.Context["iam:PermissionsBoundary"] = []string{r.boundary}
		}
	}
	if arn := in.Form.Get("PolicyArn"); arn != "" {
		q.Context["iam:PolicyARN"] = []string{arn}
	}
	return q
}

// changesPower are the operations for which IAM has the boundary of the role.
func changesPower(op string) bool {
	switch op {
	case "AttachRolePolicy", "DetachRolePolicy", "PutRolePolicy", "DeleteRolePolicy", "DeleteRolePermissionsBoundary":
		return true
	}
	return false
}

// fromPath is the path that a request for something new gives it.
func fromPath(in *api.Call) string {
	if path := in.Form.Get("Path"); strings.HasPrefix(path, "/") && strings.HasSuffix(path, "/") {
		return path
	}
	return "/"
}

// createRoleRequests, as all that create: of a role that exists already IAM has the
// tags.
func (svc *Service) createRoleRequests(in *api.Call) []api.AuthorizationRequest {
	q := svc.ofRole(in, "iam:CreateRole")
	if q.Tags == nil {
		q.Resource = svc.arn("role", fromPath(in), in.Form.Get("RoleName"))
	}
	if arn := in.Form.Get("PermissionsBoundary"); arn != "" {
		q.Context["iam:PermissionsBoundary"] = []string{arn}
	}
	return q.AlsoTags("iam:TagRole")
}

func (svc *Service) putBoundaryRequests(in *api.Call) []api.AuthorizationRequest {
	q := svc.ofRole(in, "iam:PutRolePermissionsBoundary")
	q.Context["iam:PermissionsBoundary"] = []string{in.Form.Get("PermissionsBoundary")}
	return []api.AuthorizationRequest{q}
}

func (svc *Service) ofProfile(in *api.Call, action string) api.AuthorizationRequest {
	name := in.Form.Get("InstanceProfileName")
	q := api.AuthorizationRequest{Action: action, Resource: svc.profileARN("/", name), RequestTags: query.Tags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if p := svc.profiles[name]; p != nil {
		q.Resource, q.Tags = svc.profileARN(p.path, p.name), p.tags
	}
	return q
}

func (svc *Service) createProfileRequests(in *api.Call) []api.AuthorizationRequest {
	q := svc.ofProfile(in, "iam:CreateInstanceProfile")
	if q.Tags == nil {
		q.Resource = svc.profileARN(fromPath(in), in.Form.Get("InstanceProfileName"))
	}
	return q.AlsoTags("iam:TagInstanceProfile")
}

func (svc *Service) addRoleRequests(in *api.Call) []api.AuthorizationRequest {
	return []api.AuthorizationRequest{svc.ofProfile(in, "iam:AddRoleToInstanceProfile"), svc.PassRole(in.Form.Get("RoleName"), "ec2")}
}

// PassRole is the request to IAM for giving a role to a service of AWS.
func (svc *Service) PassRole(role, service string) api.AuthorizationRequest {
	domain := ".amazonaws.com"
	if service == "ec2" && svc.account.Partition() == "aws-cn" {
		domain += ".cn"
	}
	q := api.AuthorizationRequest{Action: "iam:PassRole", Resource: svc.account.GlobalARN("iam", "role/"+role), Context: map[string][]string{"iam:PassedToService": {service + domain}}}
	if r := svc.roles[role]; r != nil {
		q.Resource, q.Tags = svc.account.GlobalARN("iam", "role"+r.path+r.name), r.tags
	}
	return q
}

func (svc *Service) ofPolicy(in *api.Call, action string) api.AuthorizationRequest {
	arn := in.Form.Get("PolicyArn")
	q := api.AuthorizationRequest{Action: action, Resource: arn, RequestTags: query.Tags(in.Form.Each("Tags.member")), Keys: in.Form.List("TagKeys.member")}
	if p := svc.policies[arn]; p != nil {
		q.Tags = p.tags
	}
	return q
}

func (svc *Service) createPolicyRequests(in *api.Call) []api.AuthorizationRequest {
	q := svc.ofPolicy(in, "iam:CreatePolicy")
	q.Resource = svc.arn("policy", fromPath(in), in.Form.Get("PolicyName"))
	return q.AlsoTags("iam:TagPolicy")
}
