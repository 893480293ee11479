// Package artifact is a gitsource.Source that reads the artifact of a source of Flux: an archive that
// source-controller, or another controller with Flux's API, serves in the cluster.
//
// What it names, by URL and digest, is read by the caller. The archive is kept on disk as one
// file, and its files are read from that: nothing is ever written under a name that came from it.
// It refuses what a status may hold that somebody else has written: redirects to another host,
// addresses of instance metadata services, an archive without its digest or beyond the Limits, and
// one with symbolic links, names that lead out of it, or two files of one name. Start reading at
// Source.Fetch.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/gitsource"
)

// Budget bounds what is written to disk.
type Budget interface {
	// Grant allows n bytes more, or is the reason why not.
	Grant(n int64) error
}

// Config is which artifact to read, and where to keep it.
type Config struct {
	// Name is what the artifact is of, for messages, and by what what is kept is found again.
	Name string
	// Resolve reads the newest artifact, which a source of Flux has in status.artifact. Its errors are
	// those of Fetch.
	Resolve func(context.Context) (fluxmeta.Artifact, error)
	// LastRevisions is what was tried and applied last, by whichever process. After a restart nothing else is used
	// without the source, and of what is kept the applied one stays. It may be nil.
	LastRevisions func(context.Context) (LastRevisions, error)
	// Dir is the folder in which artifacts are kept. It is created; only one Source may use it at a
	// time. What is in it of another Name is discarded.
	Dir string
	// Disk is the budget of what is kept; nil sets none.
	Disk Budget
	// Limits protect this process; the zero value of each is its default.
	Limits Limits
}

// LastRevisions are what was tried and applied last; empty where there are none.
type LastRevisions struct {
	// Attempted was tried last, Applied was applied last.
	Attempted, Applied string
	// AppliedTreeID is the Snapshot's TreeID of Applied, which may have had other files since; empty where
	// that is unknown.
	AppliedTreeID string
}

// applied reports whether a version is the one that was applied.
func (l LastRevisions) applied(v version) bool {
	return v.Revision == l.Applied && (l.AppliedTreeID == "" || v.TreeID == l.AppliedTreeID)
}

// Limits bound what one artifact may cost. A zero field means its default.
type Limits struct {
	// ArchiveBytes is the size of the archive. Default 64 MiB.
	ArchiveBytes int64
	// UnpackedBytes is the size of all that is in it, the names of its files included. Default 256 MiB.
	UnpackedBytes int64
	// Files is the number of files and folders, those included that only the names of files have. Default 100,000.
	Files int
	// NameBytes is the size of all their names together. Default 16 MiB.
	NameBytes int64
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
	orDefault(&l.ArchiveBytes, 64<<20)
	orDefault(&l.UnpackedBytes, 256<<20)
	orDefault(&l.Files, 100_000)
	orDefault(&l.NameBytes, 16<<20)
	orDefault(&l.FileBytes, 8<<20)
	orDefault(&l.Timeout, 5*time.Minute)
	orDefault(&l.IdleTimeout, 30*time.Second)
	return l
}

// Source reads the newest artifact. It is safe for concurrent use; fetches run one after the other.
type Source struct {
	config Config
	limits Limits
	client *http.Client
	store  store

	mu sync.Mutex
	// restored is true once kept has been read from disk, fetched once this process has found what is the newest.
	restored, fetched bool
	// unrecorded is true where the record on disk has another version than kept as the newest.
	unrecorded bool
	// kept are what was fetched, the newest first.
	kept []version
	// refused is an artifact that no further attempt makes readable, with the reason.
	refused refusedArtifact
}

// version is one artifact that is kept.
type version struct {
	keptArtifact
	tree *tree
}

type refusedArtifact struct {
	url, digest string
	err         error
}

// New makes a Source. It writes nothing and connects to nothing.
func New(c Config) *Source {
	limits := c.Limits.withDefaults()
	return &Source{config: c, limits: limits, client: newClient(), store: store{dir: c.Dir, name: c.Name, disk: c.Disk}}
}

