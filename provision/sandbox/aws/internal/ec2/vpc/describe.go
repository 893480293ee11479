package vpc

import (
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) describeSubnets(in *api.Call) (any, error) {
	requested := in.Form.List("SubnetId")
	if id := ec2query.Missing(requested, func(id string) bool { return svc.subnet(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
	}
	found, err := ec2query.Choose(in, svc.subnets, ec2query.Attributes[*subnet]{
		"subnet-id":                  ec2query.One(func(s *subnet) string { return s.id }),
		"vpc-id":                     ec2query.One(func(*subnet) string { return svc.id }),
		"availability-zone":          ec2query.One(func(s *subnet) string { return s.zone.Name }),
		"availability-zone-id":       ec2query.One(func(s *subnet) string { return s.zone.ID }),
		"cidr-block":                 ec2query.One(func(s *subnet) string { return s.cidr.String() }),
		"state":                      ec2query.One(func(*subnet) string { return "available" }),
		"available-ip-address-count": ec2query.One(func(s *subnet) string { return strconv.Itoa(s.free) }),
		"map-public-ip-on-launch":    ec2query.One(func(s *subnet) string { return strconv.FormatBool(s.mapsPublic) }),
	}, func(s *subnet) map[string]string { return s.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, s := range found {
		if len(requested) > 0 && !slices.Contains(requested, s.id) {
			continue
		}
		rows = append(rows, api.NewRow(s.id, query.Group("item",
			query.Text("subnetId", s.id), query.Text("vpcId", svc.id), query.Text("ownerId", svc.account.ID),
			query.Text("state", "available"), query.Text("cidrBlock", s.cidr.String()),
			query.Text("availabilityZone", s.zone.Name), query.Text("availabilityZoneId", s.zone.ID),
			query.Int("availableIpAddressCount", s.free), query.Bool("mapPublicIpOnLaunch", s.mapsPublic),
			query.Bool("defaultForAz", false), query.Bool("assignIpv6AddressOnCreation", false), ec2query.TagSet(s.tags))))
	}
	return ec2query.Page(in, "subnetSet", rows, 5, 1000)
}

func (svc *Service) describeSecurityGroups(in *api.Call) (any, error) {
	ids, names := in.Form.List("GroupId"), in.Form.List("GroupName")
	if err := ec2query.WellFormed("sg", ids); err != nil {
		return nil, err
	}
	groups := svc.groups
	byName := func(name string) bool {
		return slices.ContainsFunc(groups, func(g SecurityGroup) bool { return g.Name == name })
	}
	if id := ec2query.Missing(ids, func(id string) bool { _, ok := svc.group(id); return ok }); id != "" {
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	}
	if name := ec2query.Missing(names, byName); name != "" {
		return nil, api.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", name)
	}
	found, err := ec2query.Choose(in, groups, ec2query.Attributes[SecurityGroup]{
		"group-id":    ec2query.One(func(g SecurityGroup) string { return g.ID }),
		"group-name":  ec2query.One(func(g SecurityGroup) string { return g.Name }),
		"description": ec2query.One(func(g SecurityGroup) string { return g.description }),
		"vpc-id":      ec2query.One(func(SecurityGroup) string { return svc.id }),
		"owner-id":    ec2query.One(func(SecurityGroup) string { return svc.account.ID }),
	}, func(g SecurityGroup) map[string]string { return g.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, g := range found {
		if len(ids) > 0 && !slices.Contains(ids, g.ID) || len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		rows = append(rows, api.NewRow(g.ID, query.Group("item",
			query.Text("ownerId", svc.account.ID), query.Text("groupId", g.ID), query.Text("groupName", g.Name),
			query.Text("groupDescription", g.description), query.Text("vpcId", svc.id), ec2query.TagSet(g.tags))))
	}
	return ec2query.Page(in, "securityGroupInfo", rows, 5, 1000)
}
