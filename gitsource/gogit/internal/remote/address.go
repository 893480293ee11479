package remote

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/internal/dial"
)

// scpLike matches USER@HOST:PATH, which Git takes for ssh and url.Parse for an error or a
// scheme.
var scpLike = regexp.MustCompile(`^[^@/:\s]+@([^@/:\s]+):`)

// sshUser matches the names of users that need no escape.
var sshUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// ParseURL accepts an https:// address, http:// to a loopback address, or ssh://user@host,
// without other credentials, query or fragment. Its errors, each a gitsource.ErrInvalid, never
// repeat the URL, which may hold a password.
func ParseURL(raw string) (*url.URL, error) {
	if host := scpLike.FindStringSubmatch(raw); host != nil {
		if isAzureDevOps(host[1]) {
			return nil, errAzureDevOps
		}
		return nil, invalid("it is of the form user@host:path; write ssh://git@host/path")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, invalid("it is not of the form https://host/path or ssh://git@host/path")
	}
	// Before all others: its page has addresses with a user, and who mends that would be refused again.
	if isAzureDevOps(u.Hostname()) {
		return nil, errAzureDevOps
	}
	if err := checkParts(u, raw); err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !isLoopback(u.Hostname()) {
			return nil, invalid("plain http is only allowed to this machine (localhost, 127.0.0.1, ::1); use https")
		}
	case "ssh":
		if err := checkSSH(u); err != nil {
			return nil, err
		}
	default:
		return nil, invalid("scheme %q is not supported; use https or ssh", u.Scheme)
	}
	return u, nil
}

// checkParts checks what no address may have, whatever its scheme.
func checkParts(u *url.URL, raw string) error {
	if u.User != nil && u.Scheme != "ssh" {
		return invalid("it holds credentials; put them into the Secret that secretRef names")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return invalid("it must not hold a query or a fragment")
	}
	control := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if strings.ContainsFunc(raw, control) {
		return invalid("it holds white space or control characters")
	}
	if strings.Trim(u.Path, "/") == "" {
		return invalid("it names a host and no repository")
	}
	return nil
}

// errAzureDevOps is the error for every address of Azure DevOps.
var errAzureDevOps = invalid("Azure DevOps is not supported here, because its server requires Git's capability multi_ack; " +
	"let Flux fetch it, by a GitRepository with provider: azure, and name that in spec.sourceRef (docs/howto/flux-source.md)")

// isAzureDevOps reports whether a host is one of Azure DevOps, which sends nothing to a client without multi_ack. go-git does not
// implement that.
func isAzureDevOps(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "dev.azure.com" || host == "ssh.dev.azure.com" || strings.HasSuffix(host, ".visualstudio.com")
}

// checkSSH checks what only an address of ssh has.
func checkSSH(u *url.URL) error {
	if _, has := u.User.Password(); has {
		return invalid("it holds a password; put the private key and its passphrase into the Secret that secretRef names")
	}
	if !sshUser.MatchString(u.User.Username()) {
		return invalid("it names no user to log in as; write ssh://git@host/path, or another user where the server has one")
	}
	if p, err := strconv.ParseUint(port(u), 10, 16); u.Hostname() == "" || err != nil || p == 0 {
		return invalid("its host or port is not valid")
	}
	if strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("its path holds control characters")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("reading the repository's URL: %w: %w", gitsource.ErrInvalid, fmt.Errorf(format, args...))
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// checkAddress is called with the address that is about to be connected to, after name
// resolution, so that no name can point a fetch at the metadata service of this
// machine, nor plain http away from it.
func checkAddress(address string, onlyLoopback bool) error {
	a, err := dial.Check(address)
	if err != nil {
		return err
	}
	if onlyLoopback && !a.IsLoopback() {
		return fmt.Errorf("plain http resolved to %s, which is not this machine", a)
	}
	return nil
}
