package aws

import (
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// profile is an IAM instance profile.
type profile struct {
	name, path, id     string
	role               string // its name, "" for none
	created, visibleAt time.Time
	tags               map[string]string
}

func profileOperations() map[string]operation {
	named := []string{"InstanceProfileName"}
	withRole := []string{"InstanceProfileName", "RoleName"}
	return merged(map[string]operation{
		"GetInstanceProfile":          {params: named, read: true, run: getProfile},
		"ListInstanceProfiles":        {params: iamListing("PathPrefix"), read: true, run: listProfiles},
		"ListInstanceProfilesForRole": {params: iamListing("RoleName"), read: true, run: listProfilesForRole},
		"CreateInstanceProfile":       {params: iamTagParams("InstanceProfileName", "Path"), run: createProfile},
		"DeleteInstanceProfile":       {params: named, run: deleteProfile},

		"AddRoleToInstanceProfile":      {params: withRole, run: addRole},
		"RemoveRoleFromInstanceProfile": {params: withRole, run: removeRole},
	}, iamTagOperations("InstanceProfile", "InstanceProfileName", func(in *call) (map[string]string, error) {
		p, err := in.findProfile()
		if err != nil {
			return nil, err
		}
		return p.tags, nil
	}))
}

func (c *Cloud) profileARN(path, name string) string { return c.iamARN("instance-profile", path, name) }

// findProfile reads the profile that the request names.
func (in *call) findProfile() (*profile, error) {
	name := in.Form.Get("InstanceProfileName")
	if in.st.iam.hasProfile(name, in.Now) {
		return in.st.iam.profiles[name], nil
	}
	return nil, noEntity("Instance Profile %s cannot be found.", name)
}

// profileElement shows a profile; more is what lists leave out: the tags.
func (in *call) profileElement(p *profile, more ...query.Element) query.Element {
	var roles []query.Element
	if r := in.st.iam.roles[p.role]; r != nil {
		roles = append(roles, query.Group("member", in.roleBasics(r)...))
	}
	return query.Group("InstanceProfile", append([]query.Element{query.Text("Path", p.path), query.Text("InstanceProfileName", p.name),
		query.Text("InstanceProfileId", p.id), query.Text("Arn", in.cloud.profileARN(p.path, p.name)),
		query.Text("CreateDate", iamStamp(p.created)), query.List("Roles", "member", roles)}, more...)...)
}

// iamStamp writes a time as IAM does, in whole seconds.
func iamStamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func getProfile(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	return []query.Element{in.profileElement(p, iamTagsElement(p.tags))}, nil
}

func createProfile(in *call) (any, error) {
	e, err := in.iamEntity("InstanceProfileName", 128)
	if err != nil {
		return nil, err
	}
	if taken(in.st.iam.profiles, e.name) {
		return nil, conflict("EntityAlreadyExists", "Instance Profile %s already exists.", e.name)
	}
	p := &profile{name: e.name, path: e.path, id: in.cloud.account.NewEntityID("AIPA"), created: in.Now, visibleAt: in.Now.Add(in.cloud.account.Delays.Visible), tags: e.tags}
	in.st.iam.profiles[e.name] = p
	return []query.Element{in.profileElement(p, iamTagsElement(p.tags))}, nil
}

func deleteProfile(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, conflict("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(in.st.iam.profiles, p.name)
	return []query.Element{}, nil
}

// addRole finds a profile that was made a moment ago, unlike readers and
// launches: Karpenter calls it right after CreateInstanceProfile, and lives.
func addRole(in *call) (any, error) {
	name := in.Form.Get("InstanceProfileName")
	p := in.st.iam.profiles[name]
	if p == nil {
		return nil, noEntity("Instance Profile %s cannot be found.", name)
	}
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, conflict("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.role = r.name
	return []query.Element{}, nil
}

func removeRole(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	if role := in.Form.Get("RoleName"); p.role != role || role == "" {
		return nil, noEntity("Role %s is not in instance profile %s.", role, p.name)
	}
	p.role = ""
	return []query.Element{}, nil
}

// profileRows are the profiles that others can see.
func (in *call) profileRows(keep func(*profile) bool) []api.Row {
	var rows []api.Row
	for name, p := range in.st.iam.profiles {
		if in.st.iam.hasProfile(name, in.Now) && keep(p) {
			rows = append(rows, api.NewRow(name, in.profileElement(p)))
		}
	}
	return rows
}

func listProfiles(in *call) (any, error) {
	prefix := in.Form.Get("PathPrefix")
	return in.iamPage("InstanceProfiles", in.profileRows(func(p *profile) bool { return strings.HasPrefix(p.path, prefix) }))
}

func listProfilesForRole(in *call) (any, error) {
	r, err := in.findRole()
	if err != nil {
		return nil, err
	}
	return in.iamPage("InstanceProfiles", in.profileRows(func(p *profile) bool { return p.role == r.name }))
}
