package remote

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
)

// ParseURL accepts an https:// address, or http:// to a loopback address, without
// credentials, query or fragment. Its errors, each a gitsource.ErrInvalid, never repeat
// the URL, which may hold a password.
func ParseURL(raw string) (*url.URL, error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("reading the repository's URL: %w: %w", gitsource.ErrInvalid, fmt.Errorf(format, args...))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, invalid("it is not of the form https://host/path")
	}
	if u.User != nil {
		return nil, invalid("it holds credentials; put them into the Secret that secretRef names")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, invalid("it must not hold a query or a fragment")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, invalid("it holds white space or control characters")
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, invalid("it names a host and no repository")
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !isLoopback(u.Hostname()) {
			return nil, invalid("plain http is only allowed to this machine (localhost, 127.0.0.1, ::1); use https")
		}
	default:
		return nil, invalid("scheme %q is not supported; use https", u.Scheme)
	}
	return u, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// errForbiddenAddress marks a connection that was refused before it was made.
var errForbiddenAddress = errors.New("address is link-local or of an instance metadata service")

// checkAddress is called with the address that is about to be connected to, after name
// resolution, so that no name can point a fetch at the metadata service of this
// machine, nor plain http away from it.
func checkAddress(address string, onlyLoopback bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	a = a.Unmap().WithZone("")
	metadata := netip.MustParsePrefix("fd00:ec2::/32")
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || metadata.Contains(a) {
		return errForbiddenAddress
	}
	if onlyLoopback && !a.IsLoopback() {
		return fmt.Errorf("plain http resolved to %s, which is not this machine", a)
	}
	return nil
}
