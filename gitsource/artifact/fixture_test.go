package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
)

// entry is one entry of an archive, a regular file where it has no type.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content}
}

func folder(name string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}}
}

// archive makes an archive as source-controller does.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// digestOf is the digest of an archive, as Flux writes it.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// server is a source-controller: it has one artifact, and serves archives by path.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	archives map[string][]byte
	artifact fluxmeta.Artifact
	missing  error
	requests int
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{archives: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests++
		b, ok := s.archives[r.URL.Path]
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	return s
}

// publish makes an archive the newest artifact.
func (s *server) publish(revision string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := "/" + revision + ".tar.gz"
	s.archives[path] = b
	s.artifact = fluxmeta.Artifact{URL: s.URL + path, Revision: revision, Digest: digestOf(b)}
}

// set changes the artifact.
func (s *server) set(change func(*fluxmeta.Artifact)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.artifact)
}

func (s *server) resolve(context.Context) (fluxmeta.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.artifact, s.missing
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// source is a Source of the server's artifact, with small limits.
func (s *server) source(dir string) *Source {
	return New(Config{Name: "GitRepository flux-system/nodes", Resolve: s.resolve, Dir: dir, Limits: Limits{
		ArchiveBytes: 1 << 20, UnpackedBytes: 2 << 20, Files: 100, NameBytes: 1 << 16, FileBytes: 1 << 20,
	}})
}

// contents are the files of a tree, by name.
func contents(t testing.TB, tree fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(tree, name)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
