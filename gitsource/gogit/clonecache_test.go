package gogit

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func packsOf(t *testing.T, dir string) []string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "gen-*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("no packs in %s: %v", dir, err)
	}
	return packs
}

func TestADamagedCacheIsClonedAnew(t *testing.T) {
	flip := func(t *testing.T, name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 20; i < len(b)-20; i++ {
			b[i] ^= 0xff
		}
		_ = os.Chmod(name, 0o600)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(t *testing.T, dir string){
		"flipped bits in the pack": func(t *testing.T, dir string) { flip(t, packsOf(t, dir)[0]) },
		"a truncated pack":         func(t *testing.T, dir string) { _ = os.Truncate(packsOf(t, dir)[0], 30) },
		"a missing pack":           func(t *testing.T, dir string) { _ = os.Remove(packsOf(t, dir)[0]) },
		"a missing index": func(t *testing.T, dir string) {
			_ = os.Remove(strings.TrimSuffix(packsOf(t, dir)[0], ".pack") + ".idx")
		},
		"flipped bits in the index": func(t *testing.T, dir string) {
			flip(t, strings.TrimSuffix(packsOf(t, dir)[0], ".pack")+".idx")
		},
		"a record that is not JSON": func(t *testing.T, dir string) {
			_ = os.WriteFile(filepath.Join(dir, "last.json"), []byte("\x00"), 0o600)
		},
		"a record that leads elsewhere": func(t *testing.T, dir string) {
			b, _ := os.ReadFile(filepath.Join(dir, "last.json"))
			_ = os.WriteFile(filepath.Join(dir, "last.json"), bytes.ReplaceAll(b, []byte("gen-1"), []byte("../x")), 0o600)
		},
		"a lost clone": func(t *testing.T, dir string) { _ = os.RemoveAll(filepath.Join(dir, "gen-1")) },
	} {
		for _, moved := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", and a new commit"}[moved], func(t *testing.T) {
				srv := newGitServer(t)
				commit := srv.push("a.yaml", strings.Repeat("one\n", 50), "b.yaml", "keep\n")
				dir := t.TempDir()
				in := func(c *Config) { c.Dir = dir }
				mustFetch(t, srv.source(Ref{}, in))
				damage(t, dir)
				if moved {
					commit = srv.push("a.yaml", "two\n")
				}
				src := srv.source(Ref{}, in)
				if _, ok := src.Last(t.Context()); ok {
					t.Fatal("a damaged cache gave a last snapshot")
				}
				snap := mustFetch(t, src)
				if snap.Commit != commit || content(t, snap.FS, "b.yaml") != "keep\n" {
					t.Fatalf("commit %s", snap.Commit)
				}
			})
		}
	}
}

func TestDamageFoundWhileReadingIsMendedByTheNextFetch(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", strings.Repeat("one\n", 50))
	src := srv.source(Ref{})
	snap := mustFetch(t, src)
	for _, p := range packsOf(t, src.cache.Folder()) {
		_ = os.Chmod(p, 0o600)
		if err := os.WriteFile(p, []byte("PACK"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := snap.FS.Open("a.yaml"); err == nil {
		t.Fatal("a broken pack was read")
	}
	if got := content(t, mustFetch(t, src).FS, "a.yaml"); !strings.HasPrefix(got, "one") {
		t.Fatal(got)
	}
}

func TestACacheDoesNotCollectPacksForEver(t *testing.T) {
	srv := newGitServer(t)
	src := srv.source(Ref{})
	for i := range maxPacks + 1 {
		srv.push("a.yaml", strings.Repeat("x", i+1))
		mustFetch(t, src)
	}
	// The one before stays for who still reads it.
	entries, _ := os.ReadDir(src.cache.Folder())
	if len(entries) != 3 || len(packsOf(t, src.cache.Folder())) > maxPacks+1 {
		t.Errorf("%d entries and %d packs", len(entries), len(packsOf(t, src.cache.Folder())))
	}
	before := len(packsOf(t, src.cache.Folder()))
	again := srv.source(Ref{}, func(c *Config) { c.Dir = src.cache.Folder() })
	if snap, ok := again.Last(t.Context()); !ok || content(t, snap.FS, "a.yaml") != strings.Repeat("x", maxPacks+1) {
		t.Error("the last snapshot is lost")
	}
	if after := len(packsOf(t, src.cache.Folder())); after >= before {
		t.Errorf("a restart left the old clone: %d packs, before %d", after, before)
	}
}

// TestKilledInTheMiddleOfAFetch starts this test binary as a process that
// fetches, and kills it while the pack is arriving.
func TestKilledInTheMiddleOfAFetch(t *testing.T) {
	if dir := os.Getenv("POOLWRIGHT_TEST_FETCH_DIR"); dir != "" {
		src, err := New(Config{URL: os.Getenv("POOLWRIGHT_TEST_FETCH_URL"), Dir: dir})
		if err == nil {
			_, err = src.Fetch(context.Background())
		}
		t.Fatal("the fetch ended: ", err)
	}
	srv := newGitServer(t)
	first := srv.push("a.yaml", "one\n")
	dir := t.TempDir()
	in := func(c *Config) { c.Dir = dir }
	mustFetch(t, srv.source(Ref{}, in))
	second := srv.push("a.yaml", strings.Repeat("two\n", 100))

	arrived := make(chan struct{})
	srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "git-upload-pack") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-r.Context().Done()
	})
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInTheMiddleOfAFetch$")
	cmd.Env = append(os.Environ(), "POOLWRIGHT_TEST_FETCH_DIR="+dir, "POOLWRIGHT_TEST_FETCH_URL="+srv.url())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(time.Minute):
		t.Error("the process never asked for objects")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	srv.during(nil)

	src := srv.source(Ref{}, in)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != first {
		t.Fatal("the last snapshot is lost")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "gen-*", "objects", "pack", "tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if snap := mustFetch(t, src); snap.Commit != second {
		t.Errorf("did not recover: %s", snap.Commit)
	}
}
