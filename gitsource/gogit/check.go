package gogit

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/commitgraph"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// checkFastForward refuses to follow a branch to a commit that does not descend from the one
// before, or of which nobody can find that out, unless a person has accepted it. What
// is fetched beyond the newest commit is history without trees, and where the server
// cannot leave those out, as little as there is room for.
func (s *Source) checkFastForward(ctx context.Context, sess *remote.Connection, clone string, to plumbing.Hash) error {
	if s.branchState == nil || !s.ref.moves() || s.kept == to {
		return nil
	}
	was, err := s.branchState(ctx)
	if err != nil {
		return fmt.Errorf("finding out which commit was followed before: %w", err)
	}
	if was.Commit == "" || was.Commit == to.String() || was.allowsForcePush(to.String()) {
		return nil
	}
	g := newClone(s.cache, s.limits, clonecache.Record{Clone: clone, Filtered: sess.SupportsFilter()})
	g.created = true // There is no other.
	descends, err := g.reachable(ctx, sess, tip{s.ref.fullName(), to, to}, ancestryQuery{descendant: to, ancestor: plumbing.NewHash(was.Commit)})
	if descends || err != nil && !errors.Is(err, gitsource.ErrLimit) && !errors.Is(err, gitsource.ErrNotFound) {
		return err
	}
	return &gitsource.NotFastForwardError{Branch: s.ref.Branch, From: was.Commit, To: to.String(), Unknown: err}
}

