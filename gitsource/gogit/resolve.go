package gogit

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// Resolve requests where the reference of a configuration is now, as git ls-remote does: it transfers no object, and
// neither reads nor writes a cache. The revision is as that of a Snapshot. Whether a Ref's own Commit exists is not
// found out by that, and no signature is verified. The fields Dir, BranchState, Verification and Disk are not used, of
// Limits only the times. Errors are those of New and of Source.Fetch.
func Resolve(ctx context.Context, c Config) (revision string, err error) {
	u, err := remote.ParseURL(c.URL)
	if err != nil {
		return "", err
	}
	ref, limits := c.Ref.withDefault(), c.Limits.withDefaults()
	if err := ref.Check(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Timeout)
	defer cancel()
	server := remote.New(u, c.Credentials, limits.remote())
	if revision, err = resolve(ctx, server, ref); err != nil {
		return "", fmt.Errorf("listing the references of %s: %w", server.Name(), err)
	}
	return revision, nil
}

// CheckURL returns an error where a repository's address is none that is fetched from, which wraps gitsource.ErrInvalid. It connects
// to nothing, and repeats nothing of the address, which may hold a password.
func CheckURL(address string) error {
	_, err := remote.ParseURL(address)
	return err
}

func resolve(ctx context.Context, server *remote.Remote, ref Ref) (string, error) {
	sess, err := server.Open(ctx)
	if err != nil {
		return "", err
	}
	defer sess.Close()
	if ref.Commit != "" {
		return ref.revisionOf(ref.Commit), nil
	}
	_, commit, ok := sess.Reference(ref.fullName())
	if !ok {
		return "", fmt.Errorf("%w: the repository has no %s", gitsource.ErrNotFound, ref)
	}
	return ref.revisionOf(commit.String()), nil
}
