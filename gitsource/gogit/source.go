package gogit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/mirror"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/tree"
)

// Source follows one reference of one repository. It is safe for concurrent
// use; fetches run one after the other.
type Source struct {
	ref      Ref
	limits   Limits
	remote   *remote.Remote
	mirror   *mirror.Mirror
	followed func(context.Context) (Followed, error)

	mu      sync.Mutex
	current *state
	// allowed is what the reference was last allowed to lead to, in this life.
	allowed plumbing.Hash
	refused refusal
}

// refusal keeps a revision that cannot be had, so that it is not transferred again at
// every fetch.
type refusal struct {
	object plumbing.Hash
	err    error
	// left is the room on disk that was not enough, of an overBudget.
	left int64
}

// state is what is known of the newest snapshot.
type state struct {
	record   mirror.Record
	snapshot gitsource.Snapshot
	objects  *objects.Store
}

// New checks the configuration, writes nothing and connects to nothing. Errors wrap gitsource.ErrInvalid where the configuration is wrong.
func New(c Config) (*Source, error) {
	u, err := remote.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	ref := c.Ref.withDefault()
	if err := ref.validate(); err != nil {
		return nil, err
	}
	if c.Dir == "" {
		return nil, fmt.Errorf("opening the mirror: %w: no folder given", gitsource.ErrInvalid)
	}
	limits := c.Limits.withDefaults()
	m := mirror.Open(c.Dir, u.String()+"\n"+ref.fullName()+"\n"+ref.Commit, limits.PackBytes, c.Disk)
	return &Source{ref: ref, limits: limits, remote: remote.New(u, c.Credentials, limits.remote()), mirror: m, followed: c.Followed}, nil
}

// Fetch returns the newest snapshot of the reference. When the reference has
// not moved it costs one request; otherwise only objects that the mirror lacks
// are transferred. A damaged mirror is discarded and cloned anew.
func (s *Source) Fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.limits.Timeout)
	defer cancel()

	snap, err := s.fetch(ctx)
	if err != nil {
		return gitsource.Snapshot{}, fmt.Errorf("fetching %s of %s: %w", s.ref, s.remote.Name(), err)
	}
	return snap, nil
}

func (s *Source) fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.restore()
	sess, err := s.remote.Open(ctx)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
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
		// What the mirror held may be what is broken: once more, from nothing.
		s.current = nil
		next, err = s.download(ctx, sess, want)
	}
	if err != nil {
		s.refuse(want, err)
		return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
	}
	s.current, s.allowed = next, want
	return next.snapshot, nil
}

// unchanged returns the newest snapshot once more. One of an earlier life may be older
// than what was followed since, by another process.
func (s *Source) unchanged(ctx context.Context, sess *remote.Connection, want plumbing.Hash) (gitsource.Snapshot, error) {
	if s.allowed != want {
		if err := s.allow(ctx, sess, s.current.record.Generation, want); err != nil {
			return gitsource.Snapshot{}, s.fetchFollowed(ctx, sess, err)
		}
		s.allowed = want
	}
	return s.current.snapshot, nil
}

// refuse keeps an error that the same revision would run into again.
func (s *Source) refuse(want plumbing.Hash, err error) {
	_, full := errors.AsType[*disk.ExceededError](err)
	switch {
	case full:
		s.refused = refusal{want, err, s.mirror.BudgetLeft()}
	case errors.Is(err, gitsource.ErrLimit), errors.Is(err, gitsource.ErrUnsafe), errors.Is(err, gitsource.ErrNotFastForward):
		s.refused = refusal{object: want, err: err}
	}
}

// stillRefused returns the error of an earlier fetch that met the same revision,
// unless there is more room since, or a person has accepted it.
func (s *Source) stillRefused(ctx context.Context, want plumbing.Hash) error {
	if s.refused.object != want {
		return nil
	}
	if _, full := errors.AsType[*disk.ExceededError](s.refused.err); full && s.mirror.BudgetLeft() > s.refused.left {
		return nil
	}
	if moved, ok := errors.AsType[*gitsource.NotFastForwardError](s.refused.err); ok {
		was, err := s.followed(ctx)
		if err != nil || was.Commit != moved.From || was.accepts(moved.To) {
			return err
		}
	}
	return s.refused.err
}

