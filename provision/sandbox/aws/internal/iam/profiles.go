package iam

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

func (svc *Service) profileOperations() map[string]api.Operation {
	named := []string{"InstanceProfileName"}
	withRole := []string{"InstanceProfileName", "RoleName"}
	return merged(map[string]api.Operation{
		"GetInstanceProfile":          {Params: named, Read: true, Run: svc.getProfile},
		"ListInstanceProfiles":        {Params: listing("PathPrefix"), Read: true, Run: svc.listProfiles},
		"ListInstanceProfilesForRole": {Params: listing("RoleName"), Read: true, Run: svc.listProfilesForRole},
		"CreateInstanceProfile":       {Params: tagParams("InstanceProfileName", "Path"), Run: svc.createProfile},
		"DeleteInstanceProfile":       {Params: named, Run: svc.deleteProfile},

		"AddRoleToInstanceProfile":      {Params: withRole, Run: svc.addRole},
		"RemoveRoleFromInstanceProfile": {Params: withRole, Run: svc.removeRole},
	}, tagOperations("InstanceProfile", "InstanceProfileName", func(in *api.Call) (map[string]string, error) {
		p, err := svc.findProfile(in)
		if err != nil {
			return nil, err
		}
		return p.tags, nil
	}))
}

func (svc *Service) profileARN(path, name string) string {
	return svc.arn("instance-profile", path, name)
}

// findProfile reads the profile that the request names.
func (svc *Service) findProfile(in *api.Call) (*profile, error) {
	name := in.Form.Get("InstanceProfileName")
	if svc.HasProfile(name, in.Now) {
		return svc.profiles[name], nil
	}
	return nil, noEntity("Instance Profile %s cannot be found.", name)
}

// profileElement shows a profile; more is what lists leave out: the tags.
func (svc *Service) profileElement(p *profile, more ...query.Element) query.Element {
	var roles []query.Element
	if r := svc.roles[p.role]; r != nil {
		roles = append(roles, query.Group("member", svc.roleBasics(r)...))
	}
	return query.Group("InstanceProfile", append([]query.Element{query.Text("Path", p.path), query.Text("InstanceProfileName", p.name),
		query.Text("InstanceProfileId", p.id), query.Text("Arn", svc.profileARN(p.path, p.name)),
		query.Text("CreateDate", stamp(p.created)), query.List("Roles", "member", roles)}, more...)...)
}

func (svc *Service) getProfile(in *api.Call) (any, error) {
	p, err := svc.findProfile(in)
	if err != nil {
		return nil, err
	}
	return []query.Element{svc.profileElement(p, tagsElement(p.tags))}, nil
}

func (svc *Service) createProfile(in *api.Call) (any, error) {
	e, err := readEntity(in, "InstanceProfileName", 128)
	if err != nil {
		return nil, err
	}
	if taken(svc.profiles, e.name) {
		return nil, conflict("EntityAlreadyExists", "Instance Profile %s already exists.", e.name)
	}
	p := &profile{name: e.name, path: e.path, id: svc.account.NewEntityID("AIPA"), created: in.Now, visibleAt: in.Now.Add(svc.account.Delays.Visible), tags: e.tags}
	svc.profiles[e.name] = p
	return []query.Element{svc.profileElement(p, tagsElement(p.tags))}, nil
}

func (svc *Service) deleteProfile(in *api.Call) (any, error) {
	p, err := svc.findProfile(in)
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, conflict("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(svc.profiles, p.name)
	return []query.Element{}, nil
}

// addRole finds a profile that was made a moment ago, unlike readers and
// launches: Karpenter calls it right after CreateInstanceProfile, and lives.
func (svc *Service) addRole(in *api.Call) (any, error) {
	name := in.Form.Get("InstanceProfileName")
	p := svc.profiles[name]
	if p == nil {
		return nil, noEntity("Instance Profile %s cannot be found.", name)
	}
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, conflict("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.role = r.name
	return []query.Element{}, nil
}

func (svc *Service) removeRole(in *api.Call) (any, error) {
	p, err := svc.findProfile(in)
	if err != nil {
		return nil, err
	}
	if role := in.Form.Get("RoleName"); p.role != role || role == "" {
		return nil, noEntity("Role %s is not in instance profile %s.", role, p.name)
	}
	p.role = ""
	return []query.Element{}, nil
}

// profileRows are the profiles that others can read.
func (svc *Service) profileRows(in *api.Call, keep func(*profile) bool) []api.Row {
	var rows []api.Row
	for name, p := range svc.profiles {
		if svc.HasProfile(name, in.Now) && keep(p) {
			rows = append(rows, api.NewRow(name, svc.profileElement(p)))
		}
	}
	return rows
}

func (svc *Service) listProfiles(in *api.Call) (any, error) {
	prefix, err := readPrefix(in, prefixForm)
	if err != nil {
		return nil, err
	}
	return page(in, "InstanceProfiles", svc.profileRows(in, func(p *profile) bool { return strings.HasPrefix(p.path, prefix) }))
}

func (svc *Service) listProfilesForRole(in *api.Call) (any, error) {
	r, err := svc.findRole(in)
	if err != nil {
		return nil, err
	}
	return page(in, "InstanceProfiles", svc.profileRows(in, func(p *profile) bool { return p.role == r.name }))
}
