package gogit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
)

// noise makes content that no compression makes smaller.
func noise() func(n int) string {
	random := rand.NewChaCha8([32]byte{1})
	return func(n int) string {
		b := make([]byte, n)
		random.Read(b)
		return string(b)
	}
}

// small are limits under which a cache fills up within a few pushes, and a budget of
// exactly what it may take at most: with less, some fetch would be refused.
func small(c *Config) {
	c.Limits.PackBytes = 300 << 10
	c.Disk = NewDisk(c.Dir, smallBudget)
}

const smallBudget = 3 * 300 << 10

func TestACacheTakesAtMostThreeTransfersOnDisk(t *testing.T) {
	t.Run("of a source", func(t *testing.T) {
		t.Parallel()
		srv, content := newGitServer(t), noise()
		src := srv.source(Ref{}, small)
		for i, size := range []int{280, 280, 140, 140, 140, 280, 10, 280, 70, 70, 70, 70, 70, 290, 10, 290, 1, 1, 280} {
			commit := srv.push("a.bin", content(size<<10))
			snap := mustFetch(t, src)
			if snap.Commit != commit || disk.Usage(src.cache.Folder()) > smallBudget {
				t.Fatalf("push %d: commit %s, %d bytes", i, snap.Commit, disk.Usage(src.cache.Folder()))
			}
			readAll(t, snap.FS)
		}
	})
	t.Run("of pull requests", func(t *testing.T) {
		t.Parallel()
		srv, content := newForge(t), noise()
		srv.push("a.yaml", "one\n")
		r := srv.repository(small)
		for i, size := range []int{280, 280, 140, 140, 280, 10, 280, 70, 70, 70, 290, 290} {
			srv.topic("topic", "main")
			srv.files("c.bin", content(size<<10))
			head := srv.pull(1)
			c := mustCompare(t, r, mainRef, pullRef)
			if c.Head.Commit != head || disk.Usage(r.cache.Folder()) > smallBudget {
				t.Fatalf("push %d: commit %s, %d bytes", i, c.Head.Commit, disk.Usage(r.cache.Folder()))
			}
			readAll(t, c.Head.FS)
		}
	})
}

func TestABudgetIsSharedAndNeverExceeded(t *testing.T) {
	srv, content := newGitServer(t), noise()
	root := t.TempDir()
	budget := NewDisk(root, 500<<10)
	at := func(name string) func(*Config) {
		return func(c *Config) { c.Dir, c.Disk = filepath.Join(root, name), budget }
	}
	first := srv.push("a.bin", content(200<<10))
	one := srv.source(Ref{}, at("one"))
	mustFetch(t, one)
	mustFetch(t, srv.source(Ref{}, at("two")))

	second := srv.push("a.bin", content(200<<10))
	fails(t, one, gitsource.ErrStorage)
	if used := disk.Usage(root); used > 500<<10 {
		t.Errorf("%d bytes", used)
	}
	if snap, ok := one.Last(t.Context()); !ok || snap.Commit != first {
		t.Error("the last snapshot is lost")
	}
	packs := srv.transfers()
	fails(t, one, gitsource.ErrStorage)
	if srv.transfers() > packs {
		t.Error("it was transferred again though nothing had changed")
	}
	fails(t, srv.source(Ref{}, at("three")), gitsource.ErrStorage)
	if left := packFiles(t, root, "tmp-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	if err := os.RemoveAll(filepath.Join(root, "two")); err != nil {
		t.Fatal(err)
	}
	if snap := mustFetch(t, one); snap.Commit != second {
		t.Errorf("did not recover: %s", snap.Commit)
	}
}

