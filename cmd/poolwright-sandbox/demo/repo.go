package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
)

// repo is the platform team's working copy.
type repo struct {
	// example is the folder that the first commit is a copy of.
	example string
	url     string
	user    string
	token   string
	// team owns remote at the forge.
	team   gitserver.Account
	remote gitserver.Repository

	dir string
	git *git.Repository
}

// cloneExample copies the example into a new working copy whose origin is url.
func cloneExample(example, dir, url, user, token string) (*repo, error) {
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		return nil, fmt.Errorf("copying the example: %w", err)
	}
	g, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.Main}})
	if err != nil {
		return nil, fmt.Errorf("making the working copy: %w", err)
	}
	if _, err := g.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{url}}); err != nil {
		return nil, fmt.Errorf("adding the remote: %w", err)
	}
	return &repo{example: example, url: url, user: user, token: token, dir: dir, git: g}, nil
}

// owned is the repository's path in the forge's API.
func (r *repo) owned() string { return "/repos/" + r.remote.Owner + "/" + r.remote.Name }

// branch goes on in a new branch.
func (r *repo) branch(name string) error {
	tree, err := r.git.Worktree()
	if err != nil {
		return fmt.Errorf("opening the working copy: %w", err)
	}
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName(name), Create: true}); err != nil {
		return fmt.Errorf("branching: %w", err)
	}
	return nil
}

// edit rewrites one file of the working copy.
func (r *repo) edit(name string, change func(string) (string, error)) error {
	path := filepath.Join(r.dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	changed, err := change(string(text))
	if err != nil {
		return fmt.Errorf("editing %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// push commits everything and pushes it. It returns the commit's id.
func (r *repo) push(ctx context.Context, message string) (string, error) {
	tree, err := r.git.Worktree()
	if err != nil {
		return "", fmt.Errorf("opening the working copy: %w", err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		return "", fmt.Errorf("staging: %w", err)
	}
	author := &object.Signature{Name: "Platform Team", Email: "platform@example.com", When: time.Now()}
	id, err := tree.Commit(message, &git.CommitOptions{Author: author})
	if err != nil {
		return "", fmt.Errorf("committing: %w", err)
	}
	err = r.git.PushContext(ctx, &git.PushOptions{RemoteName: "origin", Auth: &http.BasicAuth{Username: r.user, Password: r.token}})
	if err != nil {
		return "", fmt.Errorf("pushing: %w", err)
	}
	return id.String(), nil
}
