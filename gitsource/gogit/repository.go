package gogit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/poolwright/poolwright/gitsource"
)

// Repository reads revisions of one remote repository, for pull requests. It
// is safe for concurrent use; transfers run one after the other.
type Repository struct {
	limits Limits
	remote *remote
	mirror *mirror

	mu      sync.Mutex
	current *generation
	// refused remembers pairs that broke a limit, are unsafe or share nothing,
	// so that they are not transferred again at every look.
	refused map[pair]error
}

// pair is two commits, base first.
type pair struct{ base, head plumbing.Hash }

// maxRefused bounds what is remembered of refusals, whose messages hold names of files.
const maxRefused = 256

// Open checks the configuration, writes nothing and connects to nothing. c.Ref is ignored. Errors wrap gitsource.ErrInvalid where the
// configuration is wrong.
func Open(c Config) (*Repository, error) {
	u, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Dir == "" {
		return nil, fmt.Errorf("opening the mirror: %w: no folder given", gitsource.ErrInvalid)
	}
	limits := c.Limits.withDefaults()
	return &Repository{
		limits: limits, remote: newRemote(u, c.Credentials, limits), mirror: openMirror(c, limits, u.String()+"\ncompare"),
		refused: map[pair]error{},
	}, nil
}

// Compare fetches what two full reference names ("refs/heads/main",
// "refs/pull/7/head") point at, and the commit where they parted: the newest
// one, if there are several. When neither has moved since an earlier call it
// costs one request. Its errors are those of gitsource.Source; references
// that are gone, and histories that share nothing, are ErrNotFound.
func (r *Repository) Compare(ctx context.Context, base, head string) (gitsource.Comparison, error) {
	fail := func(err error) (gitsource.Comparison, error) {
		return gitsource.Comparison{}, fmt.Errorf("comparing %s with %s in %s: %w", head, base, r.remote.name(), err)
	}
	for _, name := range []string{base, head} {
		if err := validFullName(name); err != nil {
			return fail(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()

	sess, err := r.remote.open(ctx)
	if err != nil {
		return fail(err)
	}
	b, err := find(sess.adv, base)
	if err != nil {
		return fail(err)
	}
	h, err := find(sess.adv, head)
	if err != nil {
		return fail(err)
	}
	key := pair{b.commit, h.commit}
	if err := r.refused[key]; err != nil {
		return fail(err)
	}
	var c gitsource.Comparison
	err = r.within(filtering(sess.adv), func(g *generation) error {
		c, err = g.compare(ctx, sess, b, h)
		return err
	})
	if err != nil {
		r.refuse(key, err)
		return fail(err)
	}
	return c, nil
}

// Recall returns once more what Compare found between two commits, from the mirror and
// without asking the server; false where it is not known or not held any more. So
// nobody needs to keep Comparisons, whose trees take memory.
func (r *Repository) Recall(base, head gitsource.Revision) (gitsource.Comparison, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.restore()
	if g == nil {
		return gitsource.Comparison{}, false
	}
	return g.recall(tipOf(base), tipOf(head))
}

func tipOf(r gitsource.Revision) tip {
	id := plumbing.NewHash(r.Commit)
	return tip{name: r.Ref, object: id, commit: id}
}

// refuse remembers an error that the same pair would meet again.
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
		return false, fmt.Errorf("looking for commit %s in the history of %s in %s: %w", ancestor, commit, r.remote.name(), err)
	}
	for _, id := range []string{commit, ancestor} {
		if !isCommit(id) {
			return fail(fmt.Errorf("%w: %q is not 40 lower-case hexadecimal digits", gitsource.ErrInvalid, id))
		}
	}
	if err := validFullName(ref); err != nil {
		return fail(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()

	q := ancestryQuery{descendant: plumbing.NewHash(commit), ancestor: plumbing.NewHash(ancestor)}
	if g := r.restore(); g != nil {
		if v, err := g.contains(ctx, q); err == nil && v.certain() {
			return v.reachable, nil
		}
	}
	sess, err := r.remote.open(ctx)
	if err != nil {
		return fail(err)
	}
	tip, err := find(sess.adv, ref)
	if err != nil {
		return fail(err)
	}
	yes := false
	err = r.within(filtering(sess.adv), func(g *generation) error {
		yes, err = g.ask(ctx, sess, tip, q)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return yes, nil
}

// tip is what a reference points at.
type tip struct {
	name string
	// object is what to ask the server for: the commit, or the annotated tag
	// that leads to it.
	object, commit plumbing.Hash
}

func find(adv *packp.AdvRefs, name string) (tip, error) {
	h, ok := adv.References[name]
	if !ok {
		return tip{}, fmt.Errorf("%w: the repository has no %s (any more)", gitsource.ErrNotFound, name)
	}
	t := tip{name: name, object: h, commit: h}
	if peeled, ok := adv.Peeled[name]; ok {
		t.commit = peeled
	}
	return t, nil
}

// snapshotName is a reference as Revision shows it: branches and tags by their
// short name, as a Source does, anything else in full.
func snapshotName(ref string) string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(ref, prefix); ok {
			return short
		}
	}
	return ref
}

// validFullName accepts branches, tags and heads of pull requests.
func validFullName(name string) error {
	invalid := func(err error) error {
		return fmt.Errorf("reading the reference %q: %w: %w", name, gitsource.ErrInvalid, err)
	}
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			if err := validRefName(short); err != nil {
				return invalid(fmt.Errorf("it %w", err))
			}
			return nil
		}
	}
	if number, ok := strings.CutPrefix(name, "refs/pull/"); ok {
		number, ok = strings.CutSuffix(number, "/head")
		if n, err := strconv.ParseUint(number, 10, 63); ok && err == nil && n > 0 && number == strconv.FormatUint(n, 10) {
			return nil
		}
	}
	return invalid(errors.New("give refs/heads/<branch>, refs/tags/<tag> or refs/pull/<number>/head"))
}
