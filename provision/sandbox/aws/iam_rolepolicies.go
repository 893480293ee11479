package aws

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// What a role may hold, by IAM's default quotas.
const (
	mostAttached    = 10    // managed policies
	mostInlineChars = 10240 // of all inline policies together, without white space
)

func rolePolicyOperations() map[string]operation {
	attachment, inline := []string{"RoleName", "PolicyArn"}, []string{"RoleName", "PolicyName"}
	return map[string]operation{
		"AttachRolePolicy":         {params: attachment, run: attachPolicy},
		"DetachRolePolicy":         {params: attachment, run: detachPolicy},
		"ListAttachedRolePolicies": {params: iamListing("RoleName", "PathPrefix"), read: true, run: listAttached},
		"PutRolePolicy":            {params: []string{"RoleName", "PolicyName", "PolicyDocument"}, run: putInline},
		"GetRolePolicy":            {params: inline, read: true, run: getInline},
		"DeleteRolePolicy":         {params: inline, run: deleteInline},
		"ListRolePolicies":         {params: iamListing("RoleName"), read: true, run: listInline},
	}
}

func attachPolicy(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	arn, err := in.policyARN()
	if err != nil {
		return nil, err
	}
	name := in.policyName(arn)
	if name == "" {
		return nil, noEntity("Policy %s does not exist or is not attachable.", arn)
	}
	if _, has := r.attached[arn]; !has && len(r.attached) == mostAttached {
		return nil, conflict("LimitExceeded", "Cannot exceed quota for PoliciesPerRole: %d", mostAttached)
	}
	r.attached[arn] = name
	return []query.Element{}, nil
}

func detachPolicy(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	arn, err := in.policyARN()
	if err != nil {
		return nil, err
	}
	if _, has := r.attached[arn]; !has {
		return nil, noEntity("Policy %s was not found.", arn)
	}
	delete(r.attached, arn)
	return []query.Element{}, nil
}

func listAttached(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for arn, name := range r.attached {
		if !underPath(arn, in.Form.Get("PathPrefix")) {
			continue
		}
		rows = append(rows, api.NewRow(arn, query.Group("member", query.Text("PolicyName", name), query.Text("PolicyArn", arn))))
	}
	return in.iamPage("AttachedPolicies", rows)
}

func putInline(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	name, err := in.iamName("PolicyName", 128)
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
func (in *call) findInline() (*role, string, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, "", err
	}
	name := in.Form.Get("PolicyName")
	if _, has := r.inline[name]; !has {
		return nil, "", noEntity("The role policy with name %s cannot be found.", name)
	}
	return r, name, nil
}

func getInline(in *call) (any, error) {
	r, name, err := in.findInline()
	if err != nil {
		return nil, err
	}
	return []query.Element{query.Text("RoleName", r.name), query.Text("PolicyName", name), query.Text("PolicyDocument", escapeDocument(r.inline[name]))}, nil
}

func deleteInline(in *call) (any, error) {
	r, name, err := in.findInline()
	if err != nil {
		return nil, err
	}
	delete(r.inline, name)
	return []query.Element{}, nil
}

func listInline(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for name := range r.inline {
		rows = append(rows, api.NewRow(name, query.Text("member", name)))
	}
	return in.iamPage("PolicyNames", rows)
}
