package dir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

func write(t *testing.T, root, name, content string) {
	t.Helper()
	p := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, root string, l Limits) gitsource.Snapshot {
	t.Helper()
	s, err := New(root, l).Fetch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRevisionFollowsContentNamesAndKindsAndNothingElse(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/b.yaml", "x: 1\n")
	write(t, root, ".git/HEAD", "ref: refs/heads/main\n")
	first := fetch(t, root, Limits{})
	if !strings.HasPrefix(first.Revision, "dir@sha256:") || len(first.TreeID) != 71 {
		t.Fatalf("revision %q, tree %q", first.Revision, first.TreeID)
	}
	write(t, root, ".git/HEAD", "ref: refs/heads/other\n")
	if again := fetch(t, root, Limits{}); again.Revision != first.Revision {
		t.Error("a change of .git changed the revision")
	}
	for what, change := range map[string]func(){
		"content": func() { write(t, root, "a/b.yaml", "x: 2\n") },
		"name":    func() { write(t, root, "a/c.yaml", "") },
		"link":    func() { _ = os.Symlink("b.yaml", filepath.Join(root, "a/link")) },
	} {
		before := fetch(t, root, Limits{})
		change()
		if after := fetch(t, root, Limits{}); after.Revision == before.Revision {
			t.Errorf("a change of %s did not change the revision", what)
		}
	}
}

func TestWhatGitIgnoresIsNotThere(t *testing.T) {
	root := t.TempDir()
	write(t, root, ".git/info/exclude", "local.yaml\n")
	write(t, root, ".gitignore", "/.cache/\n*.secret\nbuild/\n!keep.secret\n")
	write(t, root, "app/.gitignore", "/out\n")
	for _, name := range []string{
		".cache/huge", "a.secret", "app/b.secret", "app/build/x.yaml", "app/out/x.yaml", "local.yaml", // left out
		"keep.secret", "app/c.yaml", "out/x.yaml", "builder/x.yaml", "app/x/build", ".github/x.yaml",
	} {
		write(t, root, name, "x: 1\n")
	}
	s := fetch(t, root, Limits{Files: 20})
	var got []string
	err := fs.WalkDir(s.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, name)
		}
		return err
	})
	want := []string{".github/x.yaml", ".gitignore", "app/.gitignore", "app/c.yaml", "app/x/build", "builder/x.yaml", "keep.secret", "out/x.yaml"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, name := range []string{".cache/huge", ".cache", "app/out/x.yaml", "local.yaml", ".git/info/exclude"} {
		if _, err := fs.ReadFile(s.FS, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("reading %s: %v", name, err)
		}
	}
	before := s.Revision
	write(t, root, ".cache/huge", "x: 2\n")
	if after := fetch(t, root, Limits{}); after.Revision != before {
		t.Error("a change of what Git ignores changed the revision")
	}
}

func TestAFolderThatIsNoWorkingCopyIgnoresNothing(t *testing.T) {
	root := t.TempDir()
	write(t, root, ".gitignore", "*.yaml\n")
	write(t, root, "a.yaml", "x: 1\n")
	if _, err := fs.ReadFile(fetch(t, root, Limits{}).FS, "a.yaml"); err != nil {
		t.Error(err)
	}
}

func TestNothingOutsideTheFolderCanBeRead(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "hush")
	root := t.TempDir()
	write(t, root, "in/file", "ok")
	write(t, root, ".git/config", "token")
	for name, target := range map[string]string{
		"abs": filepath.Join(outside, "secret"), "up": "../" + filepath.Base(outside) + "/secret", "inside": "in/file",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := fetch(t, root, Limits{})
	for _, name := range []string{"abs", "up", ".git/config", "in/../.git/config"} {
		if b, err := fs.ReadFile(s.FS, name); err == nil {
			t.Errorf("reading %s gave %q", name, b)
		}
	}
	if _, err := fs.ReadFile(s.FS, "abs"); !errors.Is(err, gitsource.ErrUnsafe) {
		t.Errorf("escaping link: %v", err)
	}
	if b, err := fs.ReadFile(s.FS, "inside"); err != nil || string(b) != "ok" {
		t.Errorf("link inside: %q, %v", b, err)
	}
}

func TestFoldersBeyondTheLimitsAreRefused(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "0123456789")
	write(t, root, "b", "0123456789")
	for _, l := range []Limits{{Files: 2}, {Bytes: 15}} {
		if _, err := New(root, l).Fetch(context.Background()); !errors.Is(err, gitsource.ErrLimit) {
			t.Errorf("limits %+v: %v", l, err)
		}
	}
	if _, err := New(filepath.Join(root, "gone"), Limits{}).Fetch(context.Background()); !errors.Is(err, gitsource.ErrNotFound) {
		t.Errorf("missing folder: %v", err)
	}
}

func TestLocateFindsTheRepositoryAroundAFolder(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "clusters/dev/kustomization.yaml", "")
	if r, sub, err := Locate(filepath.Join(root, "clusters/dev")); err != nil || r != filepath.Join(root, "clusters/dev") || sub != "." {
		t.Errorf("without a repository: %q %q %v", r, sub, err)
	}
	write(t, root, ".git", "gitdir: elsewhere\n")
	if r, sub, err := Locate(filepath.Join(root, "clusters/dev")); err != nil || r != root || sub != "clusters/dev" {
		t.Errorf("within a repository: %q %q %v", r, sub, err)
	}
	file := filepath.Join(root, "clusters/dev/kustomization.yaml")
	if _, _, err := Locate(file); !errors.Is(err, gitsource.ErrInvalid) || err.Error() != file+" is a file; name its folder" {
		t.Errorf("a file: %v", err)
	}
}
