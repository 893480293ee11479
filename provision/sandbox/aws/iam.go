package aws

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// iamOperations is IAM: instance profiles only.
func iamOperations() map[string]operation {
	named := []string{"InstanceProfileName"}
	withRole := []string{"InstanceProfileName", "RoleName"}
	return map[string]operation{
		"GetInstanceProfile":    {params: named, read: true, run: getProfile},
		"ListInstanceProfiles":  {params: []string{"PathPrefix", "Marker", "MaxItems"}, read: true, run: listProfiles},
		"CreateInstanceProfile": {params: []string{"InstanceProfileName", "Path", "Tags.member.#.Key", "Tags.member.#.Value"}, run: createProfile},
		"DeleteInstanceProfile": {params: named, run: deleteProfile},

		"AddRoleToInstanceProfile":      {params: withRole, run: addRole},
		"RemoveRoleFromInstanceProfile": {params: withRole, run: removeRole},
	}
}

// stsOperations is STS: who am I.
func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": {read: true, run: func(in *call) (any, error) {
		return []query.Node{query.Text("Arn", in.cloud.caller()), query.Text("UserId", "AROAEMULATED:emulated"), query.Text("Account", in.cloud.cfg.Account)}, nil
	}}}
}

// partition is the first word of an ARN after arn.
func (c *Cloud) partition() string {
	switch {
	case strings.HasPrefix(c.cfg.Region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(c.cfg.Region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

func (c *Cloud) profileARN(path, name string) string {
	return fmt.Sprintf("arn:%s:iam::%s:instance-profile%s%s", c.partition(), c.cfg.Account, path, name)
}

func iamError(status int, code, format string, args ...any) error {
	return &apiError{status, code, fmt.Sprintf(format, args...)}
}

// findProfile reads the profile that the request names.
func (in *call) findProfile() (*profile, error) {
	name := in.form.Get("InstanceProfileName")
	if p := in.st.profiles[name]; p != nil {
		return p, nil
	}
	return nil, iamError(http.StatusNotFound, "NoSuchEntity", "Instance Profile %s cannot be found.", name)
}

func (in *call) profileNode(name string, p *profile) query.Node {
	var roles, tags []query.Node
	if p.role != "" {
		roles = append(roles, query.Group("member", query.Text("Path", "/"), query.Text("RoleName", p.role), query.Text("RoleId", "AROA"+strings.ToUpper(fmt.Sprintf("%x", p.role))),
			query.Text("Arn", fmt.Sprintf("arn:%s:iam::%s:role/%s", in.cloud.partition(), in.cloud.cfg.Account, p.role)),
			query.Text("CreateDate", stamp(p.created)), query.Text("AssumeRolePolicyDocument", "%7B%7D")))
	}
	for _, k := range slices.Sorted(maps.Keys(p.tags)) {
		tags = append(tags, query.Group("member", query.Text("Key", k), query.Text("Value", p.tags[k])))
	}
	return query.Group(name, query.Text("Path", p.path), query.Text("InstanceProfileName", p.name),
		query.Text("InstanceProfileId", "AIPA"+strings.ToUpper(fmt.Sprintf("%x", p.name))), query.Text("Arn", in.cloud.profileARN(p.path, p.name)),
		query.Text("CreateDate", stamp(p.created)), query.List("Roles", "member", roles), query.List("Tags", "member", tags))
}

func getProfile(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	return []query.Node{in.profileNode("InstanceProfile", p)}, nil
}

func createProfile(in *call) (any, error) {
	name, path := in.form.Get("InstanceProfileName"), in.form.Get("Path")
	if path == "" {
		path = "/"
	}
	if name == "" || len(name) > 128 || !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/") {
		return nil, refuse("ValidationError", "An instance profile needs a name of 1 to 128 characters and a path from / to /; got '%s' and '%s'.", name, path)
	}
	if in.st.profiles[name] != nil {
		return nil, iamError(http.StatusConflict, "EntityAlreadyExists", "Instance Profile %s already exists.", name)
	}
	tags, err := readTags(in.form.Each("Tags.member"))
	if err != nil {
		return nil, err
	}
	p := &profile{name: name, path: path, created: in.now, tags: tags}
	in.st.profiles[name] = p
	return []query.Node{in.profileNode("InstanceProfile", p)}, nil
}

func deleteProfile(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, iamError(http.StatusConflict, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(in.st.profiles, p.name)
	return []query.Node{}, nil
}

func addRole(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	role := in.form.Get("RoleName")
	if !slices.Contains(in.cloud.cfg.Roles, role) {
		return nil, iamError(http.StatusNotFound, "NoSuchEntity", "The role with name %s cannot be found.", role)
	}
	if p.role != "" {
		return nil, iamError(http.StatusConflict, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.role = role
	return []query.Node{}, nil
}

func removeRole(in *call) (any, error) {
	p, err := in.findProfile()
	if err != nil {
		return nil, err
	}
	if role := in.form.Get("RoleName"); p.role != role {
		return nil, iamError(http.StatusNotFound, "NoSuchEntity", "Role %s is not in instance profile %s.", role, p.name)
	}
	p.role = ""
	return []query.Node{}, nil
}

func listProfiles(in *call) (any, error) {
	most, limited, err := in.form.Int("MaxItems")
	if err != nil || limited && (most < 1 || most > 1000) {
		return nil, refuse("ValidationError", "MaxItems '%s' is not between 1 and 1000.", in.form.Get("MaxItems"))
	}
	if !limited {
		most = 100
	}
	after, err := in.after(in.form.Get("Marker"))
	if err != nil {
		return nil, err
	}
	var rows []query.Node
	next := ""
	last := ""
	for _, name := range slices.Sorted(maps.Keys(in.st.profiles)) {
		p := in.st.profiles[name]
		if name <= after || !strings.HasPrefix(p.path, in.form.Get("PathPrefix")) {
			continue
		}
		if len(rows) == most {
			next = in.token(last)
			break
		}
		rows, last = append(rows, in.profileNode("member", p)), name
	}
	return []query.Node{query.List("InstanceProfiles", "member", rows), query.Bool("IsTruncated", next != ""), query.Opt("Marker", next)}, nil
}
