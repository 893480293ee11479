package remote

import (
	"net/url"
	"slices"
)

// Credentials authenticate to the server.
type Credentials struct {
	// Username may be empty when Password is a token. For ssh it is in the URL.
	Username string
	// Password is a password or an access token, for ssh the passphrase of Identity.
	Password string
	// BearerToken is sent in place of a user name and a password (RFC 6750), by https only.
	BearerToken string
	// Identity is the private key for ssh, in PEM.
	Identity []byte
	// KnownHosts are the lines of a known_hosts file with the host key of the ssh server.
	KnownHosts []byte
	// CABundle holds PEM certificates that are trusted beside the system's.
	CABundle []byte
	// Certificate and PrivateKey, in PEM, are those of the client, for servers that require
	// one of their own in TLS. Both or neither are set.
	Certificate, PrivateKey []byte
	// Proxy is the address of a proxy by which the server is reached by https, with the user name
	// and the password that it requires; nil leaves it to the environment.
	Proxy *url.URL
}

// secrets are what must not appear in any message.
func (c Credentials) secrets() []string {
	out := []string{c.Password, c.BearerToken}
	if c.Proxy != nil {
		password, _ := c.Proxy.User.Password()
		out = append(out, password, url.UserPassword("", password).String()[1:]) // as it stands in an address, too
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// String never shows the values.
func (c Credentials) String() string { return "credentials (hidden)" }

// GoString never shows the values.
func (c Credentials) GoString() string { return c.String() }
