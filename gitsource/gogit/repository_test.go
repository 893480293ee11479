package gogit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

const (
	mainRef = "refs/heads/main"
	pullRef = "refs/pull/1/head"
)

// onePull makes a base of two commits and a pull request of one; it returns
// the merge base and the head.
func onePull(srv *gitServer) (mergeBase, head string) {
	srv.t.Helper()
	mergeBase = srv.push("a.yaml", "one\n", "deep/b.yaml", strings.Repeat("b\n", 300))
	srv.topic("topic", "main")
	srv.files("c.yaml", "c\n")
	head = srv.pull(1)
	srv.git("checkout", "-q", "main")
	srv.push("a.yaml", "two\n")
	return mergeBase, head
}

func compareFails(t *testing.T, r *Repository, base, head string, want error) string {
	t.Helper()
	c, err := r.Compare(context.Background(), base, head)
	if !errors.Is(err, want) || strings.Contains(err.Error(), password) {
		t.Fatalf("got %v (%q), want %v", err, c.Head.Revision, want)
	}
	return err.Error()
}

func TestOnlyReferencesOfBranchesTagsAndPullRequestsAreRead(t *testing.T) {
	srv := newForge(t)
	r := srv.repository()
	lists, _ := srv.requests(func() {
		for _, name := range []string{
			"", "main", "HEAD", "heads/main", "refs/heads/", "refs/heads/../x", "refs/heads/a..b", "refs/heads/-x", "refs/heads/a b", "refs/heads/x.lock",
			"refs/tags/", "refs/tags/a\x00", "refs/pull/head", "refs/pull//head", "refs/pull/0/head", "refs/pull/-1/head", "refs/pull/+1/head", "refs/pull/01/head",
			"refs/pull/1/merge", "refs/pull/1/head/x", "refs/pull/../heads/main/head", "refs/pull/99999999999999999999/head",
			"refs/merge-requests/head", "refs/merge-requests/0/head", "refs/merge-requests/1/merge", "refs/merge-requests/1/head/x", "refs/merge-requests/../1/head", "refs/remotes/x", "refs/notes/x",
			"refs/heads/" + strings.Repeat("a", 256), strings.Repeat("ab", 20),
		} {
			compareFails(t, r, name, mainRef, gitsource.ErrInvalid)
			compareFails(t, r, mainRef, name, gitsource.ErrInvalid)
			if _, err := r.Contains(t.Context(), name, strings.Repeat("ab", 20), strings.Repeat("cd", 20)); !errors.Is(err, gitsource.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, id := range []string{"", "abc", strings.Repeat("A", 40), strings.Repeat("0", 40)} {
			if _, err := r.Contains(t.Context(), mainRef, id, strings.Repeat("ab", 20)); !errors.Is(err, gitsource.ErrInvalid) {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
	if lists > 0 {
		t.Errorf("%d requests for names that are refused", lists)
	}
	if _, err := Open(Config{URL: "file:///host/x", Dir: t.TempDir()}); !errors.Is(err, gitsource.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Open(Config{URL: "https://host/x"}); !errors.Is(err, gitsource.ErrInvalid) {
		t.Error(err)
	}
}

func TestReferencesThatMoveOrGo(t *testing.T) {
	gc := func(srv *gitServer) {
		srv.gitIn(filepath.Join(srv.root, "repo.git"), "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
	}
	t.Run("a head that is pushed by force, its old commit gone", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		onePull(srv)
		r := srv.repository()
		old := mustCompare(t, r, mainRef, pullRef)
		srv.topic("topic", "main")
		srv.files("c.yaml", "other\n")
		head := srv.pull(1)
		gc(srv)
		c := mustCompare(t, r, mainRef, pullRef)
		if c.Head.Commit != head || c.MergeBase.Commit != c.Base.Commit || content(t, c.Head.FS, "c.yaml") != "other\n" {
			t.Errorf("head %s, merge base %s", c.Head.Commit, c.MergeBase.Commit)
		}
		if content(t, old.Head.FS, "c.yaml") != "c\n" {
			t.Error("the old snapshot changed")
		}
	})
	t.Run("a base that is pushed by force, its old commits gone", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		mergeBase, _ := onePull(srv)
		r := srv.repository()
		mustCompare(t, r, mainRef, pullRef)
		srv.git("reset", "-q", "--hard", mergeBase)
		base := srv.push("a.yaml", "other\n")
		gc(srv)
		if c := mustCompare(t, r, mainRef, pullRef); c.Base.Commit != base || c.MergeBase.Commit != mergeBase {
			t.Errorf("base %s, merge base %s", c.Base.Commit, c.MergeBase.Commit)
		}
	})
	t.Run("a head that is deleted, and comes back", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		_, head := onePull(srv)
		r := srv.repository()
		mustCompare(t, r, mainRef, pullRef)
		srv.git("push", "-q", "origin", ":"+pullRef)
		if msg := compareFails(t, r, mainRef, pullRef, gitsource.ErrNotFound); !strings.Contains(msg, pullRef) {
			t.Error(msg)
		}
		compareFails(t, r, "refs/heads/none", mainRef, gitsource.ErrNotFound)
		srv.git("push", "-q", "origin", head+":"+pullRef)
		if _, packs := srv.requests(func() { mustCompare(t, r, mainRef, pullRef) }); packs != 0 {
			t.Errorf("what was present was transferred again, %d times", packs)
		}
	})
	t.Run("a head that goes between the list and the transfer", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		onePull(srv)
		var once sync.Once
		srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "git-upload-pack") {
				once.Do(func() {
					srv.git("push", "-q", "origin", ":"+pullRef)
					gc(srv)
				})
			}
			next.ServeHTTP(w, r)
		})
		r := srv.repository()
		compareFails(t, r, mainRef, pullRef, gitsource.ErrNotFound)
		srv.topic("topic", "main")
		head := srv.pull(1)
		if c := mustCompare(t, r, mainRef, pullRef); c.Head.Commit != head {
			t.Error(c.Head.Commit)
		}
	})
	t.Run("histories that share nothing", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		srv.push("a.yaml", "one\n")
		srv.git("checkout", "-q", "--orphan", "topic")
		srv.files("b.yaml", "b\n")
		srv.pull(1)
		r := srv.repository()
		if msg := compareFails(t, r, mainRef, pullRef, gitsource.ErrNotFound); !strings.Contains(msg, "share no commit") || !strings.Contains(msg, "rebase") {
			t.Error(msg)
		}
		if lists, packs := srv.requests(func() { compareFails(t, r, mainRef, pullRef, gitsource.ErrNotFound) }); lists != 1 || packs != 0 {
			t.Errorf("again it took %d lists and %d transfers", lists, packs)
		}
		srv.topic("topic", "main")
		srv.files("b.yaml", "b\n")
		srv.pull(1)
		mustCompare(t, r, mainRef, pullRef)
	})
	t.Run("a repository that is empty", func(t *testing.T) {
		t.Parallel()
		compareFails(t, newForge(t).repository(), mainRef, pullRef, gitsource.ErrEmpty)
	})
}

