package gogit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

func TestADamagedRepositoryCacheIsBegunAnew(t *testing.T) {
	flip := func(name string) error {
		b, err := os.ReadFile(name)
		for i := 20; i < len(b)-20; i++ {
			b[i] ^= 0xff
		}
		return errors.Join(err, os.Chmod(name, 0o600), os.WriteFile(name, b, 0o600))
	}
	each := func(pattern string, f func(string) error) func(dir string) error {
		return func(dir string) error {
			names, err := filepath.Glob(filepath.Join(dir, "gen-*", "objects", "pack", pattern))
			for _, n := range names {
				err = errors.Join(err, f(n))
			}
			return err
		}
	}
	record := func(from, to string) func(dir string) error {
		return func(dir string) error {
			name := filepath.Join(dir, "last.json")
			b, err := os.ReadFile(name)
			return errors.Join(err, os.WriteFile(name, bytes.ReplaceAll(b, []byte(from), []byte(to)), 0o600))
		}
	}
	for name, damage := range map[string]func(dir string) error{
		"flipped bits in packs":       each("*.pack", flip),
		"flipped bits in indexes":     each("*.idx", flip),
		"packs that are cut short":    each("*.pack", func(n string) error { return os.Truncate(n, 40) }),
		"packs that are gone":         each("*.pack", os.Remove),
		"indexes that are gone":       each("*.idx", os.Remove),
		"packs and indexes gone":      each("pack-*", os.Remove),
		"a clone that is gone":        func(dir string) error { return os.RemoveAll(filepath.Join(dir, "gen-1")) },
		"a record that is not JSON":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "last.json"), []byte("{"), 0o600) },
		"a record that leads astray":  record("gen-1", "../../x"),
		"a record with invalid tips":  record(`"Tips":["`, `"Tips":["zz","`),
		"a record with untrue trees":  record(`"Trees":["`, `"Trees":["`+strings.Repeat("ab", 20)+`","`),
		"a record of another address": record(`"Identity":"`, `"Identity":"ff`),
	} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moved: %v", name, moved), func(t *testing.T) {
				t.Parallel()
				srv := newForge(t)
				mergeBase, head := onePull(srv)
				running := srv.repository()
				mustCompare(t, running, mainRef, pullRef)
				if err := damage(running.cache.Folder()); err != nil {
					t.Fatal(err)
				}
				if moved {
					srv.git("checkout", "-q", "topic")
					srv.files("c.yaml", "again\n")
					head = srv.pull(1)
				}
				restarted := srv.repository(func(c *Config) { c.Dir = running.cache.Folder() })
				for _, r := range []*Repository{restarted, running} {
					c, err := r.Compare(t.Context(), mainRef, pullRef)
					if err != nil {
						t.Fatal(err)
					}
					if c.MergeBase.Commit != mergeBase || c.Head.Commit != head {
						t.Errorf("merge base %s, head %s", c.MergeBase.Commit, c.Head.Commit)
					}
					if r == restarted {
						readAll(t, c.Head.FS)
						readAll(t, c.Base.FS)
					}
				}
			})
		}
	}
}

func TestDamageFoundWhileReadingAComparisonIsMendedByTheNext(t *testing.T) {
	srv := newForge(t)
	onePull(srv)
	r := srv.repository()
	c := mustCompare(t, r, mainRef, pullRef)
	for _, p := range packsOf(t, r.cache.Folder()) {
		if err := errors.Join(os.Chmod(p, 0o600), os.WriteFile(p, []byte("PACK"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fs.ReadFile(c.Head.FS, "deep/b.yaml"); err == nil {
		t.Fatal("a broken pack was read")
	}
	readAll(t, mustCompare(t, r, mainRef, pullRef).Head.FS)
}

func TestARepositoryCacheDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	random := rand.NewChaCha8([32]byte{})
	small := func(c *Config) { c.Limits.PackBytes = 300 << 10 }
	r := srv.repository(small)
	var before gitsource.Comparison
	newest := ""
	for i := range 10 {
		b := make([]byte, 200<<10)
		random.Read(b)
		srv.topic("topic", "main")
		srv.files("c.bin", string(b))
		srv.pull(1)
		c := mustCompare(t, r, mainRef, pullRef)
		if got := content(t, c.Head.FS, "c.bin"); got != string(b) {
			t.Fatalf("pull request %d has other content", i)
		}
		if i > 0 {
			readAll(t, before.Head.FS)
		}
		before = c
		if n := packBytes(t, r); n > 2*3*300<<10 {
			t.Fatalf("after %d pull requests the cache has %d bytes", i+1, n)
		}
		clones, _ := filepath.Glob(filepath.Join(r.cache.Folder(), "gen-*"))
		if len(clones) > 2 {
			t.Fatalf("%d clones", len(clones))
		}
		newest = clones[len(clones)-1]
	}
	if strings.HasSuffix(newest, "gen-1") {
		t.Error("there was never a new clone")
	}
}

// TestKilledInTheMiddleOfAComparison starts this test binary as a process that
// compares, and kills it while a pack is arriving.
func TestKilledInTheMiddleOfAComparison(t *testing.T) {
	if dir := os.Getenv("POOLWRIGHT_TEST_COMPARE_DIR"); dir != "" {
		r, err := Open(Config{URL: os.Getenv("POOLWRIGHT_TEST_COMPARE_URL"), Dir: dir})
		if err == nil {
			_, err = r.Compare(context.Background(), mainRef, pullRef)
		}
		t.Fatal("the comparison ended: ", err)
	}
	for transfer := range 4 {
		t.Run(fmt.Sprintf("transfer %d", transfer+1), func(t *testing.T) {
			t.Parallel()
			srv := newForge(t)
			mergeBase, head := onePull(srv)
			dir := t.TempDir()
			in := func(c *Config) { c.Dir = dir }
			if transfer >= 2 { // of an existing cache
				mustCompare(t, srv.repository(in), mainRef, pullRef)
				srv.git("checkout", "-q", "topic")
				srv.files("c.yaml", "again\n")
				head = srv.pull(1)
			}
			killDuring(t, srv, dir, transfer%2)
			r := srv.repository(in)
			if left, _ := filepath.Glob(filepath.Join(dir, "gen-*", "objects", "pack", "tmp-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			c := mustCompare(t, r, mainRef, pullRef)
			if c.Head.Commit != head || c.MergeBase.Commit != mergeBase {
				t.Errorf("head %s, merge base %s", c.Head.Commit, c.MergeBase.Commit)
			}
			readAll(t, c.Head.FS)
		})
	}
}

// killDuring kills a process that compares while the transfer with that number
// arrives.
func killDuring(t *testing.T, srv *gitServer, dir string, transfer int) {
	t.Helper()
	arrived := make(chan struct{})
	srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "git-upload-pack") {
			if transfer--; transfer < 0 {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
				_ = http.NewResponseController(w).Flush()
				close(arrived)
				<-r.Context().Done()
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInTheMiddleOfAComparison$")
	cmd.Env = append(os.Environ(), "POOLWRIGHT_TEST_COMPARE_DIR="+dir, "POOLWRIGHT_TEST_COMPARE_URL="+srv.url())
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
}
