package gogit

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// Ref names one thing to follow; at most one field is set, but for a commit of a branch. The zero Ref is
// the branch main.
type Ref struct {
	// Branch is followed to its newest commit.
	Branch string
	// Tag is resolved at each fetch.
	Tag string
	// Commit is a full 40-digit commit id in lower case. With Branch, revisions are named as those of
	// the branch are, which stays at the commit wherever it leads.
	Commit string
}

// String writes the reference as messages do.
func (r Ref) String() string {
	switch {
	case r.Commit != "":
		return "commit " + r.Commit
	case r.Tag != "":
		return fmt.Sprintf("tag %q", r.Tag)
	case r.Branch != "":
		return fmt.Sprintf("branch %q", r.Branch)
	}
	return `branch "main"`
}

func (r Ref) withDefault() Ref {
	if r == (Ref{}) {
		r.Branch = "main"
	}
	return r
}

// Check returns an error where no repository can have the reference, which wraps gitsource.ErrInvalid.
func (r Ref) Check() error {
	if r.Tag != "" && (r.Branch != "" || r.Commit != "") {
		return fmt.Errorf("reading the reference to follow: %w: set only one of branch, tag and commit", gitsource.ErrInvalid)
	}
	if r.Commit != "" {
		if !refs.IsCommitID(r.Commit) {
			return fmt.Errorf("reading the reference to follow: %w: commit %q is not 40 lower-case hexadecimal digits", gitsource.ErrInvalid, r.Commit)
		}
		return nil
	}
	for _, name := range []string{r.Branch, r.Tag} {
		if name == "" {
			continue
		}
		if err := refs.CheckName(name); err != nil {
			return fmt.Errorf("reading the reference to follow: %w: %q %w", gitsource.ErrInvalid, name, err)
		}
	}
	return nil
}

func (r Ref) fullName() string {
	if r.Tag != "" {
		return "refs/tags/" + r.Tag
	}
	return "refs/heads/" + r.Branch
}

// revisionOf is the Revision of a snapshot of this reference.
func (r Ref) revisionOf(commit string) string {
	switch {
	case r.Tag != "":
		return r.Tag + "@sha1:" + commit
	case r.Branch != "":
		return r.Branch + "@sha1:" + commit
	}
	return "sha1:" + commit
}

// moves reports whether it is a branch that is followed wherever it leads.
func (r Ref) moves() bool { return r.Branch != "" && r.Commit == "" }

// resolve finds the object to request among the advertised references: the commit, or
// for an annotated tag the tag object.
func (r Ref) resolve(sess *remote.Connection) (plumbing.Hash, error) {
	if r.Commit != "" {
		return plumbing.NewHash(r.Commit), nil
	}
	h, _, ok := sess.Reference(r.fullName())
	if !ok {
		return plumbing.ZeroHash, fmt.Errorf("%w: the repository has no %s", gitsource.ErrNotFound, r)
	}
	return h, nil
}