// without hides capabilities that the server lists.
func without(texts ...string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/info/refs") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		for _, part := range texts {
			b = bytes.ReplaceAll(b, []byte(" "+part), []byte(" "+strings.Repeat("x", len(part))))
		}
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		_, _ = w.Write(b)
	}
}

func TestServersThatCanDoLess(t *testing.T) {
	for name, texts := range map[string][]string{
		"no filter":                       {"filter"},
		"no depth":                        {"shallow"},
		"no depth and no filter":          {"shallow", "filter"},
		"nothing but tips":                {"allow-reachable-sha1-in-want"},
		"no filter, nothing but tips":     {"filter", "allow-reachable-sha1-in-want"},
		"no depth, nothing but tips":      {"shallow", "allow-reachable-sha1-in-want"},
		"no name":                         {"agent=git/"},
		"no side band":                    {"side-band-64k", "side-band"},
		"no deltas by offset":             {"ofs-delta"},
		"no deltas by offset and no name": {"ofs-delta", "agent=git/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newForge(t)
			srv.push("a.yaml", "one\n")
			srv.commits(60, "old")
			mergeBase, head := onePull(srv)
			srv.commits(70, "more")
			srv.update("main")
			srv.during(without(texts...))
			r := srv.repository()
			for range 2 {
				c := mustCompare(t, r, mainRef, pullRef)
				if c.MergeBase.Commit != mergeBase || c.Head.Commit != head || content(t, c.MergeBase.FS, "a.yaml") != "one\n" {
					t.Fatalf("merge base %s, want %s", c.MergeBase.Commit, mergeBase)
				}
				for _, snap := range []gitsource.Snapshot{c.Base, c.Head, c.MergeBase} {
					readAll(t, snap.FS)
				}
				srv.git("checkout", "-q", "main")
				srv.push("a.yaml", "moved\n")
			}
			// The server learned to do more: a cache that suits.
			srv.during(nil)
			if c := mustCompare(t, r, mainRef, pullRef); c.MergeBase.Commit != mergeBase {
				t.Errorf("merge base %s, want %s", c.MergeBase.Commit, mergeBase)
			}
		})
	}
}

