package vpc

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/poolwright/poolwright/provision/catalog"
)

type subnet struct {
	id     string
	zone   catalog.Zone
	cidr   netip.Prefix
	public bool
	// mapsPublic: instances get a public address unless the launch sets otherwise.
	mapsPublic bool
	free       int // addresses left
	next       int // host number of the next instance
	// wrapped: every address was given out once, so the next may be in use.
	wrapped bool
	tags    map[string]string
}

// SecurityGroup is one of the VPC.
type SecurityGroup struct {
	ID, Name    string
	description string
	tags        map[string]string
}

// reservedAddresses are the ones AWS keeps in every subnet: the first four and
// the last.
const reservedAddresses = 5

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

func (svc *Service) subnet(id string) *subnet {
	for _, s := range svc.subnets {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (svc *Service) group(id string) (SecurityGroup, bool) {
	for _, g := range svc.groups {
		if g.ID == id {
			return g, true
		}
	}
	return SecurityGroup{}, false
}

// named are the groups of these ids, or the VPC's own where none is given.
func (svc *Service) named(ids []string) []SecurityGroup {
	if len(ids) == 0 {
		return []SecurityGroup{svc.groups[0]}
	}
	var out []SecurityGroup
	for _, id := range ids {
		if g, ok := svc.group(id); ok {
			out = append(out, g)
		}
	}
	return out
}

// take hands out the next address of an instance that needs n; the caller has made sure
// that they are free. As in a VPC an address comes back late: only once all the others
// had their turn.
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
