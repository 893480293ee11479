package gogit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
)

// Source follows one reference of one repository. It is safe for concurrent
// use; fetches run one after the other.
type Source struct {
	ref     Ref
	limits  Limits
	remote  *remote
	mirror  *mirror
	mu      sync.Mutex
	current *state
	refused refusal
}

// refusal remembers a revision that broke a limit or is unsafe, so that it is
// not transferred again at every fetch.
type refusal struct {
	object plumbing.Hash
	err    error
}

// state is what is known of the newest snapshot.
type state struct {
	record   record
	snapshot gitsource.Snapshot
	objects  *objects
}

// New checks the configuration, creates the mirror's folder and connects to
// nothing. Errors wrap gitsource.ErrInvalid where the configuration is wrong.
func New(c Config) (*Source, error) {
	u, err := parseURL(c.URL)
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
	m, err := openMirror(c.Dir, u.String()+"\n"+ref.fullName()+"\n"+ref.Commit)
	if err != nil {
		return nil, err
	}
	return &Source{ref: ref, limits: limits, remote: newRemote(u, c.Credentials, limits), mirror: m}, nil
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
		return gitsource.Snapshot{}, fmt.Errorf("fetching %s of %s: %w", s.ref, s.remote.name(), err)
	}
	return snap, nil
}

func (s *Source) fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.restore()
	sess, err := s.remote.open(ctx)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	want, err := s.ref.resolve(sess.adv)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	if s.current != nil && s.current.record.Object == want.String() && !s.current.objects.damaged() {
		return s.current.snapshot, nil
	}
	if s.refused.object == want {
		return gitsource.Snapshot{}, s.refused.err
	}
	next, err := s.download(ctx, sess, want)
	if errors.Is(err, gitsource.ErrCorrupt) && s.current != nil {
		// What the mirror held may be what is broken: once more, from nothing.
		s.current = nil
		next, err = s.download(ctx, sess, want)
	}
	if err != nil {
		if errors.Is(err, gitsource.ErrLimit) || errors.Is(err, gitsource.ErrUnsafe) {
			s.refused = refusal{want, err}
		}
		return gitsource.Snapshot{}, err
	}
	s.current = next
	return next.snapshot, nil
}

// Last returns the newest snapshot that Fetch ever returned for this URL and
// reference, also before a restart, without asking the server; false when
// there is none, or the mirror is damaged. It keeps drift corrected while the
// server is away.
func (s *Source) Last() (gitsource.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore()
	if s.current == nil {
		return gitsource.Snapshot{}, false
	}
	return s.current.snapshot, true
}

// restore fills current from the mirror. A mirror that cannot be read is as
// good as none.
func (s *Source) restore() {
	if s.current != nil {
		return
	}
	rec, ok := s.mirror.last()
	if !ok {
		return
	}
	if st, err := s.load(rec); err == nil {
		s.current = st
	}
}

// download transfers what is missing for want, proves that the tree is whole,
// and only then makes it the last snapshot.
func (s *Source) download(ctx context.Context, sess *session, want plumbing.Hash) (st *state, err error) {
	base := s.current
	if base != nil && (base.objects.damaged() || s.mirror.crowded(base.record.Generation)) {
		base = nil
	}
	gen, have := "", record{}
	if base != nil {
		gen, have = base.record.Generation, base.record
	} else {
		if gen, err = s.mirror.newGeneration(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				s.mirror.drop(gen)
			}
		}()
	}
	shallow, err := s.transfer(ctx, sess, want, have, s.mirror.path(gen))
	if err != nil {
		return nil, err
	}
	rec := record{Generation: gen, Object: want.String(), Shallow: shallow}
	if st, err = s.load(rec); err != nil {
		if s.ref.Commit != "" && openObjects(s.mirror.path(gen), s.limits).has(want) != nil {
			// Everything that the server shows has arrived, and it is not there.
			return nil, fmt.Errorf("%w: no branch or tag of the repository leads to it", gitsource.ErrNotFound)
		}
		return nil, err
	}
	return st, s.mirror.commit(rec)
}

// load reads a recorded revision from the mirror and checks all of its tree.
func (s *Source) load(rec record) (*state, error) {
	objs := openObjects(s.mirror.path(rec.Generation), s.limits)
	commit, tree, err := objs.commit(plumbing.NewHash(rec.Object))
	if err != nil {
		return nil, err
	}
	root, err := indexTree(objs, tree, s.limits)
	if err != nil {
		return nil, err
	}
	return &state{
		record:  rec,
		objects: objs,
		snapshot: gitsource.Snapshot{
			FS:       &treeFS{root: root, objects: objs, limit: s.limits.FileBytes},
			Revision: s.ref.revision(commit.String()),
			Commit:   commit.String(),
			TreeID:   tree.String(),
		},
	}, nil
}
