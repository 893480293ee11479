package worktree

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// server serves an empty repository by git http-backend to one user.
func server(t *testing.T) (url, repository string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git: ", err)
	}
	root := t.TempDir()
	repository = filepath.Join(root, "nodes.git")
	for _, args := range [][]string{{"init", "--quiet", "--bare", "--initial-branch=main", repository}, {"-C", repository, "config", "http.receivepack", "true"}} {
		if out, err := exec.Command(git, args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: t.Output()}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, token, ok := r.BasicAuth(); !ok || user != "team" || token != "token" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/nodes.git", repository
}

// head is the newest commit of a branch at the server.
func head(t *testing.T, repository, branch string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", repository, "rev-parse", branch).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func clone(t *testing.T, url, token string) *Tree {
	t.Helper()
	tree, err := New(t.TempDir(), url, "team", token)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func write(t *testing.T, tree *Tree, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func push(t *testing.T, tree *Tree) string {
	t.Helper()
	id, err := tree.Push(t.Context(), "Change it")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWhatIsPushedIsWhatTheBranchIs(t *testing.T) {
	url, repository := server(t)
	tree := clone(t, url, "token")
	write(t, tree, "a.yaml", "1")
	first := push(t, tree)
	if got := head(t, repository, "main"); got != first {
		t.Errorf("main is %s, and %s was pushed", got, first)
	}
	if err := os.Remove(filepath.Join(tree.Dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	write(t, tree, "b.yaml", "2")
	push(t, tree)
	out, err := exec.Command("git", "-C", repository, "ls-tree", "--name-only", "main").Output()
	if err != nil || strings.TrimSpace(string(out)) != "b.yaml" {
		t.Errorf("main has %q, %v: a file that was removed is removed", out, err)
	}
	// A history of its own takes the place of the branch, whatever that was.
	other := clone(t, url, "token")
	write(t, other, "c.yaml", "3")
	if id := push(t, other); head(t, repository, "main") != id {
		t.Error("the branch is not the unrelated commit")
	}
}

func TestABranchIsMergedAtTheServerAndPulled(t *testing.T) {
	url, repository := server(t)
	tree := clone(t, url, "token")
	write(t, tree, "a.yaml", "1")
	begin := push(t, tree)
	if err := tree.Branch("proposal"); err != nil {
		t.Fatal(err)
	}
	write(t, tree, "a.yaml", "2")
	proposed := push(t, tree)
	if head(t, repository, "main") != begin || head(t, repository, "proposal") != proposed {
		t.Error("the proposal is on main, or is not on its branch")
	}
	if out, err := exec.Command("git", "-C", repository, "update-ref", "refs/heads/main", proposed).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 2 { // The second time there is nothing new.
		if got, err := tree.Pull(t.Context(), "main"); err != nil || got != proposed {
			t.Errorf("main is pulled as %s, %v, and is %s", got, err, proposed)
		}
	}
	if content, err := os.ReadFile(filepath.Join(tree.Dir, "a.yaml")); err != nil || string(content) != "2" {
		t.Errorf("the working tree has %q, %v", content, err)
	}
}

func TestAFileIsEditedAsItIs(t *testing.T) {
	url, _ := server(t)
	tree := clone(t, url, "token")
	write(t, tree, "a.yaml", "replicas: 1\n")
	double := func(text string) (string, error) { return text + text, nil }
	if err := tree.Edit("a.yaml", double); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(tree.Dir, "a.yaml")); err != nil || string(content) != "replicas: 1\nreplicas: 1\n" {
		t.Errorf("it is %q, %v", content, err)
	}
	failed := errors.New("no such field")
	if err := tree.Edit("a.yaml", func(string) (string, error) { return "", failed }); !errors.Is(err, failed) {
		t.Errorf("the error of an edit is %v", err)
	}
	if err := tree.Edit("b.yaml", double); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error of a file that there is not is %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(tree.Dir, "a.yaml")); err != nil || len(content) != 24 {
		t.Errorf("a failed edit leaves %q, %v", content, err)
	}
}

func TestWhatTheServerRefusesIsAnError(t *testing.T) {
	url, repository := server(t)
	tree := clone(t, url, "another token")
	write(t, tree, "a.yaml", "1")
	if _, err := tree.Push(t.Context(), "Change it"); err == nil {
		t.Error("a push with another token succeeds")
	}
	if out, err := exec.Command("git", "-C", repository, "rev-parse", "--verify", "--quiet", "main").Output(); err == nil {
		t.Errorf("main is %s", out)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tree.Token = "token"
	if err := tree.PushCommits(ended); err == nil {
		t.Error("a push succeeds in a context that has ended")
	}
	if err := tree.PushCommits(t.Context()); err != nil {
		t.Errorf("the commit of before is not pushed: %v", err)
	}
}
