package gogit

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

const password = "hunter2-s3cret"

func fails(t *testing.T, s *Source, want error) string {
	t.Helper()
	snap, err := s.Fetch(context.Background())
	if !errors.Is(err, want) {
		t.Fatalf("got %v (snapshot %q), want %v", err, snap.Revision, want)
	}
	if strings.Contains(err.Error(), password) {
		t.Fatalf("the password is in the message: %v", err)
	}
	return err.Error()
}

func demand(user, pass string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if u, p, _ := r.BasicAuth(); u != user || p != pass {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			// A server that echoes what it was sent must not get it into a log.
			http.Error(w, "denied: "+p, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func TestCredentials(t *testing.T) {
	srv := newGitServer(t)
	commit := srv.push("a.yaml", "one\n")
	srv.during(demand("git", password))

	t.Run("none where some are needed", func(t *testing.T) {
		if msg := fails(t, srv.source(Ref{}), gitsource.ErrUnauthorized); !strings.Contains(msg, "secretRef") {
			t.Errorf("message does not say what to do: %s", msg)
		}
	})
	t.Run("a token without a user name, rotated while running", func(t *testing.T) {
		token := atomic.Value{}
		token.Store("wrong-" + password)
		src := srv.source(Ref{}, func(c *Config) {
			c.Credentials = func(context.Context) (Credentials, error) {
				return Credentials{Password: token.Load().(string)}, nil
			}
		})
		fails(t, src, gitsource.ErrUnauthorized)
		token.Store(password)
		if snap := mustFetch(t, src); snap.Commit != commit {
			t.Errorf("commit %s", snap.Commit)
		}
		token.Store("expired")
		fails(t, src, gitsource.ErrUnauthorized)
		if snap, ok := src.Last(t.Context()); !ok || snap.Commit != commit {
			t.Error("the last snapshot is lost with the credentials")
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		srv.during(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			http.Error(w, password, http.StatusForbidden)
		})
		fails(t, srv.source(Ref{}, login("git", password)), gitsource.ErrUnauthorized)
	})
	t.Run("never shown when printed", func(t *testing.T) {
		c := Credentials{Username: "u", Password: password}
		for _, s := range []string{c.String(), c.GoString()} {
			if strings.Contains(s, password) {
				t.Error(s)
			}
		}
	})
}

func TestWhatIsGoneIsNotFoundAndComesBack(t *testing.T) {
	srv := newGitServer(t)
	fails(t, srv.source(Ref{}), gitsource.ErrEmpty)
	commit := srv.push("a.yaml", "one\n")
	src := srv.source(Ref{})
	mustFetch(t, src)

	fails(t, srv.source(Ref{Branch: "none"}), gitsource.ErrNotFound)
	fails(t, srv.source(Ref{Tag: "none"}), gitsource.ErrNotFound)
	fails(t, srv.source(Ref{Commit: strings.Repeat("ab", 20)}), gitsource.ErrNotFound)
	fails(t, srv.source(Ref{}, func(c *Config) { c.URL = srv.Server.URL + "/other.git" }), gitsource.ErrNotFound)

	srv.gitIn(filepath.Join(srv.root, "repo.git"), "branch", "-m", "main", "moved")
	fails(t, src, gitsource.ErrNotFound)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != commit {
		t.Error("the last snapshot went with the branch")
	}
	srv.gitIn(filepath.Join(srv.root, "repo.git"), "branch", "-m", "moved", "main")
	mustFetch(t, src)

	srv.gitIn(filepath.Join(srv.root, "repo.git"), "update-ref", "-d", "refs/heads/main")
	fails(t, src, gitsource.ErrEmpty)
}

func TestCredentialsDoNotFollowARedirect(t *testing.T) {
	srv := newGitServer(t)
	commit := srv.push("a.yaml", "one\n")
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()

	for _, at := range []string{"/info/refs", "/git-upload-pack"} {
		srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, at) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			next.ServeHTTP(w, r)
		})
		_, err := srv.source(Ref{}, login("git", password)).Fetch(context.Background())
		if err == nil || visits.Load() > 0 {
			t.Fatalf("redirect at %s: %v, %d visits to the other host", at, err, visits.Load())
		}
		if at == "/info/refs" && !errors.Is(err, gitsource.ErrRedirected) {
			t.Errorf("got %v", err)
		}
	}

	srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/old.git") {
			http.Redirect(w, r, strings.Replace(r.URL.String(), "/old.git", "/repo.git", 1), http.StatusMovedPermanently)
			return
		}
		next.ServeHTTP(w, r)
	})
	if snap := mustFetch(t, srv.source(Ref{}, func(c *Config) { c.URL = srv.Server.URL + "/old.git" })); snap.Commit != commit {
		t.Error("a repository renamed on the same server is not followed")
	}
}

