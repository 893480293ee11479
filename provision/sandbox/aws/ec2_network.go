package aws

import (
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func describeSubnets(in *call) (any, error) {
	asked := in.Form.List("SubnetId")
	if id := missing(asked, func(id string) bool { return in.st.network.subnet(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
	}
	found, err := choose(in, in.st.network.subnets, attributes[*subnet]{
		"subnet-id":                  one(func(s *subnet) string { return s.id }),
		"vpc-id":                     one(func(*subnet) string { return in.st.network.vpc }),
		"availability-zone":          one(func(s *subnet) string { return s.zone.Name }),
		"availability-zone-id":       one(func(s *subnet) string { return s.zone.ID }),
		"cidr-block":                 one(func(s *subnet) string { return s.cidr.String() }),
		"state":                      one(func(*subnet) string { return "available" }),
		"available-ip-address-count": one(func(s *subnet) string { return strconv.Itoa(s.free) }),
		"map-public-ip-on-launch":    one(func(s *subnet) string { return strconv.FormatBool(s.mapsPublic) }),
	}, func(s *subnet) map[string]string { return s.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, s := range found {
		if len(asked) > 0 && !slices.Contains(asked, s.id) {
			continue
		}
		rows = append(rows, api.NewRow(s.id, query.Group("item",
			query.Text("subnetId", s.id), query.Text("vpcId", in.st.network.vpc), query.Text("ownerId", in.cloud.account.ID),
			query.Text("state", "available"), query.Text("cidrBlock", s.cidr.String()),
			query.Text("availabilityZone", s.zone.Name), query.Text("availabilityZoneId", s.zone.ID),
			query.Int("availableIpAddressCount", s.free), query.Bool("mapPublicIpOnLaunch", s.mapsPublic),
			query.Bool("defaultForAz", false), query.Bool("assignIpv6AddressOnCreation", false), tagSet(s.tags))))
	}
	return in.page("subnetSet", rows, pageLimits{5, 1000})
}

func describeSecurityGroups(in *call) (any, error) {
	ids, names := in.Form.List("GroupId"), in.Form.List("GroupName")
	if err := wellFormed("sg", ids); err != nil {
		return nil, err
	}
	groups := in.st.network.groups
	byName := func(name string) bool {
		return slices.ContainsFunc(groups, func(g securityGroup) bool { return g.name == name })
	}
	if id := missing(ids, func(id string) bool { _, ok := in.st.network.group(id); return ok }); id != "" {
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	}
	if name := missing(names, byName); name != "" {
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", name)
	}
	found, err := choose(in, groups, attributes[securityGroup]{
		"group-id":    one(func(g securityGroup) string { return g.id }),
		"group-name":  one(func(g securityGroup) string { return g.name }),
		"description": one(func(g securityGroup) string { return g.description }),
		"vpc-id":      one(func(securityGroup) string { return in.st.network.vpc }),
		"owner-id":    one(func(securityGroup) string { return in.cloud.account.ID }),
	}, func(g securityGroup) map[string]string { return g.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, g := range found {
		if len(ids) > 0 && !slices.Contains(ids, g.id) || len(names) > 0 && !slices.Contains(names, g.name) {
			continue
		}
		rows = append(rows, api.NewRow(g.id, query.Group("item",
			query.Text("ownerId", in.cloud.account.ID), query.Text("groupId", g.id), query.Text("groupName", g.name),
			query.Text("groupDescription", g.description), query.Text("vpcId", in.st.network.vpc), tagSet(g.tags))))
	}
	return in.page("securityGroupInfo", rows, pageLimits{5, 1000})
}
