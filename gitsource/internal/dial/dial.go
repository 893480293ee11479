// Package dial has the addresses that no source of files is read from. It refuses none for being
// private or of this machine: servers of Git and of Flux often are. Start reading at Check.
package dial

import (
	"errors"
	"net"
	"net/netip"
)

// ErrForbidden marks a connection that was refused before it was made.
var ErrForbidden = errors.New("address is link-local or of an instance metadata service")

// Check is called with the address, host:port, that is about to be connected to, after name
// resolution, so that no name can point a fetch at the metadata service of this machine. It
// returns the address without its port and zone; for one that is refused the error is ErrForbidden.
func Check(address string) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, err
	}
	a = a.Unmap().WithZone("")
	if forbidden(a) || forbidden(embedded(a)) {
		return netip.Addr{}, ErrForbidden
	}
	return a, nil
}

func forbidden(a netip.Addr) bool {
	metadata := netip.MustParsePrefix("fd00:ec2::/32")
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || metadata.Contains(a)
}

// embedded is the IPv4 address that a gateway of NAT64 or 6to4 sends to for one of IPv6; any other is its own.
func embedded(a netip.Addr) netip.Addr {
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}
