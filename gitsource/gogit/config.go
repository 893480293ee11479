// Package gogit reads Git repositories with go-git: a Source follows one
// branch, tag or commit over https, a Repository compares two references of
// one, for pull requests, and a Local compares two revisions on disk.
//
// What comes over the network is kept in a bare mirror on disk. The server is
// asked for its references first, and for objects only when a wanted one
// moved, only that one, and only its newest tree; history is asked for without
// trees, and no deeper than it takes to find where two commits parted. Files
// are read from Git objects: there is no worktree, nothing is ever written
// under a name that came from the repository.
//
// It refuses ssh, file and git URLs, plain http to anything but this machine,
// credentials inside a URL, redirects to another host, addresses of instance
// metadata services, and repositories beyond its Limits. Start reading at
// Source.Fetch, Repository.Compare and Local.Compare.
package gogit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

// Config says what to follow and where to keep the mirror.
type Config struct {
	// URL is an https:// address, or http:// to a loopback address, without
	// credentials, query or fragment.
	URL string
	// Ref is what to follow; the zero Ref is the branch main.
	Ref Ref
	// Credentials is asked before every fetch, so that a rotated secret is
	// used without a restart. nil means none.
	Credentials func(context.Context) (Credentials, error)
	// Dir is the folder of the mirror. It is created; only one Source may use
	// it at a time. A mirror of another URL in it is discarded.
	Dir string
	// Followed, where set, lets a Source follow a branch by fast-forward only. It is
	// asked where the branch was before, when it has moved and after a restart: a
	// mirror may be lost, or belong to an earlier leader. Tags and commits are
	// followed wherever they lead.
	Followed func(context.Context) (Followed, error)
	// Disk is the budget that the mirror shares with others; nil sets none.
	Disk *Disk
	// Limits protect this process; the zero value of each is its default.
	Limits Limits
}

// Credentials authenticate to the server.
type Credentials struct {
	// Username may be empty when Password is a token.
	Username string
	// Password is a password or an access token.
	Password string
	// CABundle holds PEM certificates that are trusted beside the system's.
	CABundle []byte
}

// String never shows the values.
func (c Credentials) String() string { return "credentials (hidden)" }

// GoString never shows the values.
func (c Credentials) GoString() string { return c.String() }

// Limits bound what one repository may cost. A zero field means its default.
type Limits struct {
	// PackBytes is the size of one transfer and of its file. A mirror takes at
	// most three times that on disk. Default 256 MiB.
	PackBytes int64
	// ObjectBytes is the size of any one object, unpacked. Default 32 MiB.
	ObjectBytes int64
	// UnpackedBytes is the size of all objects of a transfer. Default 1 GiB.
	UnpackedBytes int64
	// Objects is the number of objects of a transfer. Default 200,000.
	Objects int
	// Files is the number of files in a tree. Default 100,000.
	Files int
	// IndexBytes is about what the names of a tree's files may take in memory.
	// Default 32 MiB: 100,000 files with names of 175 bytes.
	IndexBytes int64
	// Commits is how much history a Repository fetches to find where two
	// revisions parted. Default 20,000.
	Commits int
	// Depth is how deeply folders may nest. Default 64.
	Depth int
	// FileBytes is the size of a file that may be read. Default 8 MiB.
	FileBytes int64
	// Timeout is for one fetch as a whole. Default 5 minutes.
	Timeout time.Duration
	// Stall is how long the server may send nothing. Default 30 seconds.
	Stall time.Duration
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.PackBytes, 256<<20)
	orDefault(&l.ObjectBytes, 32<<20)
	orDefault(&l.UnpackedBytes, 1<<30)
	orDefault(&l.Objects, 200_000)
	orDefault(&l.Files, 100_000)
	orDefault(&l.IndexBytes, 32<<20)
	orDefault(&l.Commits, 20_000)
	orDefault(&l.Depth, 64)
	orDefault(&l.FileBytes, 8<<20)
	orDefault(&l.Timeout, 5*time.Minute)
	orDefault(&l.Stall, 30*time.Second)
	return l
}

// parseURL accepts only what Config.URL promises. Its errors never repeat the
// URL, which may hold a password.
func parseURL(raw string) (*url.URL, error) {
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

// checkAddress is asked with the address that is about to be connected to,
// after name resolution, so that no name can point a fetch at the metadata
// service of this machine, nor plain http away from it.
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
