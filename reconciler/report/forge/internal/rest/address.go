package rest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Address checks a forge's address: https, or http to this machine; without
// credentials, query and fragment. The result ends without a slash.
func Address(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("reading the forge's address: it is no URL") // the parser's error repeats it, with credentials
	}
	switch {
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("reading the forge's address: it has to begin with https:// and a host, but has scheme %q and host %q", u.Scheme, u.Host)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("reading the forge's address: credentials, a query or a fragment are not for an address; give the token by itself")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", fmt.Errorf("reading the forge's address: http:// would send the token to %q for all to read: use https://", u.Hostname())
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// name is what forges allow for owners and repositories.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Repository splits "owner/name".
func Repository(full string) (owner, repository string, err error) {
	owner, repository, _ = strings.Cut(full, "/")
	if !name.MatchString(owner) || !name.MatchString(strings.TrimPrefix(repository, ".")) {
		return "", "", fmt.Errorf("reading the repository's name: %q is not of the form owner/name", full)
	}
	return owner, repository, nil
}

var hash = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// SHA is a commit's hash in lower case, or empty if it is none. It is safe in
// a path.
func SHA(s string) string {
	s = strings.ToLower(s)
	if !hash.MatchString(s) {
		return ""
	}
	return s
}
