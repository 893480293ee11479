package gogit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/signature"
)

// failedRevision keeps a revision that cannot be had, so that it is not transferred again at
// every fetch.
type failedRevision struct {
	object plumbing.Hash
	err    error
	// remaining is the room on disk that was not enough, of an overBudget.
	remaining int64
	// verifiedBy is what its signatures were verified by, where they are required.
	verifiedBy string
	// until is when it is verified anew, where a key or signature was not valid at that time; else zero.
	until time.Time
}

// reverifyAfter is when a revision is verified anew of which a key or signature was not valid at the time.
const reverifyAfter = 10 * time.Minute

// refuse keeps an error that the same revision would run into again.
func (s *Source) refuse(ctx context.Context, want plumbing.Hash, err error) {
	by, failure := s.verifiedBy(ctx)
	if failure != nil {
		return // What it was refused by is unknown, and so when that has changed.
	}
	failed := failedRevision{object: want, err: err, verifiedBy: by}
	_, full := errors.AsType[*disk.ExceededError](err)
	switch {
	case full:
		failed.remaining = s.cache.BudgetRemaining()
	case errors.Is(err, signature.ErrExpired):
		failed.until = s.verifier.now().Add(reverifyAfter)
	case signatureRefused(err), errors.Is(err, gitsource.ErrLimit), errors.Is(err, gitsource.ErrUnsafe), errors.Is(err, gitsource.ErrNotFastForward):
	default:
		return
	}
	s.failed = failed
}

// stillRefused returns the error of an earlier fetch that met the same revision,
// unless there is more room since, the public keys have changed, or a person has accepted it.
func (s *Source) stillRefused(ctx context.Context, want plumbing.Hash) error {
	if s.failed.object != want {
		return nil
	}
	if _, full := errors.AsType[*disk.ExceededError](s.failed.err); full && s.cache.BudgetRemaining() > s.failed.remaining {
		return nil
	}
	if by, err := s.verifiedBy(ctx); err != nil || by != s.failed.verifiedBy {
		return err
	}
	if !s.failed.until.IsZero() && !s.verifier.now().Before(s.failed.until) {
		return nil
	}
	if moved, ok := errors.AsType[*gitsource.NotFastForwardError](s.failed.err); ok {
		was, err := s.branchState(ctx)
		if err != nil || was.Commit != moved.From || was.allowsForcePush(moved.To) {
			return err
		}
	}
	return s.failed.err
}

// maxPacks is how many transfers a clone collects before a fresh clone
// replaces it: each lookup reads every pack.
const maxPacks = 32

// download transfers what is missing for want, into the cache that there is or,
// where that has no room, into a new one.
func (s *Source) download(ctx context.Context, sess *remote.Connection, want plumbing.Hash) (*state, error) {
	if s.current != nil && !s.current.objects.Damaged() && !s.cache.NeedsNewClone(s.current.record, maxPacks) {
		st, err := s.advance(ctx, sess, want, s.current.record, s.cache.StoreFor(s.current.record.Clone))
		if !errors.Is(err, pack.ErrFull) {
			return st, err
		}
	}
	gen, err := s.cache.NewClone()
	if err != nil {
		return nil, err
	}
	st, err := s.advance(ctx, sess, want, clonecache.Record{Clone: gen}, s.cache.StoreFor(gen))
	if errors.Is(err, pack.ErrFull) {
		err = s.limits.pack().TooManyBytes()
	}
	if err != nil {
		s.cache.Drop(gen)
	}
	return st, err
}

// advance transfers into one clone, proves that the tree is whole, signed as is required and
// that the branch may be there, and only then makes it the last snapshot.
func (s *Source) advance(ctx context.Context, sess *remote.Connection, want plumbing.Hash, have clonecache.Record, to *pack.Store) (*state, error) {
	gen := have.Clone
	shallow, err := s.transfer(ctx, sess, want, have, to)
	if err != nil {
		return nil, err
	}
	st, err := s.load(clonecache.Record{Clone: gen, Object: want.String(), Shallow: shallow})
	if err != nil {
		if s.ref.Commit != "" && objects.Open(s.cache.Path(gen)).Require(want) != nil {
			// Everything that the server shows has arrived, and it is not there.
			return nil, fmt.Errorf("%w: no branch or tag of the repository leads to it", gitsource.ErrNotFound)
		}
		return nil, err
	}
	// First: a person should not be requested to accept a move to what is not signed.
	if err := s.verify(ctx, sess, gen, want); err != nil {
		return nil, err
	}
	if err := s.checkFastForward(ctx, sess, gen, want); err != nil {
		return nil, err
	}
	return st, s.cache.Commit(&st.record)
}

// transfer fetches want, given that have is already present, and stores the response as
// one pack. It reports whether only the newest commit arrived.
func (s *Source) transfer(ctx context.Context, sess *remote.Connection, want plumbing.Hash, have clonecache.Record, to *pack.Store) (bool, error) {
	req := s.request(sess, want)
	req.Thin = true
	shallow := req.Depth > 0
	if have.Object != "" {
		// Of a tag it is the commit: a server ends where it is offered anything else as shallow.
		h, _, err := objects.Open(s.cache.Path(have.Clone)).Peel(plumbing.NewHash(have.Object))
		if err != nil {
			return false, err
		}
		req.Haves = []plumbing.Hash{h}
		if have.Shallow && shallow {
			req.Shallows = []plumbing.Hash{h}
		} else if have.Shallow {
			// Without the shallow capability the server would take have for
			// the whole of its history.
			req.Haves = nil
		}
	}
	return shallow, sess.Fetch(ctx, req, to, s.limits.pack())
}

// request is what to request: the one object at depth 1 where the server allows it, else
// everything that its branches and tags reach, so that a commit can be found in there.
func (s *Source) request(sess *remote.Connection, want plumbing.Hash) remote.Request {
	if s.ref.Commit != "" && !sess.Advertises(want) && !sess.SupportsReachable() {
		if tips := sess.Tips(); len(tips) > 0 {
			return remote.Request{Wants: tips}
		}
	}
	req := remote.Request{Wants: []plumbing.Hash{want}}
	if sess.SupportsShallow() {
		req.Depth = 1
	}
	return req
}
