package vpc

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) modifySubnet(in *api.Call) (any, error) {
	s := svc.subnet(in.Form.Get("SubnetId"))
	if s == nil {
		return nil, api.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", in.Form.Get("SubnetId"))
	}
	maps, err := in.Form.Bool("MapPublicIpOnLaunch.Value")
	switch {
	case !in.Form.Has("MapPublicIpOnLaunch.Value"):
		return nil, api.Refuse("MissingParameter", "The request must contain an attribute of the subnet, such as MapPublicIpOnLaunch.")
	case err != nil:
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	s.mapsPublic = maps
	return []query.Element{query.Bool("return", true)}, nil
}

// groupText is what the name and the description of a security group may be.
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,255}$`)

func (svc *Service) createGroup(in *api.Call) (any, error) {
	get := in.Form.Get
	tags, err := ec2query.TagsOnly(in.Form, "security-group")
	if err != nil {
		return nil, err
	}
	name := get("GroupName")
	switch {
	case !groupText.MatchString(name) || strings.HasPrefix(name, "sg-"):
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter GroupName is invalid. It has 1 to 255 characters of a set and does not start with sg-.", name)
	case !groupText.MatchString(get("GroupDescription")):
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter GroupDescription is invalid. It has 1 to 255 characters of a set.", get("GroupDescription"))
	case cmp.Or(get("VpcId"), svc.id) != svc.id:
		return nil, api.Refuse("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", get("VpcId"))
	case slices.ContainsFunc(svc.groups, func(g SecurityGroup) bool { return strings.EqualFold(g.Name, name) }):
		return nil, api.Refuse("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, svc.id)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	g := SecurityGroup{ID: svc.account.NewID("sg"), Name: name, description: get("GroupDescription"), tags: tags}
	svc.groups = append(svc.groups, g)
	return []query.Element{query.Text("groupId", g.ID), query.Text("securityGroupArn", ec2query.ARN(svc.account, g.ID)), ec2query.TagSet(g.tags)}, nil
}

// deleteGroup takes a group away that nothing uses. Outside a default VPC only
// its id names it.
func (svc *Service) deleteGroup(in *api.Call) (any, error) {
	id := in.Form.Get("GroupId")
	if id == "" {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter groupId; a group of this VPC cannot be named by groupName.")
	}
	if err := ec2query.WellFormed("sg", []string{id}); err != nil {
		return nil, err
	}
	g, found := svc.group(id)
	used := slices.ContainsFunc(svc.interfaces, func(n *netInterface) bool {
		return slices.ContainsFunc(n.groups, func(o SecurityGroup) bool { return o.ID == id })
	})
	switch {
	case !found:
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	case g.Name == "default":
		return nil, api.Refuse("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", id)
	case used || slices.Contains([]string{svc.groups[1].ID, svc.groups[2].ID}, id): // the cluster's own interfaces have these
		return nil, api.Refuse("DependencyViolation", "resource %s has a dependent object", id)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	svc.groups = slices.DeleteFunc(slices.Clone(svc.groups), func(o SecurityGroup) bool { return o.ID == id })
	return []query.Element{query.Bool("return", true), query.Text("groupId", id)}, nil
}
