package vpc

import (
	"net/netip"
	"testing"

	"github.com/poolwright/poolwright/provision/catalog"
)

func TestAddressesGoRoundPastThoseInUse(t *testing.T) {
	s := newSubnet(0, catalog.Zone{}, netip.MustParsePrefix("10.9.0.0/28"), false, nil)
	if s.free != 11 {
		t.Fatalf("a /28 has %d free addresses, want 11", s.free)
	}
	used := map[netip.Addr]bool{}
	inUse := func(a netip.Addr) bool { return used[a] }
	for range 11 {
		a := s.take(1, inUse)
		if used[a] || !s.cidr.Contains(a) {
			t.Fatalf("address %s", a)
		}
		used[a] = true
	}
	if s.free != 0 || used[netip.MustParseAddr("10.9.0.3")] || used[netip.MustParseAddr("10.9.0.15")] {
		t.Errorf("%d free; given out: %v", s.free, used)
	}
	back := netip.MustParseAddr("10.9.0.9")
	delete(used, back)
	s.free++
	if a := s.take(1, inUse); a != back {
		t.Errorf("the only free address is %s, got %s", back, a)
	}
}
