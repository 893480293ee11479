package gogit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// Repository reads revisions of one remote repository, for pull requests. It
// is safe for concurrent use; transfers run one after the other.
type Repository struct {
	limits Limits
	remote *remote.Remote
	cache  *clonecache.Cache

	mu      sync.Mutex
	current *clone
	// refused keeps pairs that broke a limit, are unsafe or share nothing, so that they
	// are not transferred again at every comparison.
	refused map[pair]error
}

// maxRefused bounds what is kept of failures, whose messages hold names of files.
const maxRefused = 256

// Open checks the configuration, writes nothing and connects to nothing. c.Ref is ignored. Errors wrap gitsource.ErrInvalid where the
// configuration is wrong.
func Open(c Config) (*Repository, error) {
	u, err := remote.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Dir == "" {
		return nil, fmt.Errorf("opening the cache: %w: no folder given", gitsource.ErrInvalid)
	}
	limits := c.Limits.withDefaults()
	return &Repository{
		limits: limits, remote: remote.New(u, c.Credentials, limits.remote()), cache: clonecache.Open(c.Dir, u.String()+"\ncompare", limits.PackBytes, c.Disk),
		refused: map[pair]error{},
	}, nil
}

// Compare fetches what two full reference names ("refs/heads/main",
// "refs/pull/7/head") point at, and their merge base: the newest
// one, if there are several. When neither has moved since an earlier call it
// costs one request. Its errors are those of gitsource.Source; references
// that are gone, and histories that share nothing, are ErrNotFound.
func (r *Repository) Compare(ctx context.Context, base, head string) (gitsource.Comparison, error) {
	fail := func(err error) (gitsource.Comparison, error) {
		return gitsource.Comparison{}, fmt.Errorf("comparing %s with %s in %s: %w", head, base, r.remote.Name(), err)
	}
	for _, name := range []string{base, head} {
		if err := refs.CheckFullName(name); err != nil {
			return fail(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()

	sess, err := r.remote.Open(ctx)
	if err != nil {
		return fail(err)
	}
	defer sess.Close()
	b, err := find(sess, base)
	if err != nil {
		return fail(err)
	}
	h, err := find(sess, head)
	if err != nil {
		return fail(err)
	}
	key := pair{b.commit, h.commit}
	if err := r.refused[key]; err != nil {
		return fail(err)
	}
	var c gitsource.Comparison
	err = r.within(sess.SupportsFilter(), func(g *clone) error {
		c, err = g.compare(ctx, sess, b, h)
		return err
	})
	if err != nil {
		r.refuse(key, err)
		return fail(err)
	}
	return c, nil
}

// CompareCached returns once more what Compare found between two commits, from the cache and
// without a request to the server; false where it is not known or not present any more. So
// nobody needs to keep Comparisons, whose trees take memory.
func (r *Repository) CompareCached(base, head gitsource.Revision) (gitsource.Comparison, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.restore()
	if g == nil {
		return gitsource.Comparison{}, false
	}
	return g.recall(tipOf(base), tipOf(head))
}

// refuse keeps an error that the same pair would run into again.
func (r *Repository) refuse(key pair, err error) {
	if !errors.Is(err, gitsource.ErrLimit) && !errors.Is(err, gitsource.ErrUnsafe) && !errors.Is(err, errUnrelated) {
		return
	}
	if len(r.refused) >= maxRefused {
		clear(r.refused)
	}
	r.refused[key] = err
}

// Contains reports whether ancestor is commit itself or one of its ancestors,
// both being commits that the reference leads to or led to. What is already
// known costs no request; commits never change. A commit that the reference
// does not lead to is ErrNotFound.
func (r *Repository) Contains(ctx context.Context, ref, commit, ancestor string) (bool, error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("finding commit %s in the history of %s in %s: %w", ancestor, commit, r.remote.Name(), err)
	}
	for _, id := range []string{commit, ancestor} {
		if !refs.IsCommitID(id) {
			return fail(fmt.Errorf("%w: %q is not 40 lower-case hexadecimal digits", gitsource.ErrInvalid, id))
		}
	}
	if err := refs.CheckFullName(ref); err != nil {
		return fail(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()

	q := ancestryQuery{descendant: plumbing.NewHash(commit), ancestor: plumbing.NewHash(ancestor)}
	if g := r.restore(); g != nil {
		if v, err := g.graph.Reachable(ctx, q.descendant, q.ancestor); err == nil && v.Certain() {
			return v.Reachable, nil
		}
	}
	sess, err := r.remote.Open(ctx)
	if err != nil {
		return fail(err)
	}
	defer sess.Close()
	tip, err := find(sess, ref)
	if err != nil {
		return fail(err)
	}
	yes := false
	err = r.within(sess.SupportsFilter(), func(g *clone) error {
		yes, err = g.reachable(ctx, sess, tip, q)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return yes, nil
}

func find(sess *remote.Connection, name string) (tip, error) {
	object, commit, ok := sess.Reference(name)
	if !ok {
		return tip{}, fmt.Errorf("%w: the repository has no %s (any more)", gitsource.ErrNotFound, name)
	}
	return tip{name: name, object: object, commit: commit}, nil
}

// restore returns the current clone, from the cache after a restart; nil
// when there is none, or it is damaged.
func (r *Repository) restore() *clone {
	if r.current == nil {
		if rec, ok := r.cache.Last(); ok {
			r.current = newClone(r.cache, r.limits, rec)
		}
	}
	if r.current != nil && (r.current.objects.Damaged() || !r.cache.HasClone(r.current.record.Clone)) {
		r.current = nil
	}
	return r.current
}

// within runs f on the current clone, or on a new one when there is none,
// it is damaged, full, or was filled from a server that filters otherwise.
func (r *Repository) within(filtered bool, f func(*clone) error) error {
	if g := r.restore(); g != nil && g.record.Filtered == filtered {
		err := f(g)
		damaged := errors.Is(err, gitsource.ErrCorrupt) || g.objects.Damaged()
		if !damaged && !errors.Is(err, errNewCloneNeeded) {
			return errors.Join(err, r.keep(g))
		}
		if damaged {
			// What the cache had may be what is broken: once more, from nothing.
			r.current = nil
		}
	}
	name, err := r.cache.NewClone()
	if err != nil {
		return err
	}
	g := newClone(r.cache, r.limits, clonecache.Record{Clone: name, Filtered: filtered})
	g.created = true
	err = f(g)
	if errors.Is(err, gitsource.ErrCorrupt) || !g.dirty {
		r.cache.Drop(name)
		return err
	}
	// What was transferred before a failure serves the next call.
	g.created = false
	r.current = g
	return errors.Join(err, r.keep(g))
}

// keep records what was added to a clone.
func (r *Repository) keep(g *clone) error {
	if !g.dirty || len(g.record.Tips) == 0 {
		return nil
	}
	g.record.Object = g.record.Tips[len(g.record.Tips)-1]
	if err := r.cache.Commit(&g.record); err != nil {
		return err
	}
	g.dirty = false
	return nil
}
