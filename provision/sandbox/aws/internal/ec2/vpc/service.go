// Package vpc is the VPC of the account: a private and a public subnet in every
// zone, security groups, and the network interfaces of instances with their
// addresses. It has no routes, no rules of groups, and no IPv6. Start with Service.
package vpc

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is the VPC. Only the private subnets and the cluster's groups carry the
// discovery tags, so that a selector that is too wide shows.
type Service struct {
	account    *api.Account
	id         string
	subnets    []*subnet
	groups     []SecurityGroup
	interfaces []*netInterface
	public     int // public addresses that were ever given out
}

// New has the subnets of these zones and three security groups, with the tags by
// which the cluster's nodes find theirs.
func New(account *api.Account, tags map[string]string, zones []catalog.Zone) *Service {
	name := account.Cluster
	svc := &Service{account: account, id: "vpc-0a11ce0000000c0de"}
	for i, z := range zones {
		private := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i * 64), 0}), 18)
		public := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(192 + i*16), 0}), 20)
		svc.subnets = append(svc.subnets,
			newSubnet(i, z, private, false, api.WithTags(tags, "Name", name+"-private-"+z.Name, "kubernetes.io/role/internal-elb", "1")),
			newSubnet(i, z, public, true, api.WithTags(nil, "Name", name+"-public-"+z.Name, "kubernetes.io/role/elb", "1")))
	}
	svc.groups = []SecurityGroup{
		{"sg-0000000000000aaa1", "default", "default VPC security group", map[string]string{}},
		{"sg-0000000000000bbb2", "eks-cluster-sg-" + name + "-1", "EKS created security group", api.WithTags(tags,
			"Name", "eks-cluster-sg-"+name+"-1", "aws:eks:cluster-name", name, "kubernetes.io/cluster/"+name, "owned")},
		{"sg-0000000000000ccc3", name + "-node", "EKS node security group", api.WithTags(tags, "Name", name+"-node")},
	}
	return svc
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.subnets, out.interfaces, out.groups = api.Clones(svc.subnets), api.Clones(svc.interfaces), slices.Clone(svc.groups)
	for _, s := range out.subnets {
		s.tags = maps.Clone(s.tags)
	}
	for i := range out.groups {
		out.groups[i].tags = maps.Clone(out.groups[i].tags)
	}
	for _, n := range out.interfaces {
		n.tags = maps.Clone(n.tags)
	}
	return &out
}

// ID is that of the VPC.
func (svc *Service) ID() string { return svc.id }

// ClusterGroups are the ids of the security groups of the cluster, which EKS made,
// and of its nodes.
func (svc *Service) ClusterGroups() (cluster, nodes string) {
	return svc.groups[1].ID, svc.groups[2].ID
}

// PrivateSubnets are the ids of the private subnets.
func (svc *Service) PrivateSubnets() []string {
	var out []string
	for _, s := range svc.subnets {
		if !s.public {
			out = append(out, s.id)
		}
	}
	return out
}

// SubnetZone is the zone of a subnet; there is none of an unknown id.
func (svc *Service) SubnetZone(id string) (catalog.Zone, bool) {
	if s := svc.subnet(id); s != nil {
		return s.zone, true
	}
	return catalog.Zone{}, false
}

// PublicSubnet is the id of the subnet that a launch into a zone without a subnet
// gets, "" for none: the default VPC's would be public.
func (svc *Service) PublicSubnet(zone string) string {
	for _, s := range svc.subnets {
		if s.zone.Name == zone && s.public {
			return s.id
		}
	}
	return ""
}

// FreeAddresses are how many addresses a subnet has left.
func (svc *Service) FreeAddresses(subnetID string) int {
	if s := svc.subnet(subnetID); s != nil {
		return s.free
	}
	return 0
}

// SetFreeAddresses makes a subnet have just so many addresses left.
func (svc *Service) SetFreeAddresses(subnetID string, free int) error {
	s := svc.subnet(subnetID)
	if s == nil || free < 0 {
		return fmt.Errorf("setting the free addresses of subnet %q to %d: no such subnet, or below zero", subnetID, free)
	}
	s.free = free
	return nil
}

// HasGroup reports whether there is a security group of an id.
func (svc *Service) HasGroup(id string) bool {
	_, ok := svc.group(id)
	return ok
}

// Tags are the live ones of a subnet, group or interface, nil for an unknown id.
func (svc *Service) Tags(id string) map[string]string {
	if s := svc.subnet(id); s != nil {
		return s.tags
	}
	if g, ok := svc.group(id); ok {
		return g.tags
	}
	if n := svc.netInterface(id); n != nil {
		return n.tags
	}
	return nil
}