// Fetch returns the files of the newest artifact. Where its digest is that of one that is kept,
// nothing is requested of its server.
func (s *Source) Fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.limits.Timeout)
	defer cancel()
	newest, err := s.config.Resolve(ctx)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	if err := check(newest); err != nil {
		return gitsource.Snapshot{}, fmt.Errorf("reading the artifact of %s: %w", s.config.Name, err)
	}
	snapshot, err := s.fetch(ctx, newest)
	if err != nil {
		return gitsource.Snapshot{}, fmt.Errorf("reading the artifact %q of %s: %w", newest.Revision, s.config.Name, err)
	}
	return snapshot, nil
}

// maxRevision is how long a revision or a digest may be, in bytes.
const maxRevision = 512

// check refuses an artifact whose revision could not be shown, or recorded in a status.
func check(newest fluxmeta.Artifact) error {
	switch r := newest.Revision; {
	case r == "":
		return fmt.Errorf("%w: it has no revision", gitsource.ErrInvalid)
	case len(r) > maxRevision || len(newest.Digest) > maxRevision:
		return fmt.Errorf("%w: its revision or its digest has more than %d bytes", gitsource.ErrInvalid, maxRevision)
	case !printable(r):
		return fmt.Errorf("%w: its revision %q has characters that cannot be printed", gitsource.ErrInvalid, r)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// originRevision is the key of OCI, in an artifact's metadata, for the revision in Git from which it was made.
const originRevision = "org.opencontainers.image.revision"

// originOf is the revision from which an artifact was made. One that could not be shown is as good as none, since it is
// only reported.
func originOf(a fluxmeta.Artifact) string {
	if origin := a.Metadata[originRevision]; len(origin) <= maxRevision && printable(origin) {
		return origin
	}
	return ""
}

func (s *Source) fetch(ctx context.Context, newest fluxmeta.Artifact) (gitsource.Snapshot, error) {
	s.restore()
	for _, v := range s.kept {
		if v.Digest == newest.Digest && !v.tree.damaged.Load() {
			v.OriginRevision = originOf(newest)
			if v.Revision == newest.Revision {
				return s.use(ctx, v), nil
			}
			v.Revision = newest.Revision // Of another revision with the same files.
			return s.keep(ctx, v)
		}
	}
	if s.refused.err != nil && s.refused.url == newest.URL && s.refused.digest == newest.Digest {
		return gitsource.Snapshot{}, s.refused.err
	}
	v, err := s.download(ctx, newest)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	return s.keep(ctx, v)
}

// download gets an archive, checks it, and makes of it what is kept.
func (s *Source) download(ctx context.Context, newest fluxmeta.Artifact) (version, error) {
	archive, err := s.store.create()
	if err != nil {
		return version{}, err
	}
	defer archive.remove()
	if err := s.get(ctx, newest.URL, newest.Digest, archive); err != nil {
		return version{}, err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return version{}, storageError(err)
	}
	content, err := s.store.create()
	if err != nil {
		return version{}, err
	}
	if err := repack(ctx, archive, content, s.limits); err != nil {
		content.remove()
		if errors.Is(err, gitsource.ErrUnsafe) || errors.Is(err, gitsource.ErrLimit) {
			// It has its digest, so that no other download has anything else.
			s.refused = refusedArtifact{newest.URL, newest.Digest, err}
		}
		return version{}, err
	}
	v, err := s.store.add(newest.Revision, newest.Digest, content, s.limits.FileBytes)
	v.OriginRevision = originOf(newest)
	return v, err
}

// keep makes a version the newest, on disk and here.
func (s *Source) keep(ctx context.Context, v version) (gitsource.Snapshot, error) {
	kept := s.remaining(ctx, v)
	if err := s.store.commit(kept); err != nil {
		if !slices.ContainsFunc(s.kept, func(k version) bool { return k.File == v.File }) {
			_ = os.Remove(s.store.path(v.File)) // What stays is removed by the next process, or commit.
		}
		return gitsource.Snapshot{}, err
	}
	s.kept, s.fetched, s.unrecorded = kept, true, false
	return v.snapshot(), nil
}

// use makes a version that is kept the newest. That it cannot be recorded is not worth an error: after a restart
// the one before is used until the source can be read, and the next Fetch tries again.
func (s *Source) use(ctx context.Context, v version) gitsource.Snapshot {
	if s.kept[0].keptArtifact != v.keptArtifact || s.unrecorded {
		s.kept = s.remaining(ctx, v)
		s.unrecorded = s.store.commit(s.kept) != nil
	}
	s.fetched = true
	return v.snapshot()
}

// remaining are the versions that are kept, the newest first: the one that is applied, from which drift is
// corrected where the newest cannot be loaded, then the one before, which may still be read, then those of
// other revisions with the same files. Where it is unknown which is applied, all are.
func (s *Source) remaining(ctx context.Context, newest version) []version {
	last, err := LastRevisions{}, error(nil)
	if s.config.LastRevisions != nil {
		last, err = s.config.LastRevisions(ctx)
	}
	var ranked [3][]version
	for i, v := range s.kept {
		same := v.Digest == newest.Digest
		switch {
		case same && v.Revision == newest.Revision:
		case last.applied(v):
			ranked[0] = append(ranked[0], v)
		case i == 0:
			ranked[1] = append(ranked[1], v)
		case same || err != nil:
			ranked[2] = append(ranked[2], v)
		}
	}
	out := slices.Concat([]version{newest}, ranked[0], ranked[1], ranked[2])
	if err != nil {
		return out
	}
	return out[:min(len(out), maxKept)]
}

// maxKept is how many versions are kept at most, where it is known which is applied.
const maxKept = 3

// Last returns what Fetch returned last, without a request to a server; after a restart what was tried last, or else
// applied; false where there is nothing, or it is damaged. It keeps drift corrected while Flux is away.
func (s *Source) Last(ctx context.Context) (gitsource.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.fetched || s.config.LastRevisions == nil {
		return s.newest(func(version) bool { return true })
	}
	// Another replica may have led since: what is the newest here may be older than what it has applied.
	last, err := s.config.LastRevisions(ctx)
	if err != nil {
		return gitsource.Snapshot{}, false
	}
	if last.Attempted != last.Applied {
		if snapshot, ok := s.newest(func(v version) bool { return v.Revision == last.Attempted }); ok {
			return snapshot, true
		}
	}
	return s.newest(last.applied)
}

// newest is the newest of some versions that are kept; false where there is none, or it is damaged.
func (s *Source) newest(of func(version) bool) (gitsource.Snapshot, bool) {
	i := slices.IndexFunc(s.kept, of)
	if i < 0 || s.kept[i].tree.damaged.Load() {
		return gitsource.Snapshot{}, false
	}
	return s.kept[i].snapshot(), true
}

// Earlier returns an earlier revision that is still kept, with the files of an id where that is not empty, without
// a request; false where it is not.
func (s *Source) Earlier(_ context.Context, revision, treeID string) (gitsource.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	return s.newest(LastRevisions{Applied: revision, AppliedTreeID: treeID}.applied)
}

// restore reads what an earlier process kept. What cannot be read is as good as nothing.
func (s *Source) restore() {
	if !s.restored {
		s.restored, s.kept = true, s.store.load(s.limits.FileBytes)
	}
}

func (v version) snapshot() gitsource.Snapshot {
	return gitsource.Snapshot{FS: v.tree, Revision: v.Revision, Commit: commitOf(v.Revision), OriginRevision: v.OriginRevision, TreeID: v.tree.id}
}

// commitOf is the commit in a revision of a Git repository; empty in any other.
func commitOf(revision string) string {
	commit := revision[max(0, len(revision)-commitDigits):]
	if !strings.HasSuffix(revision[:len(revision)-len(commit)], "sha1:") || len(commit) != commitDigits || strings.Trim(commit, "0123456789abcdef") != "" {
		return ""
	}
	return commit
}

// commitDigits is the length of a commit's id.
const commitDigits = 40
