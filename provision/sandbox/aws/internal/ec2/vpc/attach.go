package vpc

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// netInterface is an elastic network interface.
type netInterface struct {
	id, instance, kind string
	subnet             string
	address, public    string // IPv4; an interface of EFA alone has none
	groups             []SecurityGroup
	settings           query.Form
	created            time.Time
	tags               map[string]string
}

// interfacesOf makes the network interfaces of an instance; there is always one.
func (svc *Service) interfacesOf(instance string, launched time.Time, s *subnet, data query.Form, tags map[string]string) []*netInterface {
	forms := data.Each("NetworkInterface")
	if len(forms) == 0 {
		forms = []query.Form{data.Only("SecurityGroupId")}
	}
	var out []*netInterface
	for n, f := range forms {
		next := &netInterface{id: ec2query.PartID("eni", instance, n), instance: instance, kind: cmp.Or(f.Get("InterfaceType"), "interface"), subnet: s.id,
			settings: f, created: launched, tags: maps.Clone(tags), groups: svc.named(f.List("SecurityGroupId"))}
		if next.kind != "efa-only" || n == 0 {
			next.address = s.take(addresses(f), svc.addressed).String()
		}
		if wants := f.Get("AssociatePublicIpAddress"); n == 0 && (wants == "true" || wants == "" && s.mapsPublic && len(forms) == 1) {
			next.public = svc.publicAddress()
		}
		out = append(out, next)
		svc.interfaces = append(svc.interfaces, next) // so that the next one gets another address
	}
	return out
}

// addressed reports whether an interface has that address.
func (svc *Service) addressed(a netip.Addr) bool {
	return slices.ContainsFunc(svc.interfaces, func(n *netInterface) bool { return n.address == a.String() })
}

// publicAddress is the next one, of the range that is for tests of networks.
func (svc *Service) publicAddress() string {
	n := svc.public % (1 << 17)
	svc.public++
	return netip.AddrFrom4([4]byte{198, 18 + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// publicName is the DNS name of a public address, "" for none.
func publicName(region, address string) string {
	if address == "" {
		return ""
	}
	b := netip.MustParseAddr(address).As4()
	zone := region + ".compute"
	if region == "us-east-1" {
		zone = "compute-1"
	}
	return fmt.Sprintf("ec2-%d-%d-%d-%d.%s.amazonaws.com", b[0], b[1], b[2], b[3], zone)
}

// addressesOf counts the IPv4 addresses that a network interface takes from its
// subnet: its own if it has IP, secondary ones, and sixteen for a prefix.
func addresses(f query.Form) int {
	n := 0
	if f.Get("InterfaceType") != "efa-only" {
		n = 1
	}
	secondary, _, _ := f.Int("SecondaryPrivateIpAddressCount") // checked with the template
	prefixes, _, _ := f.Int("Ipv4PrefixCount")
	return n + max(secondary, 0) + 16*max(prefixes, 0)
}

// PrivateName is the private DNS name that EC2 gives by the address.
func (svc *Service) PrivateName(address string) string {
	region, b := svc.account.Region, netip.MustParseAddr(address).As4()
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-%d-%d-%d-%d.%s", b[0], b[1], b[2], b[3], domain)
}

// Attach makes the network interfaces of an instance that is launched, and returns
// the security groups and the address of the first. The subnet has enough free
// addresses.
func (svc *Service) Attach(instance string, launched time.Time, subnetID string, data query.Form, tags map[string]string) (groups []SecurityGroup, address string) {
	first := svc.interfacesOf(instance, launched, svc.subnet(subnetID), data, tags)[0]
	return first.groups, first.address
}

// Detach ends the network interfaces of an instance and gives so many addresses
// back to its subnet.
func (svc *Service) Detach(instance, subnetID string, free int) {
	svc.interfaces = slices.DeleteFunc(svc.interfaces, func(n *netInterface) bool { return n.instance == instance })
	if s := svc.subnet(subnetID); s != nil {
		s.free += free
	}
}

// Addresses counts the IPv4 addresses that an instance of these launch parameters
// takes from its subnet.
func Addresses(data query.Form) int {
	nics := data.Each("NetworkInterface")
	if len(nics) == 0 {
		return 1
	}
	sum := 0
	for _, n := range nics {
		sum += addresses(n)
	}
	return sum
}
