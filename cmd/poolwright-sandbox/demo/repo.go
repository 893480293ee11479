package demo

import (
	"fmt"
	"os"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
)

// repo is the platform team's working tree.
type repo struct {
	*worktree.Tree
	// example is the folder that the first commit is a copy of.
	example string
	// team owns remote at the forge.
	team   gitserver.Account
	remote gitserver.Repository
}

// cloneExample copies the example into a new working tree whose origin is url.
func cloneExample(example, dir, url, user, token string) (*repo, error) {
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		return nil, fmt.Errorf("copying the example: %w", err)
	}
	tree, err := worktree.New(dir, url, user, token)
	if err != nil {
		return nil, err
	}
	return &repo{Tree: tree, example: example}, nil
}

// owned is the repository's path in the forge's API.
func (r *repo) owned() string { return "/repos/" + r.remote.Owner + "/" + r.remote.Name }