// keepsTheLastSnapshot breaks a server and repairs it: meanwhile a fetch of the next commit has
// one class of error, and the last snapshot stays. One that stalls is waited for shortly.
func keepsTheLastSnapshot(t *testing.T, srv *gitServer, want error, breaks, repairs func(), with ...func(*Config)) {
	t.Helper()
	first := srv.push("a.yaml", "one\n")
	dir := t.TempDir()
	in := func(c *Config) { c.Dir = dir }
	mustFetch(t, srv.source(Ref{}, in))
	if strings.Contains(t.Name(), "stalls") || strings.Contains(t.Name(), "never") {
		with = append(with, impatient)
	}
	src := srv.source(Ref{}, append(with, in)...)
	second := srv.push("a.yaml", strings.Repeat("two\n", 100), "b.yaml", "other\n")
	breaks()
	_, err := src.Fetch(context.Background())
	if err == nil || !errors.Is(err, want) || strings.Contains(err.Error(), password) {
		t.Fatalf("got %v, want %v", err, want)
	}
	t.Log(err)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != first || content(t, snap.FS, "a.yaml") != "one\n" {
		t.Fatal("the last snapshot is lost")
	}
	repairs()
	if snap := mustFetch(t, srv.source(Ref{}, in)); snap.Commit != second {
		t.Fatalf("did not recover: %s", snap.Commit)
	}
}

func impatient(c *Config) { c.Limits.IdleTimeout = 200 * time.Millisecond }

func TestABrokenServerKeepsTheLastSnapshot(t *testing.T) {
	for name, begin := range transports() {
		t.Run(name, func(t *testing.T) { aBrokenServerKeepsTheLastSnapshot(t, begin) })
	}
}

