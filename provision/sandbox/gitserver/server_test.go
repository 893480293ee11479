package gitserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func start(t *testing.T) (*gitserver.Server, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // a first build
	t.Cleanup(cancel)
	builder, err := build.New(".", testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	reaper, err := builder.Ensure(ctx, build.Reaper())
	if err != nil {
		t.Fatal(err)
	}
	forge, err := builder.Ensure(ctx, build.Forge())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(t.TempDir(), "git-")
	if err != nil {
		t.Fatal(err)
	}
	group, err := process.NewGroup(reaper.Path, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Gitea's log:\n%s", process.Tail(filepath.Join(folder, "gitea", "gitea.log"), 40))
		}
		if err := group.Stop(context.Background()); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if err := group.Err(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the data folder is still there: %v", err)
		}
	})
	begin := time.Now()
	server, err := gitserver.Start(ctx, gitserver.Config{
		Binary: forge.Path, Assets: forge.Dir, Group: group, Dir: filepath.Join(folder, "gitea"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	return server, folder
}

func TestARealGitServerTakesPushesAndPullRequests(t *testing.T) {
	server, folder := start(t)
	owner, err := server.CreateUser(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	repository, err := server.CreateRepository(t.Context(), owner, "nodes", true)
	if err != nil {
		t.Fatal(err)
	}
	local := push(t, repository, owner)
	t.Run("what was pushed can be read back", func(t *testing.T) {
		if got := read(t, repository, owner.Token, "main"); got != "kind: NodePool\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a reading token cannot push and a wrong one cannot read", func(t *testing.T) { tokens(t, server, repository, owner, local) })
	t.Run("a pull request can be opened", func(t *testing.T) {
		number, err := server.CreatePullRequest(t.Context(), owner, repository,
			gitserver.PullRequest{Head: "change", Base: "main", Title: "Shorten consolidation"})
		if err != nil || number != 1 {
			t.Fatalf("got number %d, %v", number, err)
		}
		var pull struct {
			Mergeable bool   `json:"mergeable"`
			State     string `json:"state"`
		}
		path := "/repos/ada/nodes/pulls/1"
		if err := server.Call(t.Context(), owner, http.MethodGet, path, nil, &pull); err != nil || pull.State != "open" {
			t.Errorf("got %+v, %v", pull, err)
		}
	})
	t.Run("branches can be renamed and deleted", func(t *testing.T) { branches(t, server, repository, owner) })
	t.Run("it goes and comes back at its address", func(t *testing.T) { bounce(t, server, repository, owner) })
	t.Run("secrets are not printed", func(t *testing.T) {
		if text := fmt.Sprintf("%v %+v %#v %s", owner, owner, server.Admin(), owner); text != "ada ada platform ada" {
			t.Errorf("got %q", text)
		}
		log, err := os.ReadFile(filepath.Join(folder, "gitea", "gitea.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{owner.Token, owner.Password, server.Admin().Token, server.Admin().Password} {
			if strings.Contains(string(log), secret) {
				t.Error("a secret stands in the log")
			}
		}
	})
}

func auth(user, secret string) *githttp.BasicAuth {
	return &githttp.BasicAuth{Username: user, Password: secret}
}

// push makes main with one file and the branch "change" with another commit.
func push(t *testing.T, to gitserver.Repository, owner gitserver.Account) *git.Repository {
	t.Helper()
	folder := t.TempDir()
	local, err := git.PlainInitWithOptions(folder, &git.PlainInitOptions{
		InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("main")},
	})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, local, folder, "kind: NodePool\n")
	tree, err := local.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName("change"), Create: true}); err != nil {
		t.Fatal(err)
	}
	commit(t, local, folder, "kind: NodePool\nspec: {}\n")
	if _, err := local.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{to.URL}}); err != nil {
		t.Fatal(err)
	}
	err = local.PushContext(t.Context(), &git.PushOptions{
		Auth: auth(owner.Name, owner.Token), RefSpecs: []config.RefSpec{"refs/heads/*:refs/heads/*"},
	})
	if err != nil {
		t.Fatalf("pushing: %v", err)
	}
	return local
}

func commit(t *testing.T, local *git.Repository, folder, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "pool.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	tree, err := local.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Add("pool.yaml"); err != nil {
		t.Fatal(err)
	}
	author := &object.Signature{Name: "Ada", Email: "ada@sandbox.invalid", When: time.Unix(1_700_000_000, 0)}
	if _, err := tree.Commit("Change the pool", &git.CommitOptions{Author: author}); err != nil {
		t.Fatal(err)
	}
}

func clone(t *testing.T, from gitserver.Repository, secret, branch string) (*git.Repository, error) {
	t.Helper()
	return git.CloneContext(t.Context(), memory.NewStorage(), nil, &git.CloneOptions{
		URL: from.URL, Auth: auth("ada", secret), ReferenceName: plumbing.NewBranchReferenceName(branch), SingleBranch: true,
	})
}

func read(t *testing.T, from gitserver.Repository, secret, branch string) string {
	t.Helper()
	copied, err := clone(t, from, secret, branch)
	if err != nil {
		t.Fatal(err)
	}
	head, err := copied.Head()
	if err != nil {
		t.Fatal(err)
	}
	newest, err := copied.CommitObject(head.Hash())
	if err != nil {
		t.Fatal(err)
	}
	file, err := newest.File("pool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	content, err := file.Contents()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func tokens(t *testing.T, server *gitserver.Server, in gitserver.Repository, owner gitserver.Account, local *git.Repository) {
	t.Helper()
	reading, err := server.CreateToken(t.Context(), owner, "reader", "read:repository")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, in, reading, "main"); got == "" {
		t.Error("the reading token reads nothing")
	}
	err = local.PushContext(t.Context(), &git.PushOptions{
		Auth: auth(owner.Name, reading), RefSpecs: []config.RefSpec{"refs/heads/change:refs/heads/stolen"},
	})
	if err == nil {
		t.Error("the reading token pushed")
	}
	if _, err := clone(t, in, "wrong", "main"); err == nil {
		t.Error("a wrong token read a private repository")
	}
}

func branches(t *testing.T, server *gitserver.Server, in gitserver.Repository, owner gitserver.Account) {
	t.Helper()
	if err := server.RenameBranch(t.Context(), owner, in, "main", "trunk"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, in, owner.Token, "trunk"); got != "kind: NodePool\n" {
		t.Errorf("the renamed branch holds %q", got)
	}
	if err := server.DeleteBranch(t.Context(), owner, in, "change"); err != nil {
		t.Fatal(err)
	}
	var refused *gitserver.StatusError
	if err := server.DeleteBranch(t.Context(), owner, in, "change"); !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
		t.Errorf("deleting what is not there: %v", err)
	}
}

func bounce(t *testing.T, server *gitserver.Server, in gitserver.Repository, owner gitserver.Account) {
	t.Helper()
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := clone(t, in, owner.Token, "trunk"); err == nil {
		t.Error("a paused server answered")
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, in, owner.Token, "trunk"); got == "" {
		t.Error("the data is gone")
	}
}
