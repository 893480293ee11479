package gogit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// Source follows one reference of one repository. It is safe for concurrent
// use; fetches run one after the other.
type Source struct {
	ref         Ref
	limits      Limits
	remote      *remote.Remote
	cache       *clonecache.Cache
	branchState func(context.Context) (BranchState, error)
	refused     func()

	mu      sync.Mutex
	current *state
	// allowed is what the reference was last allowed to lead to, in this life.
	allowed plumbing.Hash
	// kept stays in force, wherever the branch is, while a newer revision is refused.
	kept     plumbing.Hash
	failed   failedRevision
	verifier *verifier
}

// New checks the configuration, writes nothing and connects to nothing. Errors wrap gitsource.ErrInvalid where the configuration is wrong.
func New(c Config) (*Source, error) {
	u, err := remote.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	ref := c.Ref.withDefault()
	if err := ref.Check(); err != nil {
		return nil, err
	}
	if c.Dir == "" {
		return nil, fmt.Errorf("opening the cache: %w: no folder given", gitsource.ErrInvalid)
	}
	v, err := newVerifier(c.Verification, ref)
	if err != nil {
		return nil, err
	}
	limits := c.Limits.withDefaults()
	m := clonecache.Open(c.Dir, u.String()+"\n"+ref.fullName()+"\n"+ref.Commit+v.identity(), limits.PackBytes, c.Disk)
	return &Source{ref: ref, limits: limits, remote: remote.New(u, c.Credentials, limits.remote()), cache: m, branchState: c.BranchState, refused: c.CredentialsRefused, verifier: v}, nil
}

// Fetch returns the newest snapshot of the reference. When the reference has
// not moved it costs one request; otherwise only objects that the cache lacks
// are transferred. A damaged cache is discarded and cloned anew.
func (s *Source) Fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.limits.Timeout)
	defer cancel()

	snap, err := s.fetch(ctx)
	if s.refused != nil && (errors.Is(err, gitsource.ErrUnauthorized) || errors.Is(err, gitsource.ErrNotFound)) {
		s.refused()
	}
	if err != nil {
		return gitsource.Snapshot{}, fmt.Errorf("fetching %s of %s: %w", s.ref, s.remote.Name(), err)
	}
	return snap, nil
}

func (s *Source) fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.restore()
	if err := s.verifier.readKeys(ctx); err != nil {
		return gitsource.Snapshot{}, err
	}
	sess, err := s.remote.Open(ctx)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	defer sess.Close()
	want, err := s.ref.resolve(sess)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	if s.current != nil && s.current.record.Object == want.String() && !s.current.objects.Damaged() {
		return s.unchanged(ctx, sess, want)
	}
	if err := s.stillRefused(ctx, want); err != nil {
		return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
	}
	next, err := s.download(ctx, sess, want)
	if errors.Is(err, gitsource.ErrCorrupt) && s.current != nil {
		// What the cache had may be what is broken: once more, from nothing.
		s.current = nil
		next, err = s.download(ctx, sess, want)
	}
	if err != nil {
		s.refuse(ctx, want, err)
		return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
	}
	s.current, s.allowed = next, want
	return next.snapshot, nil
}

// unchanged returns the newest snapshot once more. One of an earlier life may be older
// than what was followed since, by another process; and its keys may be others now.
func (s *Source) unchanged(ctx context.Context, sess *remote.Connection, want plumbing.Hash) (gitsource.Snapshot, error) {
	if err := s.verify(ctx, sess, s.current.record.Clone, want); err != nil {
		return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
	}
	if s.allowed != want {
		if err := s.checkFastForward(ctx, sess, s.current.record.Clone, want); err != nil {
			return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
		}
		s.allowed = want
	}
	return s.current.snapshot, nil
}

// Last returns the newest snapshot that Fetch ever returned for this URL and
// reference, also before a restart, without a request to the server; false when there
// is none, the cache is damaged, or it lacks what was followed since, by
// Config.BranchState. It keeps drift corrected while the server is away. Where signatures are required, and
// the newest is not verified by the keys that were read last, it is what was applied last, where that was verified.
func (s *Source) Last(ctx context.Context) (gitsource.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.current == nil {
		return gitsource.Snapshot{}, false
	}
	if apply, _ := s.verified(ctx, s.current.snapshot.Commit); apply && s.isCurrent(ctx) {
		return s.current.snapshot, true
	}
	if s.verifier == nil {
		return gitsource.Snapshot{}, false
	}
	return s.fromCache(s.appliedVerified(ctx))
}

// fromCache is the snapshot of a commit that the cache holds, and false where it does not.
func (s *Source) fromCache(commit string) (gitsource.Snapshot, bool) {
	if commit == "" {
		return gitsource.Snapshot{}, false
	}
	st, err := s.load(clonecache.Record{Clone: s.current.record.Clone, Object: commit})
	if err != nil {
		return gitsource.Snapshot{}, false
	}
	return st.snapshot, true
}

// Earlier returns the snapshot of an earlier revision of the reference that the cache still
// holds, without a request to the server; false where it does not, or where signatures are required
// and it was neither verified by the keys that were read last nor before it was applied last. A commit has one tree, whose id is not needed.
func (s *Source) Earlier(ctx context.Context, revision, _ string) (gitsource.Snapshot, bool) {
	commit, ok := s.commitOf(revision)
	if !ok {
		return gitsource.Snapshot{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.current == nil {
		return gitsource.Snapshot{}, false
	}
	if _, correct := s.verified(ctx, commit); !correct {
		return gitsource.Snapshot{}, false
	}
	return s.fromCache(commit)
}

// restore fills current from the cache. A cache that cannot be read is as
// good as none.
func (s *Source) restore() {
	if s.current != nil {
		return
	}
	rec, ok := s.cache.Last()
	if !ok {
		return
	}
	if st, err := s.load(rec); err == nil {
		s.current = st
	}
}