func TestAServerThatNoLongerFiltersIsFetchedFromOtherwise(t *testing.T) {
	srv := newForge(t)
	mergeBase, _ := onePull(srv)
	r := srv.repository()
	mustCompare(t, r, mainRef, pullRef)
	srv.offers(false, true)
	srv.git("checkout", "-q", "topic")
	srv.files("c.yaml", "again\n")
	head := srv.pull(1)
	if c := mustCompare(t, r, mainRef, pullRef); c.Head.Commit != head || c.MergeBase.Commit != mergeBase {
		t.Errorf("head %s, merge base %s", c.Head.Commit, c.MergeBase.Commit)
	}
}

// TestAHeadThatBringsBackAnOldFileIsWhole: the files of the base's past are
// not present, though its newest ones are.
func TestAHeadThatBringsBackAnOldFileIsWhole(t *testing.T) {
	overEach(t, aHeadThatBringsBackAnOldFileIsWhole)
}

func aHeadThatBringsBackAnOldFileIsWhole(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t).offers(true, true)
	srv.push("a.yaml", "old\n")
	srv.push("a.yaml", "new\n")
	srv.pull(2)
	r := srv.repository()
	mustCompare(t, r, mainRef, "refs/pull/2/head")
	srv.topic("topic", "main")
	srv.files("a.yaml", "old\n")
	srv.pull(1)
	if got := content(t, mustCompare(t, r, mainRef, pullRef).Head.FS, "a.yaml"); got != "old\n" {
		t.Errorf("got %q", got)
	}
	if entries, _ := filepath.Glob(filepath.Join(r.cache.Folder(), "gen-*")); len(entries) != 1 {
		t.Errorf("the cache was begun anew: %v", entries)
	}
}

func TestAHeadThatIsRefusedIsNotTransferredAgain(t *testing.T) {
	for name, c := range map[string]struct {
		files  []string
		limits Limits
		want   error
	}{
		"too many files":      {[]string{"a/1", "", "a/2", "", "a/3", "", "a/4", ""}, Limits{Files: 4}, gitsource.ErrLimit},
		"folders too deep":    {[]string{"a/b/c/d/e/f", ""}, Limits{Depth: 3}, gitsource.ErrLimit},
		"too much to unpack":  {[]string{"a", strings.Repeat("x", 100<<10)}, Limits{UnpackedBytes: 64 << 10}, gitsource.ErrLimit},
		"too large an object": {[]string{"a", strings.Repeat("x", 100<<10)}, Limits{ObjectBytes: 64 << 10}, gitsource.ErrLimit},
		"too many objects":    {[]string{"a/1", "1", "a/2", "2", "a/3", "3", "a/4", "4"}, Limits{Objects: 5}, gitsource.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newForge(t)
			srv.push("z.yaml", "z\n")
			srv.pull(2)
			r := srv.repository(func(g *Config) { g.Limits = c.limits })
			mustCompare(t, r, mainRef, "refs/pull/2/head")
			srv.topic("topic", "main")
			srv.files(c.files...)
			srv.pull(1)
			compareFails(t, r, mainRef, pullRef, c.want)
			if _, packs := srv.requests(func() { compareFails(t, r, mainRef, pullRef, c.want) }); packs != 0 {
				t.Errorf("again it took %d transfers", packs)
			}
			if _, packs := srv.requests(func() { mustCompare(t, r, mainRef, "refs/pull/2/head") }); packs != 0 {
				t.Errorf("another pull request was transferred again, %d times", packs)
			}
		})
	}
}

