package iam

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// role is an IAM role.
type role struct {
	name, path, id     string
	description, trust string
	boundary           string // ARN of a policy, "" for none
	session            int    // longest session, in seconds
	created, visibleAt time.Time
	tags               map[string]string
	attached           map[string]string // managed policies: ARN to name
	inline             map[string]string // name to document
}

// nodeTrust lets EC2 instances take a role.
const nodeTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

func (svc *Service) roleOperations() map[string]api.Operation {
	named := []string{"RoleName"}
	return merged(map[string]api.Operation{
		"GetRole": {Params: named, Read: true, Run: svc.getRole},
		"CreateRole": {Params: tagParams("RoleName", "Path", "AssumeRolePolicyDocument", "Description", "MaxSessionDuration", "PermissionsBoundary"),
			Run: svc.createRole},
		"UpdateRole":             {Params: []string{"RoleName", "Description", "MaxSessionDuration"}, Run: svc.updateRole},
		"UpdateAssumeRolePolicy": {Params: []string{"RoleName", "PolicyDocument"}, Run: svc.updateTrust},
		"DeleteRole":             {Params: named, Run: svc.deleteRole},
		"ListRoles":              {Params: listing("PathPrefix"), Read: true, Run: svc.listRoles},

		"PutRolePermissionsBoundary":    {Params: []string{"RoleName", "PermissionsBoundary"}, Run: svc.putBoundary},
		"DeleteRolePermissionsBoundary": {Params: named, Run: svc.deleteBoundary},
	}, tagOperations("Role", "RoleName", func(in *api.Call) (map[string]string, error) {
		r, err := svc.findRole(in)
		if err != nil {
			return nil, err
		}
		return r.tags, nil
	}))
}

// findRole reads the role that the request names.
func (svc *Service) findRole(in *api.Call) (*role, error) {
	name := in.Form.Get("RoleName")
	if r := svc.roles[name]; r != nil && !in.Now.Before(r.visibleAt) {
		return r, nil
	}
	return nil, noEntity("The role with name %s cannot be found.", name)
}

func (svc *Service) roleARN(r *role) string { return svc.arn("role", r.path, r.name) }

// roleBasics is what every operation shows of a role.
func (svc *Service) roleBasics(r *role) []query.Element {
	return []query.Element{query.Text("Path", r.path), query.Text("RoleName", r.name), query.Text("RoleId", r.id), query.Text("Arn", svc.roleARN(r)),
		query.Text("CreateDate", stamp(r.created)), query.Text("AssumeRolePolicyDocument", escapeDocument(r.trust))}
}

// roleListed is what lists show: neither tags nor the permissions boundary.
func (svc *Service) roleListed(r *role) []query.Element {
	return append(svc.roleBasics(r), query.Opt("Description", r.description), query.Int("MaxSessionDuration", r.session))
}

func (svc *Service) getRole(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	nodes := append(svc.roleListed(r), query.Group("RoleLastUsed"))
	if len(r.tags) > 0 {
		nodes = append(nodes, tagsElement(r.tags))
	}
	if r.boundary != "" {
		nodes = append(nodes, query.Group("PermissionsBoundary",
			query.Text("PermissionsBoundaryType", "Policy"), query.Text("PermissionsBoundaryArn", r.boundary)))
	}
	return []query.Element{query.Group("Role", nodes...)}, nil
}

// createRole returns less than getRole shows, as IAM does.
func (svc *Service) createRole(in *api.Call) (any, error) {
	e, err := readEntity(in, "RoleName", 64)
	if err != nil {
		return nil, err
	}
	r := &role{name: e.name, path: e.path, tags: e.tags, trust: in.Form.Get("AssumeRolePolicyDocument"), boundary: in.Form.Get("PermissionsBoundary"),
		created: in.Now, visibleAt: in.Now.Add(svc.account.Delays.Visible), attached: map[string]string{}, inline: map[string]string{}}
	if err := settings(in, r); err != nil {
		return nil, err
	}
	if err := svc.checkTrust(in, r.trust); err != nil {
		return nil, err
	}
	if r.boundary != "" {
		if err := svc.checkBoundary(r.boundary); err != nil {
			return nil, err
		}
	}
	if taken(svc.roles, e.name) {
		return nil, conflict("EntityAlreadyExists", "Role with name %s already exists.", e.name)
	}
	r.id = svc.account.NewEntityID("AROA")
	svc.roles[e.name] = r
	nodes := svc.roleBasics(r)
	if len(r.tags) > 0 {
		nodes = append(nodes, tagsElement(r.tags))
	}
	return []query.Element{query.Group("Role", nodes...)}, nil
}

// descriptionForm is that of roles; policies have another.
var descriptionForm = regexp.MustCompile(`^[\t\n\r\x20-\x7e\x{a1}-\x{ff}]{0,1000}$`)

