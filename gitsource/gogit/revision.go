package gogit

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
)

var (
	specialName = regexp.MustCompile(`^[A-Z_]+_HEAD$`)
	hexDigits   = regexp.MustCompile(`^[0-9a-fA-F]{4,40}$`)
)

// resolve finds the commit that a revision names.
func (l *Local) resolve(expression string) (plumbing.Hash, error) {
	fail := func(err error) (plumbing.Hash, error) {
		return plumbing.ZeroHash, fmt.Errorf("reading revision %q of the repository at %s: %w; give a branch, tag or commit (git log shows them)", expression, l.folder, err)
	}
	r, err := refs.ParseRevision(expression)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", gitsource.ErrInvalid, err))
	}
	id, err := l.lookup(r.Name)
	if err != nil {
		return fail(err)
	}
	if id, _, err = l.objects.Peel(id); err != nil {
		return fail(err)
	}
	for _, s := range r.Suffixes {
		if id, err = l.parent(id, s); err != nil {
			return fail(err)
		}
	}
	return id, nil
}

// parent goes one step towards the past.
func (l *Local) parent(id plumbing.Hash, s refs.Suffix) (plumbing.Hash, error) {
	times, parent := s.Count, 1
	if s.Nth {
		times, parent = min(s.Count, 1), s.Count
	}
	for range times {
		n, _, err := l.history.Commit(id)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if parent > len(n.Parents) {
			return plumbing.ZeroHash, fmt.Errorf("%w: commit %s has %d parents", gitsource.ErrNotFound, id, len(n.Parents))
		}
		id = n.Parents[parent-1]
		ok, err := l.history.Has(id)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if !ok {
			return plumbing.ZeroHash, fmt.Errorf("%w: the history was fetched in part only; %s", gitsource.ErrNotFound, unshallow)
		}
	}
	return id, nil
}

// lookup finds what a name stands for, in Git's order: a full id, a reference,
// the beginning of an id.
func (l *Local) lookup(name string) (plumbing.Hash, error) {
	if refs.IsCommitID(strings.ToLower(name)) {
		id := plumbing.NewHash(name)
		if err := l.store.HasEncodedObject(id); err == nil {
			return id, nil
		}
	}
	if specialName.MatchString(name) {
		if id, ok := l.special(name); ok {
			return id, nil
		}
	}
	candidates := []string{"refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name, "refs/remotes/" + name + "/HEAD"}
	if name == "HEAD" || strings.HasPrefix(name, "refs/") {
		candidates = append([]string{name}, candidates...)
	}
	for _, full := range candidates {
		ref, err := storer.ResolveReference(l.store, plumbing.ReferenceName(full))
		if err == nil {
			return ref.Hash(), nil
		}
		if full == "HEAD" && errors.Is(err, plumbing.ErrReferenceNotFound) {
			return plumbing.ZeroHash, fmt.Errorf("%w: nothing is committed on it yet", gitsource.ErrEmpty)
		}
	}
	if hexDigits.MatchString(name) {
		return l.abbreviated(name)
	}
	if shallow, err := l.store.Shallow(); err == nil && len(shallow) > 0 {
		return plumbing.ZeroHash, fmt.Errorf("%w: there is no such branch, tag or commit here, and the history was fetched in part only; %s", gitsource.ErrNotFound, unshallow)
	}
	return plumbing.ZeroHash, fmt.Errorf("%w: there is no such branch, tag or commit", gitsource.ErrNotFound)
}

// special reads FETCH_HEAD and its like, which begin with an id and go on with
// what is of no use here.
func (l *Local) special(name string) (plumbing.Hash, bool) {
	f, err := l.store.Filesystem().Open(name)
	if err != nil {
		return plumbing.ZeroHash, false
	}
	defer f.Close()
	id := make([]byte, 2*len(plumbing.ZeroHash))
	if _, err := io.ReadFull(f, id); err != nil || !refs.IsCommitID(string(id)) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(string(id)), true
}

// abbreviated finds the one commit or tag whose id begins so.
func (l *Local) abbreviated(digits string) (plumbing.Hash, error) {
	digits = strings.ToLower(digits)
	prefix, err := hex.DecodeString(digits[:len(digits)/2*2])
	if err != nil {
		return plumbing.ZeroHash, err
	}
	ids, err := l.store.HashesWithPrefix(prefix)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("finding the commit: %w", err)
	}
	var found []plumbing.Hash
	for _, id := range ids {
		if !strings.HasPrefix(id.String(), digits) || !bytes.HasPrefix(id[:], prefix) {
			continue
		}
		obj, err := l.store.EncodedObject(plumbing.AnyObject, id)
		if err == nil && (obj.Type() == plumbing.CommitObject || obj.Type() == plumbing.TagObject) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, fmt.Errorf("%w: no commit's id begins so", gitsource.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return plumbing.ZeroHash, fmt.Errorf("%w: the ids of %d commits begin so; give more digits", gitsource.ErrInvalid, len(found))
}
