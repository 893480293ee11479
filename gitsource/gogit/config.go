// Package gogit reads Git repositories with go-git: a Source follows one
// branch, tag or commit over https or ssh, a Repository compares two references of
// one, for pull requests, and a Local compares two revisions on disk.
//
// What comes over the network is kept in a cache on disk, in bare repositories. The server's references
// are listed first, and objects are requested only when a desired one moved, only that
// one, and only its newest tree; history is fetched without trees, and no deeper than
// it takes to find the merge base of two commits. Files are read from Git objects: there is
// no worktree, nothing is ever written under a name that came from the repository.
//
// It refuses file and git URLs, plain http to anything but this machine,
// passwords inside a URL, redirects to another host, addresses of instance
// metadata services, ssh servers whose host key it was not given, and
// repositories beyond its Limits. Start reading at
// Source.Fetch, Repository.Compare and Local.Compare. What they are made of is
// below internal: remote is the server, pack what it sends, clonecache where that is
// kept, objects what Git stores, commitgraph its commits and tree its files.
package gogit

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/tree"
)

// Config is what to follow and where to keep the cache.
type Config struct {
	// URL is an https:// address, http:// to a loopback address, or ssh://user@host, without
	// other credentials, query or fragment.
	URL string
	// Ref is what to follow; the zero Ref is the branch main.
	Ref Ref
	// Credentials is called before every fetch, so that a rotated secret is used without a
	// restart. nil means none.
	Credentials func(context.Context) (Credentials, error)
	// CredentialsRefused, where set, is called after a fetch that the server refused by ErrUnauthorized or
	// ErrNotFound: credentials that Credentials keeps may have been revoked.
	CredentialsRefused func()
	// Dir is the folder of the cache. It is created; only one Source may use
	// it at a time. A cache of another URL in it is discarded.
	Dir string
	// BranchState, where set, lets a Source follow a branch by fast-forward only. It returns
	// where the branch was before, and is called when it has moved and after a restart: a
	// cache may be lost, or belong to an earlier leader. Tags and commits are followed
	// wherever they lead.
	BranchState func(context.Context) (BranchState, error)
	// Verification, where set, has a Source return only revisions that are signed.
	Verification *Verification
	// Disk is the budget that the cache shares with others; nil sets none.
	Disk *Disk
	// Limits protect this process; the zero value of each is its default.
	Limits Limits
}

// Credentials authenticate to the server: a user name, and a password or an access token, or a
// bearer token, or a certificate of the client. CABundle holds certificates that are trusted beside
// the system's. For ssh they are a private key and the host keys that are trusted. They are never
// printed.
type Credentials = remote.Credentials

// Disk is a budget of bytes for all that lies below a folder, shared by the caches in it:
// what would exceed it is refused before it is written. A nil Disk has no limit.
type Disk = disk.Budget

// NewDisk limits what may lie below dir, in bytes.
func NewDisk(dir string, limit int64) *Disk { return disk.New(dir, limit) }

// Limits bound what one repository may cost. A zero field means its default.
type Limits struct {
	// PackBytes is the size of one transfer and of its file. A cache takes at
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
	// Commits is how much history a Repository fetches to find the merge base
	// of two revisions. Default 20,000.
	Commits int
	// Depth is how deeply folders may nest. Default 64.
	Depth int
	// FileBytes is the size of a file that may be read. Default 8 MiB.
	FileBytes int64
	// Timeout is for one fetch as a whole. Default 5 minutes.
	Timeout time.Duration
	// IdleTimeout is how long the server may send nothing. Default 30 seconds.
	IdleTimeout time.Duration
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
	orDefault(&l.IdleTimeout, 30*time.Second)
	return l
}

// tree are the limits of a tree.
func (l Limits) tree() tree.Limits {
	return tree.Limits{ObjectBytes: l.ObjectBytes, Files: l.Files, IndexBytes: l.IndexBytes, Depth: l.Depth, FileBytes: l.FileBytes}
}

// pack are the limits of a transfer.
func (l Limits) pack() pack.Limits {
	return pack.Limits{PackBytes: l.PackBytes, ObjectBytes: l.ObjectBytes, UnpackedBytes: l.UnpackedBytes, Objects: l.Objects}
}

// remote are the limits of an exchange with the server.
func (l Limits) remote() remote.Limits {
	return remote.Limits{PackBytes: l.PackBytes, IdleTimeout: l.IdleTimeout}
}

// CacheBytes is the most that a cache takes on disk, in bytes, under the default
// Limits, of a repository of which one transfer takes at most that many.
func CacheBytes(transfer int64) int64 {
	return clonecache.MaxBytes(transfer, Limits{}.withDefaults().PackBytes)
}

// BranchState is what was followed and applied of a branch before it moved. It is also what a cache must have
// in its history to be used while the server is away.
type BranchState struct {
	// Commit is the one that was followed, 40 digits. Empty, where nothing was, it
	// lets the branch be anywhere.
	Commit string
	// AllowsForcePush reports whether the branch may move to a commit that does not descend from
	// Commit, such as where a person has accepted it; nil allows none.
	AllowsForcePush func(to string) bool
	// Applied is the commit of the revision that was applied last, 40 digits; empty where none
	// was.
	Applied string
	// Base is the commit that was attempted last, applied or not, 40 digits. The mode EveryCommit of
	// Verification begins behind it; empty, where nothing was attempted, it requires a signature of
	// the newest commit alone.
	Base string
	// Verified reports whether Applied was verified, in the mode of Verification, before it was
	// applied. It is what drift is corrected to while a newer revision is refused.
	Verified bool
}

func (f BranchState) allowsForcePush(to string) bool {
	return f.AllowsForcePush != nil && f.AllowsForcePush(to)
}
