package gogit

import (
	"context"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

// gitServer is git http-backend behind net/http, with a place to interfere.
type gitServer struct {
	*httptest.Server
	t    *testing.T
	root string
	work string
	// packs counts requests for objects, lists requests for references.
	packs, lists atomic.Int32
	// date is when commits are made, in seconds; 0 is the same for all.
	date int64
	// ssh serves the same repositories, and url is its where it is set; key may read them.
	ssh *sshtest.Server
	key sshtest.Key
	// secured is the server for https, where there is one.
	secured *httptest.Server
	// with is how the server is reached, where it is neither by plain http nor by ssh.
	with      func(*Config)
	mu        sync.Mutex
	interfere func(http.ResponseWriter, *http.Request, http.Handler)
}

func newGitServer(t *testing.T) *gitServer {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("git is needed for this test: ", err)
	}
	s := &gitServer{t: t, root: t.TempDir(), work: t.TempDir()}
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + s.root, "GIT_CONFIG_NOSYSTEM=1"},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			s.lists.Add(1)
		} else {
			s.packs.Add(1)
		}
		s.mu.Lock()
		f := s.interfere
		s.mu.Unlock()
		if f != nil {
			f(w, r, backend)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.gitIn(s.root, "init", "-q", "--bare", "-b", "main", "repo.git")
	s.gitIn(filepath.Join(s.root, "repo.git"), "config", "uploadpack.allowReachableSHA1InWant", "true")
	s.git("init", "-q", "-b", "main")
	s.git("remote", "add", "origin", filepath.Join(s.root, "repo.git"))
	return s
}

func (s *gitServer) during(f func(http.ResponseWriter, *http.Request, http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interfere = f
}

// transfers is the number of transfers so far.
func (s *gitServer) transfers() int {
	_, packs := s.counts()
	return packs
}

// newSSHServer is a server whose url is one of ssh.
func newSSHServer(t *testing.T) *gitServer {
	t.Helper()
	s := newGitServer(t)
	s.ssh, s.key = sshtest.New(t, s.root), sshtest.NewKey(t, sshtest.ED25519)
	s.ssh.Authorize(s.key.Public())
	return s
}

// overEach runs a test by http and by ssh.
func overEach(t *testing.T, f func(t *testing.T, begin func(*testing.T) *gitServer)) {
	t.Helper()
	for name, begin := range map[string]func(*testing.T) *gitServer{"over http": newGitServer, "over ssh": newSSHServer} {
		t.Run(name, func(t *testing.T) { f(t, begin) })
	}
}

// Close ends both servers.
func (s *gitServer) Close() {
	s.Server.Close()
	if s.ssh != nil {
		s.ssh.Close()
	}
	if s.secured != nil {
		s.secured.Close()
	}
}

func (s *gitServer) url() string {
	if s.ssh != nil {
		return s.ssh.URL("repo.git")
	}
	return s.Server.URL + "/repo.git"
}

// config is what follows the repository, with what logs in there.
func (s *gitServer) config(change []func(*Config)) Config {
	s.t.Helper()
	c := Config{URL: s.url(), Dir: s.t.TempDir()}
	if s.ssh != nil {
		identity(s.key.PEM(""), s.ssh.KnownHosts(), "")(&c)
	}
	if s.with != nil {
		s.with(&c)
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// counts are the numbers of lists of references and of transfers so far.
func (s *gitServer) counts() (lists, packs int) {
	if s.ssh != nil {
		return int(s.ssh.Connections.Load()), int(s.ssh.Requests.Load())
	}
	return int(s.lists.Load()), int(s.packs.Load())
}

func (s *gitServer) git(args ...string) string { return s.gitIn(s.work, args...) }

func (s *gitServer) gitIn(dir string, args ...string) string { return s.run(dir, "", args...) }

// input runs git in the working copy with something to read.
func (s *gitServer) input(text string, args ...string) string { return s.run(s.work, text, args...) }

func (s *gitServer) run(dir, input string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.date) * time.Second).Format(time.RFC3339)
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE="+date)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits the given files (name, content, name, content …) and pushes the
// current branch. It returns the commit.
func (s *gitServer) push(files ...string) string {
	s.t.Helper()
	s.write(files...)
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", "change")
	s.git("push", "-q", "--force", "origin", "HEAD")
	return s.git("rev-parse", "HEAD")
}

func (s *gitServer) write(files ...string) {
	s.t.Helper()
	for i := 0; i < len(files); i += 2 {
		p := filepath.Join(s.work, files[i])
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[i+1]), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *gitServer) source(ref Ref, change ...func(*Config)) *Source {
	s.t.Helper()
	c := s.config(change)
	c.Ref = ref
	src, err := New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return src
}

func identity(key, knownHosts []byte, passphrase string) func(*Config) {
	return func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) {
			return Credentials{Identity: key, KnownHosts: knownHosts, Password: passphrase}, nil
		}
	}
}

func login(user, password string) func(*Config) {
	return func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) {
			return Credentials{Username: user, Password: password}, nil
		}
	}
}
