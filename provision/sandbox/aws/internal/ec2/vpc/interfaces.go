package vpc

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) netInterface(id string) *netInterface {
	for _, n := range svc.interfaces {
		if n.id == id {
			return n
		}
	}
	return nil
}

// interfaceElements is what DescribeInstances and DescribeNetworkInterfaces both show.
func (svc *Service) interfaceElements(n *netInterface) []query.Element {
	var groups []query.Element
	for _, g := range n.groups {
		groups = append(groups, query.Group("item", query.Text("groupId", g.ID), query.Text("groupName", g.Name)))
	}
	kids := []query.Element{
		query.Text("networkInterfaceId", n.id), query.Text("subnetId", n.subnet), query.Text("vpcId", svc.id),
		query.Text("ownerId", svc.account.ID), query.Text("interfaceType", n.kind), query.Text("status", "in-use"), query.Text("description", ""),
		query.Bool("sourceDestCheck", true), query.List("groupSet", "item", groups),
	}
	if n.address != "" {
		kids = append(kids, query.Text("privateIpAddress", n.address), query.Text("privateDnsName", svc.PrivateName(n.address)),
			query.List("privateIpAddressesSet", "item", []query.Element{query.Group("item", query.Text("privateIpAddress", n.address),
				query.Text("privateDnsName", svc.PrivateName(n.address)), query.Bool("primary", true), svc.association(n))}), svc.association(n))
	}
	if c := n.settings.Sub("ConnectionTrackingSpecification"); len(c.Names()) > 0 {
		kids = append(kids, query.Group("connectionTrackingConfiguration", query.Opt("tcpEstablishedTimeout", c.Get("TcpEstablishedTimeout")),
			query.Opt("udpStreamTimeout", c.Get("UdpStreamTimeout")), query.Opt("udpTimeout", c.Get("UdpTimeout"))))
	}
	return kids
}

// association shows the public address of an interface, if it has one.
func (svc *Service) association(n *netInterface) query.Element {
	if n.public == "" {
		return query.Element{}
	}
	return query.Group("association", query.Text("publicIp", n.public), query.Text("publicDnsName", publicName(svc.account.Region, n.public)), query.Text("ipOwnerId", "amazon"))
}

// attachment shows where an interface is plugged in.
func (n *netInterface) attachment(more ...query.Element) query.Element {
	return query.Group("attachment", append([]query.Element{query.Text("attachmentId", "eni-attach-"+n.id[len("eni-"):]),
		query.Text("deviceIndex", cmp.Or(n.settings.Get("DeviceIndex"), "0")), query.Text("networkCardIndex", cmp.Or(n.settings.Get("NetworkCardIndex"), "0")),
		query.Text("status", "attached"), query.Text("attachTime", ec2query.Stamp(n.created)), query.Bool("deleteOnTermination", true)}, more...)...)
}

func (svc *Service) describeInterfaces(in *api.Call) (any, error) {
	ids := in.Form.List("NetworkInterfaceId")
	if err := ec2query.WellFormed("eni", ids); err != nil {
		return nil, err
	}
	if len(ids) > 0 && in.Form.Has("MaxResults") {
		return nil, api.Refuse("InvalidParameterCombination", "The parameter networkInterfaceIdSet cannot be used with the parameter maxResults")
	}
	if id := ec2query.Missing(ids, func(id string) bool { return svc.netInterface(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
	}
	zone := func(n *netInterface) string { return svc.subnet(n.subnet).zone.Name }
	groups := func(n *netInterface) (out []string) {
		for _, g := range n.groups {
			out = append(out, g.ID)
		}
		return out
	}
	found, err := ec2query.Choose(in, svc.interfaces, ec2query.Attributes[*netInterface]{
		"network-interface-id":   ec2query.One(func(n *netInterface) string { return n.id }),
		"attachment.instance-id": ec2query.One(func(n *netInterface) string { return n.instance }),
		"attachment.status":      ec2query.One(func(*netInterface) string { return "attached" }),
		"subnet-id":              ec2query.One(func(n *netInterface) string { return n.subnet }),
		"vpc-id":                 ec2query.One(func(*netInterface) string { return svc.id }),
		"availability-zone":      ec2query.One(zone),
		"group-id":               groups,
		"private-ip-address":     ec2query.One(func(n *netInterface) string { return n.address }),
		"interface-type":         ec2query.One(func(n *netInterface) string { return n.kind }),
		"status":                 ec2query.One(func(*netInterface) string { return "in-use" }),
	}, func(n *netInterface) map[string]string { return n.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, n := range found {
		if len(ids) > 0 && !slices.Contains(ids, n.id) {
			continue
		}
		kids := append(svc.interfaceElements(n), query.Text("availabilityZone", zone(n)), query.Bool("requesterManaged", false), ec2query.TagSet(n.tags),
			n.attachment(query.Text("instanceId", n.instance), query.Text("instanceOwnerId", svc.account.ID)))
		rows = append(rows, api.NewRow(n.id, query.Group("item", kids...)))
	}
	return ec2query.Page(in, "networkInterfaceSet", rows, 5, 1000)
}

// ByInstance shows the network interfaces of instances as DescribeInstances does,
// with the public address of each.
func (svc *Service) ByInstance() func(instance string) (elements []query.Element, publicIP string) {
	all := map[string][]*netInterface{}
	for _, n := range svc.interfaces {
		all[n.instance] = append(all[n.instance], n)
	}
	return func(instance string) (elements []query.Element, publicIP string) {
		for _, n := range all[instance] {
			elements = append(elements, query.Group("item", append(svc.interfaceElements(n), n.attachment())...))
			publicIP = cmp.Or(publicIP, n.public)
		}
		return elements, publicIP
	}
}

// PublicName is the DNS name of a public address, "" for none.
func (svc *Service) PublicName(address string) string { return publicName(svc.account.Region, address) }
