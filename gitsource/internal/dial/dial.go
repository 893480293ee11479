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
	metadata := netip.MustParsePrefix("fd00:ec2::/32")
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || metadata.Contains(a) {
		return netip.Addr{}, ErrForbidden
	}
	return a, nil
}