func readAll(t *testing.T, fsys fs.FS) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		_, err = fs.ReadFile(fsys, name)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	few := func(c *Config) { c.Limits.Commits = 120 }
	t.Run("a merge base too long ago", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		onePull(srv)
		srv.commits(300, "more")
		srv.update("main")
		r := srv.repository(few)
		if msg := compareFails(t, r, mainRef, pullRef, gitsource.ErrLimit); !strings.Contains(msg, "120 commits") || !strings.Contains(msg, "rebase") {
			t.Error(msg)
		}
		if _, packs := srv.requests(func() { compareFails(t, r, mainRef, pullRef, gitsource.ErrLimit) }); packs != 0 {
			t.Errorf("again it took %d transfers", packs)
		}
		srv.topic("topic", "main")
		srv.files("d.yaml", "d\n")
		srv.pull(1)
		if c := mustCompare(t, r, mainRef, pullRef); c.MergeBase.Commit != c.Base.Commit {
			t.Error("a young branch of the same repository is not found")
		}
	})
	t.Run("a branch that is refused holds up no other", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		onePull(srv)
		srv.commits(300, "more")
		srv.update("main")
		srv.topic("other", "main~70")
		srv.files("d.yaml", "d\n")
		srv.pull(2)
		r := srv.repository(few)
		compareFails(t, r, mainRef, pullRef, gitsource.ErrLimit)
		if c := mustCompare(t, r, mainRef, "refs/pull/2/head"); c.MergeBase.Commit != srv.git("rev-parse", "main~70") {
			t.Errorf("merge base %s", c.MergeBase.Commit)
		}
	})
	t.Run("a step that has too many commits is made smaller", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		srv.push("a.yaml", "one\n")
		srv.lanes(400)
		srv.topic("topic", "main~75")
		srv.files("d.yaml", "d\n")
		srv.pull(1)
		r := srv.repository(func(c *Config) { c.Limits.Commits = 250 })
		if c := mustCompare(t, r, mainRef, pullRef); c.MergeBase.Commit != srv.git("rev-parse", "main~75") {
			t.Errorf("merge base %s", c.MergeBase.Commit)
		}
	})
	t.Run("old side branches that reach further back than may be fetched", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		srv.push("a.yaml", "one\n")
		srv.commits(100, "old")
		srv.topic("side", "main")
		srv.files("s.yaml", "s\n")
		srv.git("checkout", "-q", "main")
		srv.commits(200, "newer")
		mergeBase := srv.git("rev-parse", "HEAD")
		srv.topic("topic", "main")
		srv.files("c.yaml", "c\n")
		srv.pull(1)
		srv.git("checkout", "-q", "main")
		srv.date++
		srv.git("merge", "-q", "--no-edit", "side")
		srv.update("main")
		// All of it is too much, but what was seen leaves no doubt that matters.
		r := srv.repository(few)
		if c := mustCompare(t, r, mainRef, pullRef); c.MergeBase.Commit != mergeBase {
			t.Errorf("merge base %s, want %s", c.MergeBase.Commit, mergeBase)
		}
	})
	t.Run("more commits at once than announced as allowed", func(t *testing.T) {
		t.Parallel()
		srv := newForge(t)
		onePull(srv)
		srv.commits(60, "more")
		srv.update("main")
		r := srv.repository(func(c *Config) { c.Limits.Commits = 20 })
		compareFails(t, r, mainRef, pullRef, gitsource.ErrLimit)
	})
}
