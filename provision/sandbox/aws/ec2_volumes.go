package aws

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (v *volume) state() string {
	if v.instance == "" {
		return "available"
	}
	return "in-use"
}

func (v *volume) kind() string { return cmp.Or(v.settings.Get("VolumeType"), "gp2") }

// performance are operations and MiB per second, where the type has them.
func (v *volume) performance() (iops, throughput string) {
	switch v.kind() {
	case "gp3":
		return cmp.Or(v.settings.Get("Iops"), "3000"), cmp.Or(v.settings.Get("Throughput"), "125")
	case "gp2":
		return strconv.Itoa(min(max(3*v.size, 100), 16000)), ""
	}
	return v.settings.Get("Iops"), ""
}

func (in *call) volumeElement(v *volume) query.Element {
	var attached []query.Element
	if v.instance != "" {
		attached = append(attached, query.Group("item", query.Text("volumeId", v.id), query.Text("instanceId", v.instance), query.Text("device", v.device),
			query.Text("status", "attached"), query.Text("attachTime", stamp(v.created)), query.Bool("deleteOnTermination", v.ends)))
	}
	iops, throughput := v.performance()
	return query.Group("item", query.Text("volumeId", v.id), query.Int("size", v.size), query.Text("snapshotId", v.settings.Get("SnapshotId")),
		query.Text("availabilityZone", v.zone.Name), query.Text("availabilityZoneId", v.zone.ID), query.Text("status", v.state()), query.Text("createTime", stamp(v.created)),
		query.List("attachmentSet", "item", attached), query.Text("volumeType", v.kind()), query.Opt("iops", iops), query.Opt("throughput", throughput),
		query.Opt("volumeInitializationRate", v.settings.Get("VolumeInitializationRate")),
		query.Bool("encrypted", v.settings.Get("Encrypted") == "true"), query.Opt("kmsKeyId", v.settings.Get("KmsKeyId")),
		query.Bool("multiAttachEnabled", false), tagSet(v.tags))
}

