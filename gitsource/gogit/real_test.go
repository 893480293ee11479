package gogit_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
)

// TestPullRequestsOfARealGiteaAreCompared has Gitea make the references that
// pull requests have, with the capabilities that it offers by default.
func TestPullRequestsOfARealGiteaAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: a real Gitea takes seconds to start")
	}
	target := sandboxtest.Start(t, sandbox.DefaultConfig())
	ctx := t.Context()
	ada, err := target.Git.CreateUser(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := target.Git.CreateRepository(ctx, ada, "nodes", true)
	if err != nil {
		t.Fatal(err)
	}
	c := clone{t: t, folder: t.TempDir()}
	mergeBase, base, head := c.pushDivergedBranches(nodes, ada)
	number, err := target.Git.CreatePullRequest(ctx, ada, nodes, gitserver.PullRequest{Head: "change", Base: "main", Title: "Shorten consolidation"})
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	r, err := gogit.Open(gogit.Config{
		URL: nodes.URL, Dir: cache,
		Credentials: func(context.Context) (gogit.Credentials, error) {
			return gogit.Credentials{Username: ada.Name, Password: ada.Token}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	pull := fmt.Sprintf("refs/pull/%d/head", number)
	got, err := r.Compare(ctx, "refs/heads/main", pull)
	if err != nil {
		t.Fatal(err)
	}
	if got.Base.Commit != base || got.Head.Commit != head || got.MergeBase.Commit != mergeBase {
		t.Errorf("base %s, head %s, merge base %s; want %s, %s, %s", got.Base.Commit, got.Head.Commit, got.MergeBase.Commit, base, head, mergeBase)
	}
	if record, err := os.ReadFile(filepath.Join(cache, "last.json")); err != nil || !strings.Contains(string(record), `"Filtered":true`) {
		t.Errorf("Gitea gave commits with their files: %s, %v", record, err)
	}
	merge := c.merge("change")
	for _, commit := range []string{mergeBase, head, base} {
		if yes, err := r.Contains(ctx, "refs/heads/main", merge, commit); err != nil || !yes {
			t.Errorf("the merge holds %s: %v, %v", commit, yes, err)
		}
	}
	if yes, err := r.Contains(ctx, "refs/heads/main", base, merge); err != nil || yes {
		t.Errorf("the commit before the merge holds it: %v, %v", yes, err)
	}
}

// clone is a working copy that pushes over HTTP.
type clone struct {
	t      *testing.T
	folder string
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = c.folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %s failed: %v", args[0], err) // the output may hold the address with the token
	}
	return strings.TrimSpace(string(out))
}

func (c clone) commit(file, content string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.folder, file), []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "change")
	return c.git("rev-parse", "HEAD")
}

// pushDivergedBranches pushes main with 120 commits and the branch "change" that branched off
// it 60 commits before its end.
func (c clone) pushDivergedBranches(to gitserver.Repository, as gitserver.Account) (mergeBase, base, head string) {
	c.t.Helper()
	address, err := url.Parse(to.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	address.User = url.UserPassword(as.Name, as.Token)
	c.git("init", "-q", "-b", "main")
	c.git("remote", "add", "origin", address.String())
	for i := range 60 {
		mergeBase = c.commit("pool.yaml", fmt.Sprintf("kind: NodePool # %d\n", i))
	}
	c.git("branch", "change")
	for i := range 60 {
		base = c.commit("other.yaml", fmt.Sprintf("kind: EC2NodeClass # %d\n", i))
	}
	c.git("checkout", "-q", "change")
	head = c.commit("new.yaml", "kind: NodeOverlay\n")
	c.git("push", "-q", "origin", "main", "change")
	c.git("checkout", "-q", "main")
	return mergeBase, base, head
}

func (c clone) merge(branch string) string {
	c.t.Helper()
	c.git("merge", "-q", "--no-ff", "--no-edit", branch)
	c.git("push", "-q", "origin", "main")
	return c.git("rev-parse", "HEAD")
}
