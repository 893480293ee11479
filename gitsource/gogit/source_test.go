package gogit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/gitsource"
)

func mustFetch(t *testing.T, s *Source) gitsource.Snapshot {
	t.Helper()
	snap, err := s.Fetch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func content(t *testing.T, fsys fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFollowsABranchAndFetchesOnlyWhatMoved(t *testing.T) {
	overEach(t, followsABranchAndFetchesOnlyWhatMoved)
}

func followsABranchAndFetchesOnlyWhatMoved(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	first := srv.push("a.yaml", "one\n", "deep/er/b.yaml", strings.Repeat("b\n", 5000))
	src := srv.source(Ref{})

	snap := mustFetch(t, src)
	if snap.Commit != first || snap.Revision != "main@sha1:"+first {
		t.Fatalf("got %q %q, want %s", snap.Commit, snap.Revision, first)
	}
	if got := content(t, snap.FS, "a.yaml"); got != "one\n" {
		t.Fatalf("a.yaml = %q", got)
	}
	if err := fstest.TestFS(snap.FS, "a.yaml", "deep/er/b.yaml"); err != nil {
		t.Fatal(err)
	}
	if again := mustFetch(t, src); again.Commit != first || srv.transfers() != 1 {
		t.Fatalf("an unchanged branch cost %d transfers", srv.transfers())
	}

	second := srv.push("a.yaml", "two\n")
	next := mustFetch(t, src)
	if next.Commit != second || content(t, next.FS, "a.yaml") != "two\n" || content(t, snap.FS, "a.yaml") != "one\n" {
		t.Fatal("the new snapshot must hold the new file, the old one still the old")
	}
	packs, _ := filepath.Glob(filepath.Join(src.cache.Folder(), "gen-1", "objects", "pack", "*.pack"))
	if len(packs) != 2 {
		t.Fatalf("%d packs in the first clone, want 2: the second fetch must be incremental", len(packs))
	}
	for _, p := range packs {
		if info, err := os.Stat(p); err != nil || info.Size() > 2000 {
			t.Fatalf("%s: %v bytes, %v", p, info.Size(), err)
		}
	}
}

func TestFollowsTagsAndCommits(t *testing.T) { overEach(t, followsTagsAndCommits) }

func followsTagsAndCommits(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	first := srv.push("a.yaml", "one\n")
	srv.git("tag", "plain")
	srv.git("tag", "-m", "release", "v1")
	srv.git("push", "-q", "origin", "plain", "v1")
	second := srv.push("a.yaml", "two\n")
	for name, c := range map[string]struct {
		ref      Ref
		revision string
		content  string
	}{
		"a lightweight tag":    {Ref{Tag: "plain"}, "plain@sha1:" + first, "one\n"},
		"an annotated tag":     {Ref{Tag: "v1"}, "v1@sha1:" + first, "one\n"},
		"a commit at a tip":    {Ref{Commit: second}, "sha1:" + second, "two\n"},
		"a commit in history":  {Ref{Commit: first}, "sha1:" + first, "one\n"},
		"a commit of a branch": {Ref{Branch: "main", Commit: first}, "main@sha1:" + first, "one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			snap := mustFetch(t, srv.source(c.ref))
			if snap.Revision != c.revision || content(t, snap.FS, "a.yaml") != c.content {
				t.Errorf("revision %q with %q", snap.Revision, content(t, snap.FS, "a.yaml"))
			}
		})
	}
	t.Run("a commit in history of a server that gives out tips only", func(t *testing.T) {
		srv.gitIn(filepath.Join(srv.root, "repo.git"), "config", "uploadpack.allowReachableSHA1InWant", "false")
		srv.git("tag", "-d", "plain", "v1")
		srv.git("push", "-q", "origin", ":plain", ":v1")
		if snap := mustFetch(t, srv.source(Ref{Commit: first})); snap.Commit != first {
			t.Errorf("commit %s", snap.Commit)
		}
		_, err := srv.source(Ref{Commit: strings.Repeat("ab", 20)}).Fetch(t.Context())
		if !errors.Is(err, gitsource.ErrNotFound) || errors.Is(err, gitsource.ErrCorrupt) {
			t.Errorf("a commit that is nowhere: %v", err)
		}
	})
}

func TestATagThatIsMovedIsFollowed(t *testing.T) { overEach(t, aTagThatIsMovedIsFollowed) }

func aTagThatIsMovedIsFollowed(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	for _, options := range [][]string{{"-m", "release"}, nil} {
		src := srv.source(Ref{Tag: "v1"})
		for _, text := range []string{"one\n", "two\n", "three\n"} {
			commit := srv.push("a.yaml", text)
			srv.git(append(append([]string{"tag", "-f"}, options...), "v1")...)
			srv.git("push", "-q", "--force", "origin", "v1")
			before := srv.transfers()
			if snap := mustFetch(t, src); snap.Commit != commit || content(t, snap.FS, "a.yaml") != text {
				t.Errorf("%s with %q", snap.Revision, content(t, snap.FS, "a.yaml"))
			}
			if n := srv.transfers() - before; n != 1 {
				t.Errorf("it took %d transfers", n)
			}
		}
	}
}

func TestLastSurvivesARestart(t *testing.T) { overEach(t, lastSurvivesARestart) }

func lastSurvivesARestart(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	commit := srv.push("a.yaml", "one\n")
	folder := t.TempDir()
	in := func(c *Config) { c.Dir = folder }
	src := srv.source(Ref{}, in)
	if _, ok := src.Last(t.Context()); ok {
		t.Fatal("a source that never fetched has a last snapshot")
	}
	mustFetch(t, src)
	srv.Close()
	again := srv.source(Ref{}, in)
	snap, ok := again.Last(t.Context())
	if !ok || snap.Commit != commit || content(t, snap.FS, "a.yaml") != "one\n" {
		t.Fatalf("last after a restart: %v %+v", ok, snap)
	}
	if _, ok := srv.source(Ref{Branch: "other"}, in).Last(t.Context()); ok {
		t.Fatal("the last snapshot of another branch was taken for this one's")
	}
}

func TestAnEarlierRevisionOutlivesARestart(t *testing.T) {
	overEach(t, anEarlierRevisionOutlivesARestart)
}

func anEarlierRevisionOutlivesARestart(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	first := srv.push("a.yaml", "one\n")
	folder := t.TempDir()
	in := func(c *Config) { c.Dir = folder }
	src := srv.source(Ref{}, in)
	before := mustFetch(t, src)
	srv.push("a.yaml", "two\n")
	mustFetch(t, src)
	srv.Close()
	again := srv.source(Ref{}, in)
	snap, ok := again.Earlier(t.Context(), before.Revision, "")
	if !ok || snap.Commit != first || snap.Revision != before.Revision || snap.TreeID != before.TreeID || content(t, snap.FS, "a.yaml") != "one\n" {
		t.Fatalf("present after a restart: %v %+v", ok, snap)
	}
	if last, _ := again.Last(t.Context()); content(t, last.FS, "a.yaml") != "two\n" {
		t.Errorf("the last one is %s", last.Revision)
	}
	for _, revision := range []string{"", "x", first, "other@sha1:" + first, "main@sha1:" + strings.Repeat("ab", 20), before.Revision[1:]} {
		if snap, ok := again.Earlier(t.Context(), revision, ""); ok {
			t.Errorf("%q is present: %+v", revision, snap)
		}
	}
	if _, ok := srv.source(Ref{}).Earlier(t.Context(), before.Revision, ""); ok {
		t.Error("a cache that is empty holds it")
	}
}

func TestSnapshotsAreReadWhileOthersAreFetched(t *testing.T) {
	overEach(t, snapshotsAreReadWhileOthersAreFetched)
}

func snapshotsAreReadWhileOthersAreFetched(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t)
	src := srv.source(Ref{})
	var readers sync.WaitGroup
	for i := range 4 {
		text := strings.Repeat(strconv.Itoa(i), 500)
		srv.push("a.yaml", text, "b/c.yaml", text)
		snap := mustFetch(t, src)
		for range 3 {
			readers.Go(func() {
				for _, name := range []string{"a.yaml", "b/c.yaml"} {
					if b, err := fs.ReadFile(snap.FS, name); err != nil || string(b) != text {
						t.Errorf("%s of snapshot %d: %q, %v", name, i, b, err)
					}
				}
				if err := fs.WalkDir(snap.FS, ".", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
					t.Error(err)
				}
				if _, ok := src.Last(t.Context()); !ok {
					t.Error("no last snapshot")
				}
			})
		}
	}
	readers.Wait()
}
