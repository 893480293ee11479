package gogit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

func TestAComparisonIsRecalledWithoutTheServer(t *testing.T) {
	srv := newForge(t)
	onePull(srv)
	r := srv.repository()
	first := mustCompare(t, r, mainRef, pullRef)
	base, head := gitsource.Revision{Ref: mainRef, Commit: first.Base.Commit}, gitsource.Revision{Ref: pullRef, Commit: first.Head.Commit}
	recall := func(r *Repository) (c gitsource.Comparison, ok bool) {
		t.Helper()
		if lists, packs := srv.requests(func() { c, ok = r.CompareCached(base, head) }); lists+packs > 0 {
			t.Errorf("%d requests", lists+packs)
		}
		return c, ok
	}
	again, ok := recall(r)
	if !ok {
		t.Fatal("it is forgotten")
	}
	names := func(c gitsource.Comparison) []string {
		return []string{c.Base.Revision, c.Head.Revision, c.MergeBase.Revision, c.Base.TreeID, c.Head.TreeID, c.MergeBase.TreeID, fmt.Sprint(c.UniqueMergeBase)}
	}
	if diff := cmp.Diff(names(first), names(again)); diff != "" {
		t.Errorf("not the same (-compared +recalled):\n%s", diff)
	}
	readAll(t, again.Head.FS)
	if _, ok := r.CompareCached(head, base); ok {
		t.Error("what was never compared is recalled")
	}
	if _, ok := recall(srv.repository(func(c *Config) { c.Dir = r.cache.Folder() })); ok {
		t.Error("the merge base is only remembered, and this one is new")
	}
	if err := os.RemoveAll(filepath.Join(r.cache.Folder(), "gen-1")); err != nil {
		t.Fatal(err)
	}
	if _, ok := recall(r); ok {
		t.Error("the cache is gone")
	}
}

// hostile publishes pull requests whose trees take little to transfer and much memory: many
// files of one content, with long names.
func (s *gitServer) hostile(pulls, files int) {
	s.t.Helper()
	base := s.push("a.yaml", "one\n")
	blob := s.raw("blob", "x")
	long := strings.Repeat("n", 240)
	for p := range pulls {
		var b strings.Builder
		for i := range files {
			b.WriteString(treeEntry("100644", fmt.Sprintf("%s%d-%06d", long, p, i), blob))
		}
		tree := s.raw("tree", b.String())
		id := s.raw("commit", "tree "+tree+"\nparent "+base+"\nauthor a <a@example.com> 1767225600 +0000\ncommitter a <a@example.com> 1767225600 +0000\n\nx\n")
		s.gitIn(filepath.Join(s.root, "repo.git"), "update-ref", fmt.Sprintf("refs/pull/%d/head", p+1), id)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // What the first one found to be finalized.
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHostilePullRequestsTakeLittleMemory also proves that it would find what it is there
// for: who keeps the Comparisons pays for each. POOLWRIGHT_TEST_PULLS=1000 makes more.
func TestHostilePullRequestsTakeLittleMemory(t *testing.T) {
	pulls := 8
	if n, err := strconv.Atoi(os.Getenv("POOLWRIGHT_TEST_PULLS")); err == nil {
		pulls = n
	}
	const files, kept8, most = 20_000, 40 << 20, 16 << 20
	srv := newForge(t)
	srv.hostile(pulls, files)
	r := srv.repository()
	before := heapBytes()
	var kept []gitsource.Comparison
	for p := range pulls {
		c := mustCompare(t, r, mainRef, fmt.Sprintf("refs/pull/%d/head", p+1))
		if len(kept) < 8 {
			kept = append(kept, c)
		}
	}
	with := heapBytes() - before
	runtime.KeepAlive(kept)
	without := heapBytes() - before
	t.Logf("%d pull requests: %d MiB while 8 are kept, %d MiB while none is", pulls, with>>20, without>>20)
	if with < kept8 {
		t.Errorf("who keeps 8 pays only %d MiB: this test would find nothing", with>>20)
	}
	if without > most {
		t.Errorf("%d MiB for %d pull requests", without>>20, pulls)
	}
	runtime.KeepAlive(r)
}

func TestNamesOfATreeAreBounded(t *testing.T) {
	srv := newForge(t)
	srv.hostile(1, 3000)
	r := srv.repository(func(c *Config) { c.Limits.IndexBytes = 1 << 20 })
	if _, err := r.Compare(t.Context(), mainRef, pullRef); !errors.Is(err, gitsource.ErrLimit) {
		t.Errorf("got %v", err)
	}
	blob := srv.raw("blob", "x")
	tree := srv.raw("tree", treeEntry("100644", strings.Repeat("n", 256), blob))
	id := srv.raw("commit", "tree "+tree+"\nauthor a <a@example.com> 1767225600 +0000\ncommitter a <a@example.com> 1767225600 +0000\n\nx\n")
	srv.gitIn(filepath.Join(srv.root, "repo.git"), "update-ref", "refs/heads/main", id)
	if message := fails(t, srv.source(Ref{}), gitsource.ErrLimit); len(message) > 1000 {
		t.Errorf("a message of %d bytes", len(message))
	}
}
