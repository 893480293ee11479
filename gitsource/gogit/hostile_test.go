package gogit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// raw stores an object as it is, whatever Git thinks of it, and returns its id.
func (s *gitServer) raw(kind, content string) string {
	s.t.Helper()
	cmd := exec.Command("git", "hash-object", "-t", kind, "-w", "--stdin", "--literally")
	cmd.Dir = filepath.Join(s.root, "repo.git")
	cmd.Stdin = strings.NewReader(content)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git hash-object: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// treeEntry writes one entry of a tree object.
func treeEntry(mode, name, id string) string {
	b, _ := hex.DecodeString(id)
	return mode + " " + name + "\x00" + string(b)
}

// point makes a commit of a tree the tip of main.
func (s *gitServer) point(tree string) {
	s.t.Helper()
	id := s.raw("commit", "tree "+tree+"\nauthor a <a@example.com> 1767225600 +0000\ncommitter a <a@example.com> 1767225600 +0000\n\nx\n")
	s.gitIn(filepath.Join(s.root, "repo.git"), "update-ref", "refs/heads/main", id)
}

func TestTreesThatNoHonestRepositoryHoldsAreRefused(t *testing.T) {
	srv := newGitServer(t)
	blob := srv.raw("blob", "x")
	sub := srv.raw("tree", treeEntry("100644", "f", blob))
	for name, tree := range map[string]string{
		"a file named ..":          treeEntry("100644", "..", blob),
		"a folder named ..":        treeEntry("40000", "..", sub),
		"a file named .":           treeEntry("100644", ".", blob),
		"a path for a name":        treeEntry("100644", "../../etc/passwd", blob),
		"an absolute name":         treeEntry("100644", "/etc/passwd", blob),
		"a .git":                   treeEntry("40000", ".git", sub),
		"a .GIT deep inside":       treeEntry("40000", "a", srv.raw("tree", treeEntry("40000", ".GIT", sub))),
		"two files of one name":    treeEntry("100644", "a", blob) + treeEntry("100644", "a", blob),
		"a file and folder as one": treeEntry("100644", "a", blob) + treeEntry("40000", "a", sub),
	} {
		t.Run(name, func(t *testing.T) {
			srv.point(srv.raw("tree", tree))
			src := srv.source(Ref{})
			fails(t, src, gitsource.ErrUnsafe)
			before := srv.transfers()
			fails(t, src, gitsource.ErrUnsafe)
			if srv.transfers() != before {
				t.Error("a refused revision was transferred again")
			}
		})
	}
	t.Run("a tree that is cut short", func(t *testing.T) {
		// upload-pack itself refuses to walk such a tree.
		srv.point(srv.raw("tree", treeEntry("100644", "a", blob)[:12]))
		if _, err := srv.source(Ref{}).Fetch(t.Context()); err == nil {
			t.Error("it was accepted")
		}
	})
}

func TestEntriesThatCannotBeReadFailOnlyWhoNeedsThem(t *testing.T) {
	srv := newGitServer(t)
	blob := srv.raw("blob", "x")
	link := func(target string) string { return srv.raw("blob", target) }
	sub := srv.raw("tree", treeEntry("120000", "back", link("../top"))+treeEntry("120000", "out", link("../../top")))
	srv.point(srv.raw("tree", treeEntry("100644", "bad\\name", blob)+
		treeEntry("100644", "bad\xffname", blob)+
		treeEntry("120000", "abs", link("/etc/passwd"))+
		treeEntry("120000", "dir", link("sub"))+
		treeEntry("120000", "etc", link("../../../../../../etc/passwd"))+
		treeEntry("120000", "long", link(strings.Repeat("a/", 4096)))+
		treeEntry("120000", "loop1", link("loop2"))+
		treeEntry("120000", "loop2", link("loop1"))+
		treeEntry("120000", "self", link("self/x"))+
		treeEntry("160000", "module", strings.Repeat("ab", 20))+
		treeEntry("40000", "sub", sub)+
		treeEntry("100755", "top", blob)))
	fsys := mustFetch(t, srv.source(Ref{})).FS

	for _, name := range []string{"top", "dir/back", "sub/back"} {
		if b, err := fs.ReadFile(fsys, name); err != nil || string(b) != "x" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, want := range map[string]error{
		"abs": gitsource.ErrUnsafe, "etc": gitsource.ErrUnsafe, "dir/out": gitsource.ErrUnsafe, "sub/out": gitsource.ErrUnsafe,
		"loop1": gitsource.ErrUnsafe, "self": gitsource.ErrUnsafe, "long": gitsource.ErrLimit,
		"module": gitsource.ErrUnsafe, "module/x": gitsource.ErrUnsafe, `"bad\\name"`: gitsource.ErrUnsafe, `"bad\xffname"`: gitsource.ErrUnsafe,
		"none": fs.ErrNotExist, "top/x": fs.ErrNotExist, "../top": fs.ErrInvalid, "/top": fs.ErrInvalid, "": fs.ErrInvalid,
	} {
		for op, err := range map[string]error{
			"ReadFile": second(fs.ReadFile(fsys, name)), "Open": second(fsys.Open(name)),
		} {
			var pe *fs.PathError
			if !errors.Is(err, want) || !errors.As(err, &pe) || pe.Path != name {
				t.Errorf("%s %q: %v, want %v", op, name, err, want)
			}
		}
	}
	if err := second(fs.ReadFile(fsys, "module")); !strings.Contains(err.Error(), "submodule") {
		t.Error(err)
	}
	names := map[string]fs.FileMode{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		names[p] = d.Type()
		return err
	})
	if err != nil || names["module"] != fs.ModeIrregular || names["dir"] != fs.ModeSymlink || names["dir/back"] != 0 || len(names) != 15 {
		t.Errorf("walk: %v, %v", err, names)
	}
	if target, err := fs.ReadLink(fsys, "dir"); err != nil || target != "sub" {
		t.Errorf("readlink: %q, %v", target, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestRepositoriesBeyondALimitAreRefused(t *testing.T) {
	overEach(t, repositoriesBeyondALimitAreRefused)
}

func repositoriesBeyondALimitAreRefused(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	big := make([]byte, 300<<10)
	for i := range big {
		big[i] = byte(i * i >> 8 * 7)
	}
	blob := srv.raw("blob", "x")
	large := srv.raw("blob", string(big))
	deep := srv.raw("tree", treeEntry("100644", "f", blob))
	for range 12 {
		deep = srv.raw("tree", treeEntry("40000", "d", deep))
	}
	bomb := srv.raw("tree", treeEntry("100644", "f", blob))
	for range 9 {
		many := ""
		for i := range 10 {
			many += treeEntry("40000", fmt.Sprintf("d%d", i), bomb)
		}
		bomb = srv.raw("tree", many)
	}
	for name, c := range map[string]struct {
		tree  string
		limit func(*Limits)
	}{
		"a large file":                        {srv.raw("tree", treeEntry("100644", "f", large)), func(l *Limits) { l.ObjectBytes = 200 << 10 }},
		"a large transfer":                    {srv.raw("tree", treeEntry("100644", "f", large)), func(l *Limits) { l.PackBytes = 1 << 10 }},
		"much to unpack":                      {srv.raw("tree", treeEntry("100644", "f", large)), func(l *Limits) { l.UnpackedBytes = 200 << 10 }},
		"many objects":                        {deep, func(l *Limits) { l.Objects = 5 }},
		"deep folders":                        {deep, func(l *Limits) { l.Depth = 10 }},
		"a billion files made of few folders": {bomb, func(*Limits) {}},
	} {
		t.Run(name, func(t *testing.T) {
			srv.point(c.tree)
			t.Log(fails(t, srv.source(Ref{}, func(cfg *Config) { c.limit(&cfg.Limits) }), gitsource.ErrLimit))
		})
	}
	t.Run("a file that is too large to read leaves the others readable", func(t *testing.T) {
		srv.point(srv.raw("tree", treeEntry("100644", "big", large)+treeEntry("100644", "small", blob)))
		fsys := mustFetch(t, srv.source(Ref{}, func(c *Config) { c.Limits.FileBytes = 1 << 10 })).FS
		if err := second(fs.ReadFile(fsys, "big")); !errors.Is(err, gitsource.ErrLimit) {
			t.Error(err)
		}
		if content(t, fsys, "small") != "x" {
			t.Error("the small one is lost")
		}
	})
}

// TestABombIsFoundBeforeItGoesOff serves 64 MiB of zeroes in a pack of some
// 64 KiB and measures what refusing it takes.
func TestABombIsFoundBeforeItGoesOff(t *testing.T) {
	srv := newGitServer(t)
	zeroes := srv.raw("blob", string(make([]byte, 64<<20)))
	srv.point(srv.raw("tree", treeEntry("100644", "f", zeroes)))
	src := srv.source(Ref{})
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fails(t, src, gitsource.ErrLimit)
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 8 {
		t.Errorf("refusing a bomb allocated %d MiB", got)
	}
}