func aBrokenServerKeepsTheLastSnapshot(t *testing.T, begin func(*testing.T) *gitServer) {
	block := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		// Only a request that was read to its end notices that the client left.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	only := func(suffix string, f func(http.ResponseWriter, *http.Request, http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, suffix) {
				f(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	// part sends half of the pack and then does what it is told.
	part := func(then func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			b := rec.Body.Bytes()
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			_, _ = w.Write(b[:len(b)/2])
			_ = http.NewResponseController(w).Flush()
			then(w, r)
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, password, code) }
	}
	for name, c := range map[string]struct {
		server func(http.ResponseWriter, *http.Request, http.Handler)
		want   error
	}{
		"it never responds":                  {block, gitsource.ErrUnreachable},
		"it stalls before the objects":       {only("git-upload-pack", block), gitsource.ErrUnreachable},
		"it stalls in the middle of them":    {only("git-upload-pack", part(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })), gitsource.ErrUnreachable},
		"it resets in the middle of them":    {only("git-upload-pack", part(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), gitsource.ErrUnreachable},
		"it ends early and calls that whole": {only("git-upload-pack", part(func(http.ResponseWriter, *http.Request) {})), gitsource.ErrCorrupt},
		"it closes the connection unheard": {func(http.ResponseWriter, *http.Request, http.Handler) {
			panic(http.ErrAbortHandler)
		}, gitsource.ErrUnreachable},
		"it is overloaded":        {status(503), gitsource.ErrUnreachable},
		"it throttles":            {status(429), gitsource.ErrUnreachable},
		"it fails at the objects": {only("git-upload-pack", status(500)), gitsource.ErrUnreachable},
		"it is no Git server": {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			_, _ = io.WriteString(w, "<html>"+password)
		}, gitsource.ErrCorrupt},
		"it lists references without end": {only("/info/refs", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			pkt := func(s string) []byte { return fmt.Appendf(nil, "%04x%s", len(s)+4, s) }
			id := strings.Repeat("a", 40)
			_, _ = w.Write(append(pkt("# service=git-upload-pack\n"), "0000"...))
			_, _ = w.Write(pkt(id + " refs/heads/main\x00side-band-64k\n"))
			line := bytes.Repeat(pkt(id+" refs/heads/main\n"), 1000)
			for {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}), gitsource.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := begin(t)
			keepsTheLastSnapshot(t, srv, c.want, func() { srv.during(c.server) }, func() { srv.during(nil) })
		})
	}
	t.Run("the host is down", func(t *testing.T) {
		srv := begin(t)
		srv.push("a.yaml", "one\n")
		src := srv.source(Ref{})
		mustFetch(t, src)
		srv.Close()
		fails(t, src, gitsource.ErrUnreachable)
	})
	t.Run("the caller's deadline passes", func(t *testing.T) {
		srv := begin(t)
		srv.during(block)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := srv.source(Ref{}).Fetch(ctx)
		if !errors.Is(err, gitsource.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func TestAPrivateCertificateAuthorityIsTrustedWhenGiven(t *testing.T) {
	srv := newGitServer(t)
	commit := srv.push("a.yaml", "one\n")
	secure := httptest.NewTLSServer(srv.Config.Handler)
	defer secure.Close()
	there := func(c *Config) { c.URL = secure.URL + "/repo.git" }
	if msg := fails(t, srv.source(Ref{}, there), gitsource.ErrUnreachable); !strings.Contains(msg, "ca.crt") {
		t.Errorf("message does not say what to do: %s", msg)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	trusting := func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) { return Credentials{CABundle: ca}, nil }
	}
	if snap := mustFetch(t, srv.source(Ref{}, there, trusting)); snap.Commit != commit {
		t.Error(snap.Commit)
	}
	garbage := func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) {
			return Credentials{CABundle: []byte("no")}, nil
		}
	}
	fails(t, srv.source(Ref{}, there, garbage), gitsource.ErrInvalid)
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, raw := range []string{
		"", "repo", "git@host:x/y", "git@host:" + password, "ssh://host/x", "ssh://git:" + password + "@host/x", "ssh://git@host", "ssh://git@host:0/x", "ssh://git@host:99999/x",
		"ssh://git@:22/x", "ssh://-oProxyCommand=x@host/x", "ssh://git@host/x?a", "ssh://git@host/a%0ab", "ssh+git://git@host/x", "file:///etc", "git://host/x", "http://example.com/x", "https://user:" + password + "@host/x",
		"https://host/x?token=" + password, "https://host/x#f", "https://", "https:///x", "https://host", "https://host/", "http://127.0.0.1.example.com/x",
		"https://ho st/x", "ext::sh -c id", "https://host/x\n", "--upload-pack=x",
		"https://dev.azure.com/o/p/_git/x", "ssh://git@ssh.dev.azure.com/v3/o/p/x", "https://o.visualstudio.com/p/_git/x",
	} {
		_, err := New(Config{URL: raw, Dir: t.TempDir()})
		if !errors.Is(err, gitsource.ErrInvalid) || strings.Contains(err.Error(), password) {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for _, ref := range []Ref{
		{Branch: "../../x"}, {Branch: "a..b"}, {Branch: "-x"}, {Branch: "a b"}, {Branch: "x.lock"}, {Branch: "/a"}, {Branch: "a/"},
		{Branch: "a//b"}, {Branch: ".a"}, {Branch: "a@{b"}, {Tag: "a:b"}, {Tag: "a\x00"}, {Commit: "abc"}, {Commit: strings.Repeat("A", 40)},
		{Branch: "a", Tag: "b"}, {Branch: strings.Repeat("a", 256)}, {Commit: strings.Repeat("0", 40)},
	} {
		if _, err := New(Config{URL: "https://host/x", Ref: ref, Dir: t.TempDir()}); !errors.Is(err, gitsource.ErrInvalid) {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	if _, err := New(Config{URL: "https://host/x"}); !errors.Is(err, gitsource.ErrInvalid) {
		t.Errorf("no folder: %v", err)
	}
}

func TestAFolderThatCannotBeWrittenToIsNotTheServersFault(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	src := srv.source(Ref{})
	// A file in place of the folder: unlike permissions, that stops root too.
	if err := errors.Join(os.RemoveAll(src.cache.Folder()), os.WriteFile(src.cache.Folder(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := src.Fetch(context.Background())
	if err == nil || errors.Is(err, gitsource.ErrUnreachable) || errors.Is(err, gitsource.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsHaveAnEnd(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	requested := atomic.Int32{}
	srv.during(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, fmt.Sprintf("/%d%s", requested.Add(1), r.URL.Path), http.StatusFound)
	})
	fails(t, srv.source(Ref{}, login("git", password)), gitsource.ErrUnreachable)
	if requested.Load() != 10 {
		t.Errorf("%d requests", requested.Load())
	}
}
