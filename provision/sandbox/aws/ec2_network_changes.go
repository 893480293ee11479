package aws

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func networkOperations() map[string]operation {
	filters := []string{"Filter.#.Name", "Filter.#.Value.#"}
	return map[string]operation{
		"DescribeAvailabilityZones": {params: append(filters, "ZoneName.#", "ZoneId.#", "AllAvailabilityZones"), read: true, run: describeZones},
		"DescribeInstanceAttribute": {params: []string{"InstanceId", "Attribute"}, read: true, run: describeInstanceAttribute},
		"ModifySubnetAttribute":     {params: []string{"SubnetId", "MapPublicIpOnLaunch.Value"}, run: modifySubnet},
		"CreateSecurityGroup": {params: []string{"GroupName", "GroupDescription", "VpcId",
			"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}, run: createGroup},
		"DeleteSecurityGroup": {params: []string{"GroupId", "GroupName"}, run: deleteGroup},
	}
}

// describeZones lists the region's zones; there are no local ones.
func describeZones(in *call) (any, error) {
	names, ids := in.Form.List("ZoneName"), in.Form.List("ZoneId")
	if name := missing(append(slices.Clone(names), ids...), func(name string) bool { _, ok := in.cloud.offers.zone(name); return ok }); name != "" {
		return nil, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", name)
	}
	region := in.cloud.account.Region
	found, err := choose(in, in.cloud.offers.zones, attributes[catalog.Zone]{
		"zone-name":     one(func(z catalog.Zone) string { return z.Name }),
		"zone-id":       one(func(z catalog.Zone) string { return z.ID }),
		"zone-type":     one(func(catalog.Zone) string { return "availability-zone" }),
		"region-name":   one(func(catalog.Zone) string { return region }),
		"state":         one(func(catalog.Zone) string { return "available" }),
		"opt-in-status": one(func(catalog.Zone) string { return "opt-in-not-required" }),
	}, nil)
	if err != nil {
		return nil, err
	}
	var rows []query.Element
	for _, z := range found {
		if len(names) > 0 && !slices.Contains(names, z.Name) || len(ids) > 0 && !slices.Contains(ids, z.ID) {
			continue
		}
		rows = append(rows, query.Group("item", query.Text("zoneName", z.Name), query.Text("zoneId", z.ID), query.Text("zoneType", "availability-zone"),
			query.Text("zoneState", "available"), query.Text("regionName", region), query.Text("groupName", region+"-zg-1"),
			query.Text("networkBorderGroup", region), query.Text("optInStatus", "opt-in-not-required"), query.List("messageSet", "item", nil)))
	}
	return []query.Element{query.List("availabilityZoneInfo", "item", rows)}, nil
}

// describeInstanceAttribute shows one setting of an instance. User data is as it
// was launched with.
func describeInstanceAttribute(in *call) (any, error) {
	id := in.Form.Get("InstanceId")
	if err := wellFormed("i", []string{id}); err != nil {
		return nil, err
	}
	i := in.st.instance(id)
	if i == nil {
		return nil, api.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	var value string
	name := in.Form.Get("Attribute")
	switch name {
	case "instanceType":
		value = i.Type
	case "userData":
		value = base64.StdEncoding.EncodeToString([]byte(i.UserData))
	case "rootDeviceName":
		value = rootDevice
	case "instanceInitiatedShutdownBehavior":
		value = "stop"
	case "disableApiTermination", "disableApiStop":
		value = "false"
	case "ebsOptimized":
		value = strconv.FormatBool(i.kind.Storage.EBSOptimized == "default")
	case "enaSupport", "sourceDestCheck":
		value = "true"
	default:
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter attribute is invalid or not played.", name)
	}
	return []query.Element{query.Text("instanceId", i.ID), query.Group(name, query.Opt("value", value))}, nil
}

func modifySubnet(in *call) (any, error) {
	s := in.st.network.subnet(in.Form.Get("SubnetId"))
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

func createGroup(in *call) (any, error) {
	get := in.Form.Get
	tags, err := tagsOnly(in.Form, "security-group")
	if err != nil {
		return nil, err
	}
	name := get("GroupName")
	switch {
	case len(name) > 255 || len(name) > 3 && name[:3] == "sg-":
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter GroupName is invalid. It has 1 to 255 characters and does not start with sg-.", name)
	case cmp.Or(get("VpcId"), in.st.network.vpc) != in.st.network.vpc:
		return nil, api.Refuse("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", get("VpcId"))
	case slices.ContainsFunc(in.st.network.groups, func(g securityGroup) bool { return g.name == name }):
		return nil, api.Refuse("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, in.st.network.vpc)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	g := securityGroup{id: in.cloud.account.NewID("sg"), name: name, description: get("GroupDescription"), tags: tags}
	in.st.network.groups = append(in.st.network.groups, g)
	return []query.Element{query.Text("groupId", g.id), query.Text("securityGroupArn", in.cloud.ec2ARN(g.id)), tagSet(g.tags)}, nil
}

// deleteGroup takes a group away that nothing uses. Outside a default VPC only
// its id names it.
func deleteGroup(in *call) (any, error) {
	id := in.Form.Get("GroupId")
	if id == "" {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter groupId; a group of this VPC cannot be named by groupName.")
	}
	if err := wellFormed("sg", []string{id}); err != nil {
		return nil, err
	}
	g, found := in.st.network.group(id)
	used := slices.ContainsFunc(in.st.interfaces, func(n *netInterface) bool {
		return slices.ContainsFunc(n.groups, func(o securityGroup) bool { return o.id == id })
	})
	switch {
	case !found:
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	case g.name == "default":
		return nil, api.Refuse("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", id)
	case used || slices.Contains([]string{in.st.network.groups[1].id, in.st.network.groups[2].id}, id): // the cluster's own interfaces have these
		return nil, api.Refuse("DependencyViolation", "resource %s has a dependent object", id)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	in.st.network.groups = slices.DeleteFunc(slices.Clone(in.st.network.groups), func(o securityGroup) bool { return o.id == id })
	return []query.Element{query.Bool("return", true), query.Text("groupId", id)}, nil
}