func packFiles(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "gen-*", "objects", "pack", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAFullDiskIsSurvived fills a real one: this test binary runs once more with a
// small tmpfs of its own, in a user and a mount namespace.
func TestAFullDiskIsSurvived(t *testing.T) {
	const inside = "POOLWRIGHT_TEST_TMPFS"
	if os.Getenv(inside) != "" {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
		for name, run := range map[string]func(*testing.T, string){
			"a source":                      sourceOnAFullDisk,
			"a repository of pull requests": repositoryOnAFullDisk,
			"read-only":                     sourceOnAReadOnlyDisk,
		} {
			t.Run(name, func(t *testing.T) { run(t, dir) })
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestAFullDiskIsSurvived$")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte("operation not permitted")) {
		t.Skipf("this machine lets nobody make a namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// filled leaves so many bytes free on the volume of dir for as long as f takes.
func filled(t *testing.T, dir string, free int64, f func()) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, int64(fs.Bavail)*fs.Bsize-free), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(filler) }()
	f()
}

// budgets are what is left on the disk: nothing, and enough for the first steps of a
// transfer of 64 KiB: its folder, part of the pack, the pack, its completion, its index.
var budgets = []int64{0, 4 << 10, 16 << 10, 64 << 10, 68 << 10, 72 << 10, 76 << 10, 128 << 10, 132 << 10, 140 << 10}

func sourceOnAFullDisk(t *testing.T, volume string) {
	content := noise()
	refused := 0
	for _, capacity := range budgets {
		srv := newGitServer(t)
		dir := filepath.Join(volume, "cache")
		in := func(c *Config) { c.Dir = dir }
		filled(t, volume, 0, func() { fails(t, srv2(srv, content).source(Ref{}, in), gitsource.ErrStorage) })
		src := srv.source(Ref{}, in)
		first := mustFetch(t, src)
		second := srv.push("a.bin", content(64<<10), "b.yaml", strings.Repeat("b\n", 2000)+"two\n")
		filled(t, volume, capacity, func() {
			_, err := src.Fetch(t.Context())
			if err == nil {
				return // That was room enough.
			}
			refused++
			if !errors.Is(err, gitsource.ErrStorage) || !strings.Contains(err.Error(), "--cache-dir") {
				t.Errorf("with %d bytes free: %v", capacity, err)
			}
			for _, s := range []*Source{src, srv.source(Ref{}, in)} {
				snap, ok := s.Last(t.Context())
				if !ok || snap.Commit != first.Commit {
					t.Fatalf("with %d bytes free the last snapshot is lost", capacity)
				}
				readAll(t, snap.FS)
			}
		})
		for _, s := range []*Source{src, srv.source(Ref{}, in)} {
			snap := mustFetch(t, s)
			if snap.Commit != second {
				t.Errorf("with %d bytes free: did not recover", capacity)
			}
			readAll(t, snap.FS)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if refused < 4 {
		t.Errorf("the disk was full in %d of %d cases only", refused, len(budgets))
	}
}

// srv2 pushes the first commit, whose files the second changes in part.
func srv2(srv *gitServer, content func(int) string) *gitServer {
	srv.push("a.bin", content(64<<10), "b.yaml", strings.Repeat("b\n", 2000))
	return srv
}

func repositoryOnAFullDisk(t *testing.T, volume string) {
	content := noise()
	for _, capacity := range budgets {
		srv := srv2(newForge(t), content)
		dir := filepath.Join(volume, "cache")
		in := func(c *Config) { c.Dir = dir }
		r := srv.repository(in)
		for i := range 2 {
			srv.topic("topic", "main")
			srv.files("c.bin", content(64<<10), "b.yaml", fmt.Sprintf("%s%d\n", strings.Repeat("b\n", 2000), i))
			head := srv.pull(1)
			filled(t, volume, capacity, func() {
				if _, err := r.Compare(t.Context(), mainRef, pullRef); err != nil && !errors.Is(err, gitsource.ErrStorage) {
					t.Errorf("with %d bytes free: %v", capacity, err)
				}
			})
			for _, r := range []*Repository{r, srv.repository(in)} {
				c := mustCompare(t, r, mainRef, pullRef)
				if c.Head.Commit != head {
					t.Errorf("with %d bytes free: did not recover", capacity)
				}
				readAll(t, c.Head.FS)
				readAll(t, c.Base.FS)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func sourceOnAReadOnlyDisk(t *testing.T, volume string) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can have a volume remounted read-only in this way")
	}
	srv := newGitServer(t)
	first := srv.push("a.yaml", "one\n")
	dir := filepath.Join(volume, "cache")
	in := func(c *Config) { c.Dir = dir }
	src := srv.source(Ref{}, in)
	mustFetch(t, src)
	second := srv.push("a.yaml", "two\n")
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", volume, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	for _, s := range []*Source{src, srv.source(Ref{}, in)} {
		fails(t, s, gitsource.ErrStorage)
		if snap, ok := s.Last(t.Context()); !ok || snap.Commit != first {
			t.Error("the last snapshot is lost")
		}
	}
	remount(0)
	if snap := mustFetch(t, src); snap.Commit != second {
		t.Error("did not recover")
	}
}
