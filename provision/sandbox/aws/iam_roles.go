package aws

import (
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

func roleOperations() map[string]operation {
	named := []string{"RoleName"}
	return merged(map[string]operation{
		"GetRole": {params: named, read: true, run: getRole},
		"CreateRole": {params: iamTagParams("RoleName", "Path", "AssumeRolePolicyDocument", "Description", "MaxSessionDuration", "PermissionsBoundary"),
			run: createRole},
		"UpdateRole":             {params: []string{"RoleName", "Description", "MaxSessionDuration"}, run: updateRole},
		"UpdateAssumeRolePolicy": {params: []string{"RoleName", "PolicyDocument"}, run: updateTrust},
		"DeleteRole":             {params: named, run: deleteRole},
		"ListRoles":              {params: iamListing("PathPrefix"), read: true, run: listRoles},

		"PutRolePermissionsBoundary":    {params: []string{"RoleName", "PermissionsBoundary"}, run: putBoundary},
		"DeleteRolePermissionsBoundary": {params: named, run: deleteBoundary},
	}, iamTagOperations("Role", "RoleName", func(in *call) (map[string]string, error) {
		r, err := in.findRole()
		if err != nil {
			return nil, err
		}
		return r.tags, nil
	}))
}

// findRole reads the role that the request names.
func (in *call) findRole() (*role, error) {
	name := in.Form.Get("RoleName")
	if r := in.st.iam.roles[name]; r != nil && !in.Now.Before(r.visibleAt) {
		return r, nil
	}
	return nil, noEntity("The role with name %s cannot be found.", name)
}

// roleOf finds the role of an ARN, nil if there is none yet.
func (in *call) roleOf(arn string) *role {
	for _, r := range in.st.iam.roles {
		if in.roleARN(r) == arn && !in.Now.Before(r.visibleAt) {
			return r
		}
	}
	return nil
}

func (in *call) roleARN(r *role) string { return in.cloud.iamARN("role", r.path, r.name) }

// roleBasics is what every operation shows of a role.
func (in *call) roleBasics(r *role) []query.Element {
	return []query.Element{query.Text("Path", r.path), query.Text("RoleName", r.name), query.Text("RoleId", r.id), query.Text("Arn", in.roleARN(r)),
		query.Text("CreateDate", iamStamp(r.created)), query.Text("AssumeRolePolicyDocument", escapeDocument(r.trust))}
}

// roleListed is what lists show: neither tags nor the permissions boundary.
func (in *call) roleListed(r *role) []query.Element {
	return append(in.roleBasics(r), query.Opt("Description", r.description), query.Int("MaxSessionDuration", r.session))
}

func getRole(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	nodes := append(in.roleListed(r), query.Group("RoleLastUsed"))
	if len(r.tags) > 0 {
		nodes = append(nodes, iamTagsElement(r.tags))
	}
	if r.boundary != "" {
		nodes = append(nodes, query.Group("PermissionsBoundary",
			query.Text("PermissionsBoundaryType", "Policy"), query.Text("PermissionsBoundaryArn", r.boundary)))
	}
	return []query.Element{query.Group("Role", nodes...)}, nil
}

// createRole answers with less than getRole shows, as IAM does.
func createRole(in *call) (any, error) {
	e, err := in.iamEntity("RoleName", 64)
	if err != nil {
		return nil, err
	}
	r := &role{name: e.name, path: e.path, tags: e.tags, trust: in.Form.Get("AssumeRolePolicyDocument"), boundary: in.Form.Get("PermissionsBoundary"),
		created: in.Now, visibleAt: in.Now.Add(in.cloud.account.Delays.Visible), attached: map[string]string{}, inline: map[string]string{}}
	if err := in.settings(r); err != nil {
		return nil, err
	}
	if err := in.checkTrust(r.trust); err != nil {
		return nil, err
	}
	if r.boundary != "" {
		if err := in.checkBoundary(r.boundary); err != nil {
			return nil, err
		}
	}
	if taken(in.st.iam.roles, e.name) {
		return nil, conflict("EntityAlreadyExists", "Role with name %s already exists.", e.name)
	}
	r.id = in.cloud.account.NewEntityID("AROA")
	in.st.iam.roles[e.name] = r
	nodes := in.roleBasics(r)
	if len(r.tags) > 0 {
		nodes = append(nodes, iamTagsElement(r.tags))
	}
	return []query.Element{query.Group("Role", nodes...)}, nil
}

// settings reads what CreateRole and UpdateRole set. A description that is left
// out stays; a session's length then becomes the default.
func (in *call) settings(r *role) error {
	if in.Form.Has("Description") {
		if len(in.Form.Get("Description")) > 1000 {
			return api.Refuse("ValidationError", "1 validation error detected: the description is over 1000 characters.")
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

func updateRole(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	next := *r
	if err := in.settings(&next); err != nil {
		return nil, err
	}
	*r = next
	return []query.Element{{}}, nil // its model has a result, an empty one
}

func updateTrust(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	doc := in.Form.Get("PolicyDocument")
	if err := in.checkTrust(doc); err != nil {
		return nil, err
	}
	r.trust = doc
	return []query.Element{}, nil
}

func deleteRole(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	for _, p := range in.st.iam.profiles {
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
	delete(in.st.iam.roles, r.name)
	return []query.Element{}, nil
}

func listRoles(in *call) (any, error) {
	var rows []api.Row
	for name, r := range in.st.iam.roles {
		if strings.HasPrefix(r.path, in.Form.Get("PathPrefix")) && !in.Now.Before(r.visibleAt) {
			rows = append(rows, api.NewRow(name, query.Group("member", in.roleListed(r)...)))
		}
	}
	return in.iamPage("Roles", rows)
}

// checkBoundary refuses a boundary that is no managed policy.
func (in *call) checkBoundary(arn string) error {
	if !strings.HasPrefix(arn, "arn:") {
		return api.Refuse("InvalidInput", "ARN %s is not valid.", arn)
	}
	if in.policyName(arn) == "" {
		return noEntity("Scope ARN: %s does not exist or is not attachable.", arn)
	}
	return nil
}

func putBoundary(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	arn := in.Form.Get("PermissionsBoundary")
	if err := in.checkBoundary(arn); err != nil {
		return nil, err
	}
	r.boundary = arn
	return []query.Element{}, nil
}

func deleteBoundary(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	r.boundary = ""
	return []query.Element{}, nil
}

// holders counts the roles that a policy is attached to, and those it bounds.
func (i identities) holders(arn string) (attached, bounded int) {
	for _, r := range i.roles {
		if _, ok := r.attached[arn]; ok {
			attached++
		}
		if r.boundary == arn {
			bounded++
		}
	}
	return attached, bounded
}
