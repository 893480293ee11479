package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
)

// repo is a team's working copy. What Git should say is written to it file by
// file, then pushed.
type repo struct {
	t         *testing.T
	dir       string
	git       *git.Repository
	user      string
	token     string
	branch    string
	committed string
	// signer signs commits, where it is set.
	signer git.Signer
}

func newRepo(t *testing.T, url, user, token, branch string) *repo {
	t.Helper()
	dir := t.TempDir()
	g, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.Main}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{url}}); err != nil {
		t.Fatal(err)
	}
	return &repo{t: t, dir: dir, git: g, user: user, token: token, branch: branch}
}

func (r *repo) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) remove(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit makes the working copy a commit and pushes it. It returns the revision
// as a Sync's status names it.
func (r *repo) commit(message string) string {
	r.t.Helper()
	id := r.commitOnly(message)
	if r.committed == "" {
		// The first branch becomes the default one, which Gitea does not let go.
		r.push("+refs/heads/main:refs/heads/main")
	}
	r.committed = id
	r.push("+refs/heads/main:refs/heads/" + r.branch)
	return r.revision()
}

// commitOnly makes the working copy a commit of the branch that is checked out, and
// pushes nothing.
func (r *repo) commitOnly(message string) string {
	r.t.Helper()
	tree, err := r.git.Worktree()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		r.t.Fatal(err)
	}
	author := &object.Signature{Name: "Platform Team", Email: "platform@example.com", When: time.Now()}
	id, err := tree.Commit(message, &git.CommitOptions{Author: author, AllowEmptyCommits: true, Signer: r.signer})
	if err != nil {
		r.t.Fatal(err)
	}
	return id.String()
}

// takes makes the followed branch, as the server has it now, the working copy.
func (r *repo) takes(commit string) {
	r.t.Helper()
	err := r.git.FetchContext(r.t.Context(), &git.FetchOptions{
		RemoteName: "origin", RefSpecs: []config.RefSpec{config.RefSpec("+refs/heads/" + r.branch + ":refs/remotes/origin/" + r.branch)},
		Auth: &http.BasicAuth{Username: r.user, Password: r.token},
	})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		r.t.Fatal(err)
	}
	tree, err := r.git.Worktree()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tree.Reset(&git.ResetOptions{Commit: plumbing.NewHash(commit), Mode: git.HardReset}); err != nil {
		r.t.Fatal(err)
	}
	r.committed = commit
}

// revision is the newest commit as a Sync's status names it.
func (r *repo) revision() string { return r.branch + "@sha1:" + r.committed }

// push sends references; one that starts with a colon deletes.
func (r *repo) push(spec string) {
	r.t.Helper()
	err := r.git.PushContext(r.t.Context(), &git.PushOptions{
		RemoteName: "origin", RefSpecs: []config.RefSpec{config.RefSpec(spec)},
		Auth: &http.BasicAuth{Username: r.user, Password: r.token},
	})
	if err != nil {
		r.t.Fatalf("pushing %s: %v", spec, err)
	}
}
