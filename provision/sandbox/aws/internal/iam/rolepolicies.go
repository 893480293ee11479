package iam

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// What a role may hold, by IAM's default quotas.
const (
	mostAttached    = 10    // managed policies
	mostInlineChars = 10240 // of all inline policies together, without white space
)

func (svc *Service) rolePolicyOperations() map[string]api.Operation {
	attachment, inline := []string{"RoleName", "PolicyArn"}, []string{"RoleName", "PolicyName"}
	return map[string]api.Operation{
		"AttachRolePolicy":         {Params: attachment, Run: svc.attachPolicy},
		"DetachRolePolicy":         {Params: attachment, Run: svc.detachPolicy},
		"ListAttachedRolePolicies": {Params: listing("RoleName", "PathPrefix"), Read: true, Run: svc.listAttached},
		"PutRolePolicy":            {Params: []string{"RoleName", "PolicyName", "PolicyDocument"}, Run: svc.putInline},
		"GetRolePolicy":            {Params: inline, Read: true, Run: svc.getInline},
		"DeleteRolePolicy":         {Params: inline, Run: svc.deleteInline},
		"ListRolePolicies":         {Params: listing("RoleName"), Read: true, Run: svc.listInline},
	}
}

func (svc *Service) attachPolicy(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	arn, err := svc.policyARN(in)
	if err != nil {
		return nil, err
	}
	name := svc.policyName(arn)
	if name == "" {
		return nil, noEntity("Policy %s does not exist or is not attachable.", arn)
	}
	if _, has := r.attached[arn]; !has && len(r.attached) == mostAttached {
		return nil, conflict("LimitExceeded", "Cannot exceed quota for PoliciesPerRole: %d", mostAttached)
	}
	r.attached[arn] = name
	return []query.Element{}, nil
}

func (svc *Service) detachPolicy(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	arn, err := svc.policyARN(in)
	if err != nil {
		return nil, err
	}
	if _, has := r.attached[arn]; !has {
		return nil, noEntity("Policy %s was not found.", arn)
	}
	delete(r.attached, arn)
	return []query.Element{}, nil
}

func (svc *Service) listAttached(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	prefix, err := readPrefix(in, policyPathForm)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for arn, name := range r.attached {
		if !underPath(arn, prefix) {
			continue
		}
		rows = append(rows, api.NewRow(arn, query.Group("member", query.Text("PolicyName", name), query.Text("PolicyArn", arn))))
	}
	return page(in, "AttachedPolicies", rows)
}

func (svc *Service) putInline(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	name, err := readName(in, "PolicyName", 128)
	if err != nil {
		return nil, err
	}
	doc := in.Form.Get("PolicyDocument")
	if err := checkDocument(doc); err != nil {
		return nil, err
	}
	size := visibleChars(doc)
	for other, have := range r.inline {
		if other != name {
			size += visibleChars(have)
		}
	}
	if size > mostInlineChars {
		return nil, conflict("LimitExceeded", "Maximum policy size of %d bytes exceeded for role %s", mostInlineChars, r.name)
	}
	r.inline[name] = doc
	return []query.Element{}, nil
}

// findInline reads the role and the inline policy that the request names.
func (svc *Service) findInline(in *api.Call) (*role, string, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, "", err
	}
	name := in.Form.Get("PolicyName")
	if _, has := r.inline[name]; !has {
		return nil, "", noEntity("The role policy with name %s cannot be found.", name)
	}
	return r, name, nil
}

func (svc *Service) getInline(in *api.Call) (any, error) {
	r, name, err := svc.findInline(in)
	if err != nil {
		return nil, err
	}
	return []query.Element{query.Text("RoleName", r.name), query.Text("PolicyName", name), query.Text("PolicyDocument", escapeDocument(r.inline[name]))}, nil
}

func (svc *Service) deleteInline(in *api.Call) (any, error) {
	r, name, err := svc.findInline(in)
	if err != nil {
		return nil, err
	}
	delete(r.inline, name)
	return []query.Element{}, nil
}

func (svc *Service) listInline(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for name := range r.inline {
		rows = append(rows, api.NewRow(name, query.Text("member", name)))
	}
	return page(in, "PolicyNames", rows)
}