// settings reads what CreateRole and UpdateRole set. A description that is left
// out stays; a session's length then becomes the default.
func settings(in *api.Call, r *role) error {
	if in.Form.Has("Description") {
		if !descriptionForm.MatchString(in.Form.Get("Description")) {
			return api.Refuse("ValidationError", "1 validation error detected: the description is over 1000 characters, or has one that is none of Latin-1.")
		}
		r.description = in.Form.Get("Description")
	}
	n, given, err := in.Form.Int("MaxSessionDuration")
	switch {
	case err != nil || given && (n < 3600 || n > 43200):
		return api.Refuse("ValidationError", "1 validation error detected: Value '%s' at 'maxSessionDuration' must be between 3600 and 43200", in.Form.Get("MaxSessionDuration"))
	case given:
		r.session = n
	default:
		r.session = 3600
	}
	return nil
}

func (svc *Service) updateRole(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	next := *r
	if err := settings(in, &next); err != nil {
		return nil, err
	}
	*r = next
	return []query.Element{{}}, nil // its model has a result, an empty one
}

func (svc *Service) updateTrust(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	doc := in.Form.Get("PolicyDocument")
	if err := svc.checkTrust(in, doc); err != nil {
		return nil, err
	}
	r.trust = doc
	return []query.Element{}, nil
}

func (svc *Service) deleteRole(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	for _, p := range svc.profiles {
		if p.role == r.name {
			return nil, conflict("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	switch {
	case len(r.attached) > 0:
		return nil, conflict("DeleteConflict", "Cannot delete entity, must detach all policies first.")
	case len(r.inline) > 0:
		return nil, conflict("DeleteConflict", "Cannot delete entity, must delete policies first.")
	}
	delete(svc.roles, r.name)
	return []query.Element{}, nil
}

func (svc *Service) listRoles(in *api.Call) (any, error) {
	prefix, err := readPrefix(in, prefixForm)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for name, r := range svc.roles {
		if strings.HasPrefix(r.path, prefix) && !in.Now.Before(r.visibleAt) {
			rows = append(rows, api.NewRow(name, query.Group("member", svc.roleListed(r)...)))
		}
	}
	return page(in, "Roles", rows)
}

// checkBoundary refuses a boundary that is no managed policy.
func (svc *Service) checkBoundary(arn string) error {
	if !strings.HasPrefix(arn, "arn:") {
		return api.Refuse("InvalidInput", "ARN %s is not valid.", arn)
	}
	if svc.policyName(arn) == "" {
		return noEntity("Scope ARN: %s does not exist or is not attachable.", arn)
	}
	return nil
}

func (svc *Service) putBoundary(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	arn := in.Form.Get("PermissionsBoundary")
	if err := svc.checkBoundary(arn); err != nil {
		return nil, err
	}
	r.boundary = arn
	return []query.Element{}, nil
}

func (svc *Service) deleteBoundary(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	r.boundary = ""
	return []query.Element{}, nil
}

// holders counts the roles that a policy is attached to, and those it bounds.
func (svc *Service) holders(arn string) (attached, bounded int) {
	for _, r := range svc.roles {
		if _, ok := r.attached[arn]; ok {
			attached++
		}
		if r.boundary == arn {
			bounded++
		}
	}
	return attached, bounded
}

// mostTrustChars bounds a trust policy by IAM's default quota.
const mostTrustChars = 2048

// checkTrust refuses what is no trust policy, and one that names a role of the
// account that does not exist, or not for everybody yet.
func (svc *Service) checkTrust(in *api.Call, doc string) error {
	all, err := statements(doc)
	if err != nil {
		return err
	}
	if visibleChars(doc) > mostTrustChars {
		return conflict("LimitExceeded", "Cannot exceed quota for ACLSizePerRole: %d", mostTrustChars)
	}
	for _, s := range all {
		if !s.has("Principal") {
			return malformed("Missing required field Principal")
		}
		if s.has("Resource", "NotResource") {
			return malformed("Has prohibited field Resource")
		}
		for _, action := range stringList(s["Action"]) {
			if !strings.HasPrefix(action, "sts:") {
				return malformed("AssumeRole policy may only specify STS AssumeRole actions.")
			}
		}
		var principals map[string]json.RawMessage
		if err := json.Unmarshal(s["Principal"], &principals); err != nil && string(s["Principal"]) != `"*"` {
			return malformed("Invalid principal in policy.")
		}
		if err := principalProblem(principals); err != nil {
			return err
		}
		for _, arn := range stringList(principals["AWS"]) {
			ours := fmt.Sprintf("arn:%s:iam::%s:role/", svc.account.Partition(), svc.account.ID)
			if strings.HasPrefix(arn, ours) && svc.RoleName(arn, in.Now) == "" {
				return malformed("Invalid principal in policy: \"AWS\":\"%s\"", arn)
			}
		}
	}
	return nil
}
