package gogit

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/history"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/mirror"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// checkFastForward refuses to follow a branch to a commit that does not descend from the one
// before, or of which nobody can find that out, unless a person has accepted it. What
// is fetched beyond the newest commit is history without trees, and where the server
// cannot leave those out, as little as there is room for.
func (s *Source) checkFastForward(ctx context.Context, sess *remote.Connection, clone string, to plumbing.Hash) error {
	if s.followed == nil || s.ref.Branch == "" || s.kept == to {
		return nil
	}
	was, err := s.followed(ctx)
	if err != nil {
		return fmt.Errorf("finding out which commit was followed before: %w", err)
	}
	if was.Commit == "" || was.Commit == to.String() || was.accepts(to.String()) {
		return nil
	}
	g := newClone(s.mirror, s.limits, mirror.Record{Clone: clone, Filtered: sess.SupportsFilter()})
	g.created = true // There is no other.
	descends, err := g.reachable(ctx, sess, tip{s.ref.fullName(), to, to}, ancestryQuery{descendant: to, ancestor: plumbing.NewHash(was.Commit)})
	if descends || err != nil && !errors.Is(err, gitsource.ErrLimit) && !errors.Is(err, gitsource.ErrNotFound) {
		return err
	}
	return &gitsource.NotFastForwardError{Branch: s.ref.Branch, From: was.Commit, To: to.String(), Unknown: err}
}

// fetchFollowed handles a fetch that failed. Where the newest revision is not accepted and the
// mirror does not have what was followed before, that is fetched by its id: drift from
// it is still to be corrected. Not all servers give out what no reference leads to.
func (s *Source) fetchFollowed(ctx context.Context, sess *remote.Connection, err error) error {
	from := s.followedBefore(ctx, err)
	if from == "" || s.current != nil && s.current.snapshot.Commit == from {
		return err
	}
	s.kept = plumbing.NewHash(from)
	if before, failure := s.download(ctx, sess, s.kept); failure == nil {
		s.current = before
	}
	s.kept = plumbing.ZeroHash
	return err
}

// followedBefore is the commit that stays in force where a fetch failed because the newest revision
// is not accepted; empty for other failures, and where there is none, or it is not verified.
func (s *Source) followedBefore(ctx context.Context, err error) string {
	moved, ok := errors.AsType[*gitsource.NotFastForwardError](err)
	if !ok && (!signatureRefused(err) || s.followed == nil) {
		return ""
	}
	if ok && s.verifier == nil {
		return moved.From
	}
	was, failure := s.followed(ctx)
	if failure != nil || !was.Verified {
		return ""
	}
	s.verifier.trust(plumbing.NewHash(was.Applied))
	return was.Applied
}

// isCurrent reports whether the newest snapshot of an earlier life may be used without
// a request to the server: a mirror may be of long ago, when this process led last, and
// what was followed since must not be undone.
func (s *Source) isCurrent(ctx context.Context) bool {
	if s.followed == nil || s.ref.Branch == "" || !s.allowed.IsZero() {
		return true
	}
	was, err := s.followed(ctx)
	if err != nil || was.Commit == "" {
		return err == nil
	}
	g := newClone(s.mirror, s.limits, s.current.record)
	v, err := g.history.Reachable(ctx, plumbing.NewHash(s.current.snapshot.Commit), plumbing.NewHash(was.Commit))
	return err == nil && v.Reachable
}

// verifiedBy is what decides whether a revision is accepted: the keys, and behind which commit
// signatures are required.
func (s *Source) verifiedBy(ctx context.Context) string {
	if s.verifier == nil {
		return ""
	}
	was, err := s.applied(ctx)
	if err != nil {
		return ""
	}
	return s.verifier.keyring.Fingerprint() + " " + was.Applied
}

// applied is what was applied last.
func (s *Source) applied(ctx context.Context) (Followed, error) {
	if s.followed == nil {
		return Followed{}, nil
	}
	was, err := s.followed(ctx)
	if err != nil {
		return Followed{}, fmt.Errorf("finding out which commit was applied before: %w", err)
	}
	return was, nil
}

// wasVerified reports whether a commit that the mirror holds may be used without its signatures being
// verified once more.
func (s *Source) wasVerified(ctx context.Context, commit string) bool {
	if s.verifier == nil || s.current.snapshot.Commit == commit {
		return true
	}
	was, err := s.applied(ctx)
	return err == nil && was.Verified && was.Applied == commit
}

// verify checks the signatures that are required of what a clone holds, unless it was verified by the
// same keys. History that is needed for it is fetched.
func (s *Source) verify(ctx context.Context, sess *remote.Connection, clone string, want plumbing.Hash) error {
	v := s.verifier
	if v == nil || v.verified == want && v.verifiedBy == v.keyring.Fingerprint() {
		return nil
	}
	g := newClone(s.mirror, s.limits, mirror.Record{Clone: clone, Filtered: sess.SupportsFilter()})
	g.created = true // There is no other.
	head, _, err := g.objects.Peel(want)
	if err != nil {
		return err
	}
	if v.mode == VerifyTag || v.mode == VerifyTagAndHEAD {
		if err := v.checkTag(g.objects, s.ref.Tag, want, head); err != nil {
			return err
		}
	}
	if v.mode != VerifyTag {
		if err := v.checkCommit(g.objects, head); err != nil {
			return err
		}
	}
	if v.mode == VerifyEveryCommit {
		if err := s.verifyRange(ctx, sess, g, tip{s.ref.fullName(), want, head}); err != nil {
			return err
		}
	}
	v.trust(want)
	return nil
}

// verifyRange checks every commit that leads to head and not to what was applied last. Where
// nothing was applied, it is head alone, which is checked already.
func (s *Source) verifyRange(ctx context.Context, sess *remote.Connection, g *clone, head tip) error {
	was, err := s.applied(ctx)
	if err != nil || was.Applied == "" {
		return err
	}
	base, checked := plumbing.NewHash(was.Applied), map[plumbing.Hash]error{head.commit: nil}
	var refused error
	err = g.deepenUntil(ctx, sess, []tip{head}, func() (history.Reachability, error) {
		since, err := g.history.Range(ctx, base, head.commit)
		if err != nil {
			return history.Reachability{}, err
		}
		if refused, err = s.verifier.checkAll(g.objects, since.Commits, checked); err != nil {
			return history.Reachability{}, err
		}
		if refused != nil {
			// It counts only if it is certain that it does not lead to what was applied.
			return history.Reachability{ShallowBoundary: since.BaseBoundary}, nil
		}
		return history.Reachability{ShallowBoundary: since.Boundary}, nil
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("verifying every commit since %s: %w", was.Applied, err)
	}
	return nil
}
