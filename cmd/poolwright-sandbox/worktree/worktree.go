// Package worktree is a person's clone of a repository of the sandbox's Git server: files
// are edited in it, committed and pushed.
//
// Start reading at New.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
)

// Tree is a working tree with its repository.
type Tree struct {
	// Dir is where the files are.
	Dir string
	// URL is the origin, which User reaches with Token.
	URL, User, Token string
	git              *git.Repository
}

// New makes a repository with the branch main in a folder, which may have files in it.
func New(dir, url, user, token string) (*Tree, error) {
	g, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.Main}})
	if err != nil {
		return nil, fmt.Errorf("making the working tree: %w", err)
	}
	if _, err := g.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{url}}); err != nil {
		return nil, fmt.Errorf("adding the remote: %w", err)
	}
	return &Tree{Dir: dir, URL: url, User: user, Token: token, git: g}, nil
}

// Branch goes on in a new branch.
func (t *Tree) Branch(name string) error {
	tree, err := t.git.Worktree()
	if err != nil {
		return fmt.Errorf("opening the working tree: %w", err)
	}
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName(name), Create: true}); err != nil {
		return fmt.Errorf("branching: %w", err)
	}
	return nil
}

// Pull goes on in a branch as it is at the origin, and returns its commit's id.
func (t *Tree) Pull(ctx context.Context, branch string) (string, error) {
	tree, err := t.git.Worktree()
	if err != nil {
		return "", fmt.Errorf("opening the working tree: %w", err)
	}
	name := plumbing.NewBranchReferenceName(branch)
	if err := tree.Checkout(&git.CheckoutOptions{Branch: name}); err != nil {
		return "", fmt.Errorf("checking %s out: %w", branch, err)
	}
	err = tree.PullContext(ctx, &git.PullOptions{RemoteName: "origin", ReferenceName: name, Auth: t.auth()})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		return "", fmt.Errorf("pulling %s: %w", branch, err)
	}
	head, err := t.git.Head()
	if err != nil {
		return "", fmt.Errorf("reading the head of %s: %w", branch, err)
	}
	return head.Hash().String(), nil
}

func (t *Tree) auth() *http.BasicAuth { return &http.BasicAuth{Username: t.User, Password: t.Token} }

// Edit rewrites one file of the working tree.
func (t *Tree) Edit(name string, change func(string) (string, error)) error {
	path := filepath.Join(t.Dir, name)
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

// Push commits everything and makes it what the branch is on the server, whatever that was. It
// returns the commit's id.
func (t *Tree) Push(ctx context.Context, message string) (string, error) {
	id, err := t.Commit(message)
	if err != nil {
		return "", err
	}
	return id, t.PushCommits(ctx)
}

// Commit commits everything. It returns the commit's id.
func (t *Tree) Commit(message string) (string, error) {
	tree, err := t.git.Worktree()
	if err != nil {
		return "", fmt.Errorf("opening the working tree: %w", err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		return "", fmt.Errorf("staging: %w", err)
	}
	author := &object.Signature{Name: "Platform Team", Email: "platform@example.com", When: time.Now()}
	id, err := tree.Commit(message, &git.CommitOptions{Author: author})
	if err != nil {
		return "", fmt.Errorf("committing: %w", err)
	}
	return id.String(), nil
}

// PushCommits makes what was committed what the branch is on the server, whatever that was.
func (t *Tree) PushCommits(ctx context.Context) error {
	err := t.git.PushContext(ctx, &git.PushOptions{RemoteName: "origin", Force: true, Auth: &http.BasicAuth{Username: t.User, Password: t.Token}})
	if err != nil {
		return fmt.Errorf("pushing: %w", err)
	}
	return nil
}
