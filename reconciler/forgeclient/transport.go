package forgeclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/fluxcd/pkg/runtime/secrets"
)

// newTransport trusts the system's authorities and ca, and connects to no
// link-local address; over plain HTTP only to this machine. Requests share connections.
func newTransport(loopbackOnly bool, secret string, ca []byte) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("reading Secret %q: the key %s holds no certificate in PEM", secret, secrets.KeyCACert)
		}
		config.RootCAs = roots
	}
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error { return mayConnect(address, loopbackOnly) },
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  20 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}, nil
}

// mayConnect is called with the address that a forge's name was resolved to, so that no
// name leads to the metadata service of this machine, and none sends a token over plain
// http elsewhere. gitsource/gogit has the same rule for Git.
func mayConnect(address string, loopbackOnly bool) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connecting to the forge: %w", err)
	}
	ip := to.Addr().Unmap().WithZone("")
	metadata := netip.MustParsePrefix("fd00:ec2::/32")
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || metadata.Contains(ip):
		return errors.New("the forge's name leads to a link-local address or one of an instance metadata service, which is refused")
	case loopbackOnly && !ip.IsLoopback():
		return errors.New("plain http leads away from this machine, which is refused: use https://")
	}
	return nil
}