// Last returns the newest snapshot that Fetch ever returned for this URL and
// reference, also before a restart, without a request to the server; false when there
// is none, the mirror is damaged, or it lacks what was followed since, by
// Config.Followed. It keeps drift corrected while the server is away.
func (s *Source) Last(ctx context.Context) (gitsource.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.current == nil || !s.isCurrent(ctx) {
		return gitsource.Snapshot{}, false
	}
	return s.current.snapshot, true
}

// Earlier returns the snapshot of an earlier revision of the reference that the mirror still
// holds, without a request to the server; false where it does not.
func (s *Source) Earlier(_ context.Context, revision string) (gitsource.Snapshot, bool) {
	commit := revision[max(0, len(revision)-40):]
	if !refs.IsCommitID(commit) || s.ref.revisionOf(commit) != revision {
		return gitsource.Snapshot{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.current == nil {
		return gitsource.Snapshot{}, false
	}
	st, err := s.load(mirror.Record{Generation: s.current.record.Generation, Object: commit})
	if err != nil {
		return gitsource.Snapshot{}, false
	}
	return st.snapshot, true
}

// restore fills current from the mirror. A mirror that cannot be read is as
// good as none.
func (s *Source) restore() {
	if s.current != nil {
		return
	}
	rec, ok := s.mirror.Last()
	if !ok {
		return
	}
	if st, err := s.load(rec); err == nil {
		s.current = st
	}
}

// download transfers what is missing for want, into the mirror that there is or,
// where that has no room, into a new one.
func (s *Source) download(ctx context.Context, sess *remote.Connection, want plumbing.Hash) (*state, error) {
	if s.current != nil && !s.current.objects.Damaged() && !s.mirror.Crowded(s.current.record, maxPacks) {
		st, err := s.advance(ctx, sess, want, s.current.record)
		if !errors.Is(err, pack.ErrFull) {
			return st, err
		}
	}
	gen, err := s.mirror.NewGeneration()
	if err != nil {
		return nil, err
	}
	st, err := s.advance(ctx, sess, want, mirror.Record{Generation: gen})
	if errors.Is(err, pack.ErrFull) {
		err = s.limits.pack().TooManyBytes()
	}
	if err != nil {
		s.mirror.Drop(gen)
	}
	return st, err
}

// advance transfers into one generation, proves that the tree is whole and that the
// branch may be there, and only then makes it the last snapshot.
func (s *Source) advance(ctx context.Context, sess *remote.Connection, want plumbing.Hash, have mirror.Record) (*state, error) {
	gen := have.Generation
	shallow, err := s.transfer(ctx, sess, want, have, s.mirror.StoreFor(gen))
	if err != nil {
		return nil, err
	}
	st, err := s.load(mirror.Record{Generation: gen, Object: want.String(), Shallow: shallow})
	if err != nil {
		if s.ref.Commit != "" && objects.Open(s.mirror.Path(gen)).Require(want) != nil {
			// Everything that the server shows has arrived, and it is not there.
			return nil, fmt.Errorf("%w: no branch or tag of the repository leads to it", gitsource.ErrNotFound)
		}
		return nil, err
	}
	if err := s.allow(ctx, sess, gen, want); err != nil {
		return nil, err
	}
	return st, s.mirror.Commit(&st.record)
}

// load reads a recorded revision from the mirror and checks all of its tree.
func (s *Source) load(rec mirror.Record) (*state, error) {
	objs := objects.Open(s.mirror.Path(rec.Generation))
	commit, root, err := objs.Peel(plumbing.NewHash(rec.Object))
	if err != nil {
		return nil, err
	}
	files, err := tree.NewWalker(objs, s.limits.tree()).Walk(root)
	if err != nil {
		return nil, err
	}
	return &state{
		record:  rec,
		objects: objs,
		snapshot: gitsource.Snapshot{
			FS:       files,
			Revision: s.ref.revisionOf(commit.String()),
			Commit:   commit.String(),
			TreeID:   root.String(),
		},
	}, nil
}

// maxPacks is how many transfers a generation collects before a fresh clone
// replaces it: each lookup reads every pack.
const maxPacks = 32