// fetchFollowed handles a fetch that failed. Where the newest revision is refused and the
// cache does not have what was followed before, that is fetched by its id: drift from
// it is still to be corrected. Not all servers give out what no reference leads to.
func (s *Source) fetchFollowed(ctx context.Context, sess *remote.Connection, err error) error {
	from := s.followedBefore(ctx, err)
	if from == "" || s.current != nil && (s.current.snapshot.Commit == from || s.inForce()) {
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
// is refused; empty for other failures, and where there is none, or it is not verified.
func (s *Source) followedBefore(ctx context.Context, err error) string {
	moved, ok := errors.AsType[*gitsource.NotFastForwardError](err)
	if !ok && (!signatureRefused(err) || s.branchState == nil) {
		return ""
	}
	if ok && s.verifier == nil {
		return moved.From
	}
	was, failure := s.branchState(ctx)
	if failure != nil || !was.Verified {
		return ""
	}
	return was.Applied
}

// inForce reports whether the newest snapshot was verified in this life, also by the keys of now.
func (s *Source) inForce() bool {
	object := plumbing.NewHash(s.current.record.Object)
	return s.verifier != nil && s.allowed == object && s.verifier.verified[object]
}

// isCurrent reports whether the newest snapshot of an earlier life may be used without
// a request to the server: a cache may be of long ago, when this process led last, and
// what was followed since must not be undone.
func (s *Source) isCurrent(ctx context.Context) bool {
	if s.branchState == nil || !s.ref.moves() || !s.allowed.IsZero() {
		return true
	}
	was, err := s.branchState(ctx)
	if err != nil || was.Commit == "" {
		return err == nil
	}
	g := newClone(s.cache, s.limits, s.current.record)
	v, err := g.graph.Reachable(ctx, plumbing.NewHash(s.current.snapshot.Commit), plumbing.NewHash(was.Commit))
	return err == nil && v.Reachable
}

// verifiedBy is what decides whether a revision is verified: the keys, and behind which commit
// signatures are required; empty where none are.
func (s *Source) verifiedBy(ctx context.Context) (string, error) {
	if s.verifier == nil {
		return "", nil
	}
	base, err := s.base(ctx)
	return s.verifier.keyring.Fingerprint() + " " + base, err
}

// base is the commit behind which the mode EveryCommit requires signatures; empty where there is none.
func (s *Source) base(ctx context.Context) (string, error) {
	was, err := s.applied(ctx)
	if was.Base == "" && s.current != nil && !s.allowed.IsZero() {
		// It may be applied by now, and is not recorded yet.
		return s.current.snapshot.Commit, err
	}
	return was.Base, err
}

// applied is what was applied last.
func (s *Source) applied(ctx context.Context) (BranchState, error) {
	if s.branchState == nil {
		return BranchState{}, nil
	}
	was, err := s.branchState(ctx)
	if err != nil {
		return BranchState{}, fmt.Errorf("finding out which commit was applied before: %w", err)
	}
	return was, nil
}

// Verified reports of a revision that the source has returned whether it is verified still, by the keys that the
// last Fetch read, so that it may be applied; and where it is not, whether it was before it was applied as a whole, so that
// drift from it may be corrected. Both are true where no signatures are required.
func (s *Source) Verified(ctx context.Context, revision string) (apply, correct bool) {
	if s.verifier == nil {
		return true, true
	}
	commit, ok := s.commitOf(revision)
	if !ok {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified(ctx, commit)
}

func (s *Source) verified(ctx context.Context, commit string) (apply, correct bool) {
	if s.verifier == nil || s.verifier.commits[plumbing.NewHash(commit)] {
		return true, true
	}
	return false, commit != "" && s.appliedVerified(ctx) == commit
}

// appliedVerified is the commit that was applied last, where it was verified before that; else empty.
func (s *Source) appliedVerified(ctx context.Context) string {
	if was, err := s.applied(ctx); err == nil && was.Verified {
		return was.Applied
	}
	return ""
}

// commitOf is the commit of a revision of this reference, and false for others.
func (s *Source) commitOf(revision string) (string, bool) {
	commit := revision[max(0, len(revision)-40):]
	return commit, refs.IsCommitID(commit) && s.ref.revisionOf(commit) == revision
}

// verify checks the signatures that are required of what a clone holds, unless it was verified by the
// same keys. History that is needed for it is fetched.
func (s *Source) verify(ctx context.Context, sess *remote.Connection, clone string, want plumbing.Hash) error {
	v := s.verifier
	if v == nil || v.verified[want] || s.kept == want {
		return nil // What is kept was verified before it was applied, and is not verified anew by that.
	}
	g := newClone(s.cache, s.limits, clonecache.Record{Clone: clone, Filtered: sess.SupportsFilter()})
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
	v.verified[want], v.commits[head] = true, true
	return nil
}

// verifyRange checks every commit that leads to head and not to what was followed before. Where
// nothing was, it is head alone, which is checked already.
func (s *Source) verifyRange(ctx context.Context, sess *remote.Connection, g *clone, head tip) error {
	since, err := s.base(ctx)
	if err != nil || since == "" {
		return err
	}
	base, checked := plumbing.NewHash(since), map[plumbing.Hash]error{head.commit: nil}
	var refused error
	err = g.deepenUntil(ctx, sess, []tip{head}, func() (commitgraph.Reachability, error) {
		found, err := g.graph.Range(ctx, base, head.commit)
		if err != nil {
			return commitgraph.Reachability{}, err
		}
		if refused, err = s.verifier.checkAll(g.objects, found.Commits, checked); err != nil {
			return commitgraph.Reachability{}, err
		}
		if refused != nil {
			// It counts only if it is certain that it does not lead to what was applied.
			return commitgraph.Reachability{ShallowBoundary: found.BaseBoundary}, nil
		}
		return commitgraph.Reachability{ShallowBoundary: found.Boundary}, nil
	})
	if refused != nil {
		return fmt.Errorf("%w; it is none of those of %s, which was followed before: sign it and push, or accept what is below the newest commit by the mode %s until that is applied", refused, since, VerifyHEAD)
	}
	if err != nil {
		return fmt.Errorf("verifying every commit since %s, which was followed before (the mode %s until the newest is applied begins there): %w", since, VerifyHEAD, err)
	}
	return nil
}
