package aws

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// network is the VPC: a private and a public subnet in every zone, and three
// security groups. Only the private subnets and the cluster's groups carry the
// discovery tags, so that a selector that is too wide shows.
type network struct {
	vpc     string
	subnets []*subnet
	groups  []securityGroup
}

type subnet struct {
	id     string
	zone   catalog.Zone
	cidr   netip.Prefix
	public bool
	// mapsPublic: instances get a public address unless the launch says otherwise.
	mapsPublic bool
	free       int // addresses left
	next       int // host number of the next instance
	// wrapped: every address was given out once, so the next may be in use.
	wrapped bool
	tags    map[string]string
}

type securityGroup struct {
	id, name, description string
	tags                  map[string]string
}

// reservedAddresses are the ones AWS keeps in every subnet: the first four and
// the last.
const reservedAddresses = 5

func newNetwork(cfg Config, zones []catalog.Zone) network {
	name := cfg.Cluster.Name
	n := network{vpc: "vpc-0a11ce0000000c0de"}
	for i, z := range zones {
		private := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i * 64), 0}), 18)
		public := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(192 + i*16), 0}), 20)
		n.subnets = append(n.subnets,
			newSubnet(i, z, private, false, api.WithTags(cfg.Tags, "Name", name+"-private-"+z.Name, "kubernetes.io/role/internal-elb", "1")),
			newSubnet(i, z, public, true, api.WithTags(nil, "Name", name+"-public-"+z.Name, "kubernetes.io/role/elb", "1")))
	}
	n.groups = []securityGroup{
		{"sg-0000000000000aaa1", "default", "default VPC security group", map[string]string{}},
		{"sg-0000000000000bbb2", "eks-cluster-sg-" + name + "-1", "EKS created security group", api.WithTags(cfg.Tags,
			"Name", "eks-cluster-sg-"+name+"-1", "aws:eks:cluster-name", name, "kubernetes.io/cluster/"+name, "owned")},
		{"sg-0000000000000ccc3", name + "-node", "EKS node security group", api.WithTags(cfg.Tags, "Name", name+"-node")},
	}
	return n
}

func newSubnet(i int, z catalog.Zone, cidr netip.Prefix, public bool, tags map[string]string) *subnet {
	kind := "a"
	if public {
		kind = "b"
	}
	return &subnet{
		id: fmt.Sprintf("subnet-0%s%015x", kind, i+1), zone: z, cidr: cidr, public: public, mapsPublic: public, tags: tags,
		free: 1<<(32-cidr.Bits()) - reservedAddresses, next: reservedAddresses - 1,
	}
}

func (n network) clone() network {
	n.subnets = api.Clones(n.subnets)
	for _, s := range n.subnets {
		s.tags = maps.Clone(s.tags)
	}
	n.groups = slices.Clone(n.groups)
	for i := range n.groups {
		n.groups[i].tags = maps.Clone(n.groups[i].tags)
	}
	return n
}

func (n network) subnet(id string) *subnet {
	for _, s := range n.subnets {
		if s.id == id {
			return s
		}
	}
	return nil
}

// inZone is the subnet that a launch into a zone without a subnet gets: the
// default VPC's would be public.
func (n network) inZone(zone string) *subnet {
	for _, s := range n.subnets {
		if s.zone.Name == zone && s.public {
			return s
		}
	}
	return nil
}

func (n network) group(id string) (securityGroup, bool) {
	for _, g := range n.groups {
		if g.id == id {
			return g, true
		}
	}
	return securityGroup{}, false
}

// named are the groups of these ids, or the VPC's own where none is given.
func (n network) named(ids []string) []securityGroup {
	if len(ids) == 0 {
		return []securityGroup{n.groups[0]}
	}
	var out []securityGroup
	for _, id := range ids {
		if g, ok := n.group(id); ok {
			out = append(out, g)
		}
	}
	return out
}

// take hands out the next address of an instance that needs n; the caller has
// seen that they are free. As in
// a VPC an address comes back late: only once all the others had their turn.
func (s *subnet) take(n int, used func(netip.Addr) bool) netip.Addr {
	s.free -= n
	for {
		size := 1 << (32 - s.cidr.Bits())
		host := s.next
		if s.next++; s.next >= size-1 {
			s.next, s.wrapped = reservedAddresses-1, true
		}
		base := s.cidr.Addr().As4()
		var out [4]byte
		binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(base[:])+uint32(host))
		if a := netip.AddrFrom4(out); !s.wrapped || !used(a) {
			return a
		}
	}
}
