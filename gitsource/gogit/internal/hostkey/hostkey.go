// Package hostkey verifies the host keys of SSH servers against the lines of a known_hosts
// file, in the format of sshd(8). It refuses hosts that the file does not list, keys that are
// not those that it lists, revoked keys, and lines that it cannot read; it trusts no key
// because it is the first one, and reads nothing but what it is given. Start reading at
// Known.Verify.
package hostkey

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
)

// Known are the keys of hosts that a known_hosts file lists.
type Known struct {
	entries []entry
	revoked []ssh.PublicKey
}

// entry is one line: the hosts that have a key.
type entry struct {
	hosts []hostPattern
	key   ssh.PublicKey
}

// Parse reads a known_hosts file. Its errors, each a gitsource.ErrHostKey, name the line and
// repeat nothing of it.
func Parse(file []byte) (Known, error) {
	var known Known
	invalid := func(line int, remedy string) (Known, error) {
		return Known{}, fmt.Errorf("%w: line %d of known_hosts %s", gitsource.ErrHostKey, line, remedy)
	}
	for i, line := range bytes.Split(file, []byte("\n")) {
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
		switch {
		case errors.Is(err, io.EOF) && blank(line):
			continue
		case err != nil:
			return invalid(i+1, "is not of the form HOST TYPE KEY; ssh-keyscan prints such lines")
		}
		switch marker {
		case "revoked":
			known.revoked = append(known.revoked, key)
			continue
		case "":
		default:
			return invalid(i+1, "has a marker that is not supported; list the host's own key, without a marker")
		}
		patterns, ok := parsePatterns(hosts)
		if !ok {
			return invalid(i+1, "has a name of a host that cannot be read")
		}
		known.entries = append(known.entries, entry{patterns, key})
	}
	if len(known.entries) == 0 {
		return Known{}, fmt.Errorf("%w: known_hosts lists no host; put the server's lines there, as ssh-keyscan prints them", gitsource.ErrHostKey)
	}
	return known, nil
}

// blank reports whether a line lists nothing. The parser takes one of a single word for blank as well, such as a marker that has
// lost its key, by which a revoked key would be taken again.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// Verify returns nil where the file lists this key of the server at an address, host:port.
// Its errors are each a gitsource.ErrHostKey with the fingerprint and the remedy.
func (k Known) Verify(address string, key ssh.PublicKey) error {
	name := hostName(address)
	refuse := func(format string, args ...any) error {
		offered := fmt.Sprintf("%s offers the %s key %s", name, key.Type(), ssh.FingerprintSHA256(key))
		return fmt.Errorf("%w: %s, "+format, append([]any{gitsource.ErrHostKey, offered}, args...)...)
	}
	if slices.ContainsFunc(k.revoked, func(r ssh.PublicKey) bool { return equal(r, key) }) {
		return refuse("which known_hosts lists as revoked: do not connect before the server has another key")
	}
	listed := k.keys(name)
	switch {
	case slices.ContainsFunc(listed, func(l ssh.PublicKey) bool { return equal(l, key) }):
		return nil
	case len(listed) == 0:
		return refuse("and known_hosts does not list that host: compare the fingerprint with the one that the server's operator publishes, and only if they are equal add the line of ssh-keyscan to known_hosts")
	}
	return refuse("and known_hosts lists %s for that host: somebody may be intercepting the connection, or the server's key was changed; if its operator confirms the new fingerprint, replace the line in known_hosts", fingerprints(listed))
}

// Algorithms are the signature algorithms that a server at an address may prove its host key
// with, the types of the listed keys first: a server that has keys of several types shows one
// that is listed. The others follow, so that the fingerprint of a key that is not listed can
// be reported. SHA-1 and DSA are not among them.
func (k Known) Algorithms(address string) []string {
	all := []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	listed := map[string]bool{}
	for _, key := range k.keys(hostName(address)) {
		listed[key.Type()] = true
	}
	rank := func(algorithm string) int {
		if listed[algorithm] || listed[ssh.KeyAlgoRSA] && (algorithm == ssh.KeyAlgoRSASHA512 || algorithm == ssh.KeyAlgoRSASHA256) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// keys are those of a host.
func (k Known) keys(name string) []ssh.PublicKey {
	var out []ssh.PublicKey
	for _, e := range k.entries {
		if matches(e.hosts, name) {
			out = append(out, e.key)
		}
	}
	return out
}

func equal(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// fingerprints lists keys for a message, the first few.
func fingerprints(keys []ssh.PublicKey) string {
	const most = 5
	var out []string
	for _, key := range keys[:min(len(keys), most)] {
		out = append(out, key.Type()+" "+ssh.FingerprintSHA256(key))
	}
	if more := len(keys) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// hostName is the name by which known_hosts lists the server at an address: with the port
// where that is not 22.
func hostName(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return strings.ToLower(address)
	}
	host = strings.ToLower(host)
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}