func describeVolumes(in *call) (any, error) {
	ids := in.Form.List("VolumeId")
	if err := wellFormed("vol", ids); err != nil {
		return nil, err
	}
	if id := missing(ids, func(id string) bool { return in.st.volume(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
	}
	found, err := choose(in, in.st.volumes, attributes[*volume]{
		"volume-id":              one(func(v *volume) string { return v.id }),
		"status":                 one((*volume).state),
		"volume-type":            one((*volume).kind),
		"size":                   one(func(v *volume) string { return strconv.Itoa(v.size) }),
		"availability-zone":      one(func(v *volume) string { return v.zone.Name }),
		"availability-zone-id":   one(func(v *volume) string { return v.zone.ID }),
		"attachment.instance-id": one(func(v *volume) string { return v.instance }),
		"attachment.device":      one(func(v *volume) string { return v.device }),
		"encrypted":              one(func(v *volume) string { return strconv.FormatBool(v.settings.Get("Encrypted") == "true") }),
		"snapshot-id":            one(func(v *volume) string { return v.settings.Get("SnapshotId") }),
	}, func(v *volume) map[string]string { return v.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, v := range found {
		if len(ids) == 0 || slices.Contains(ids, v.id) {
			rows = append(rows, api.NewRow(v.id, in.volumeElement(v)))
		}
	}
	return in.page("volumeSet", rows, pageLimits{5, 1000})
}

func (st *state) volume(id string) *volume {
	for _, v := range st.volumes {
		if v.id == id {
			return v
		}
	}
	return nil
}

func (st *state) netInterface(id string) *netInterface {
	for _, n := range st.interfaces {
		if n.id == id {
			return n
		}
	}
	return nil
}

// interfaceElements is what DescribeInstances and DescribeNetworkInterfaces both show.
func (in *call) interfaceElements(n *netInterface) []query.Element {
	var groups []query.Element
	for _, g := range n.groups {
		groups = append(groups, query.Group("item", query.Text("groupId", g.id), query.Text("groupName", g.name)))
	}
	kids := []query.Element{
		query.Text("networkInterfaceId", n.id), query.Text("subnetId", n.subnet), query.Text("vpcId", in.st.network.vpc),
		query.Text("ownerId", in.cloud.account.ID), query.Text("interfaceType", n.kind), query.Text("status", "in-use"), query.Text("description", ""),
		query.Bool("sourceDestCheck", true), query.List("groupSet", "item", groups),
	}
	if n.address != "" {
		kids = append(kids, query.Text("privateIpAddress", n.address), query.Text("privateDnsName", in.cloud.privateName(n.address)),
			query.List("privateIpAddressesSet", "item", []query.Element{query.Group("item", query.Text("privateIpAddress", n.address),
				query.Text("privateDnsName", in.cloud.privateName(n.address)), query.Bool("primary", true), in.association(n))}), in.association(n))
	}
	if c := n.settings.Sub("ConnectionTrackingSpecification"); len(c.Names()) > 0 {
		kids = append(kids, query.Group("connectionTrackingConfiguration", query.Opt("tcpEstablishedTimeout", c.Get("TcpEstablishedTimeout")),
			query.Opt("udpStreamTimeout", c.Get("UdpStreamTimeout")), query.Opt("udpTimeout", c.Get("UdpTimeout"))))
	}
	return kids
}

// association shows the public address of an interface, if it has one.
func (in *call) association(n *netInterface) query.Element {
	if n.public == "" {
		return query.Element{}
	}
	return query.Group("association", query.Text("publicIp", n.public), query.Text("publicDnsName", publicName(in.cloud.account.Region, n.public)), query.Text("ipOwnerId", "amazon"))
}

// attachment shows where an interface is plugged in.
func (n *netInterface) attachment(more ...query.Element) query.Element {
	return query.Group("attachment", append([]query.Element{query.Text("attachmentId", "eni-attach-"+n.id[len("eni-"):]),
		query.Text("deviceIndex", cmp.Or(n.settings.Get("DeviceIndex"), "0")), query.Text("networkCardIndex", cmp.Or(n.settings.Get("NetworkCardIndex"), "0")),
		query.Text("status", "attached"), query.Text("attachTime", stamp(n.created)), query.Bool("deleteOnTermination", true)}, more...)...)
}

func describeInterfaces(in *call) (any, error) {
	ids := in.Form.List("NetworkInterfaceId")
	if err := wellFormed("eni", ids); err != nil {
		return nil, err
	}
	if id := missing(ids, func(id string) bool { return in.st.netInterface(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
	}
	zone := func(n *netInterface) string { return in.st.network.subnet(n.subnet).zone.Name }
	groups := func(n *netInterface) (out []string) {
		for _, g := range n.groups {
			out = append(out, g.id)
		}
		return out
	}
	found, err := choose(in, in.st.interfaces, attributes[*netInterface]{
		"network-interface-id":   one(func(n *netInterface) string { return n.id }),
		"attachment.instance-id": one(func(n *netInterface) string { return n.instance }),
		"attachment.status":      one(func(*netInterface) string { return "attached" }),
		"subnet-id":              one(func(n *netInterface) string { return n.subnet }),
		"vpc-id":                 one(func(*netInterface) string { return in.st.network.vpc }),
		"availability-zone":      one(zone),
		"group-id":               groups,
		"private-ip-address":     one(func(n *netInterface) string { return n.address }),
		"interface-type":         one(func(n *netInterface) string { return n.kind }),
		"status":                 one(func(*netInterface) string { return "in-use" }),
	}, func(n *netInterface) map[string]string { return n.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, n := range found {
		if len(ids) > 0 && !slices.Contains(ids, n.id) {
			continue
		}
		kids := append(in.interfaceElements(n), query.Text("availabilityZone", zone(n)), query.Bool("requesterManaged", false), tagSet(n.tags),
			n.attachment(query.Text("instanceId", n.instance), query.Text("instanceOwnerId", in.cloud.account.ID)))
		rows = append(rows, api.NewRow(n.id, query.Group("item", kids...)))
	}
	return in.page("networkInterfaceSet", rows, pageLimits{5, 1000})
}
