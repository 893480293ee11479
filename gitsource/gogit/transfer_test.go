package gogit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestATransferLeavesOutWhatIsPresent: files that would not compress stay where
// they are when others change, and a changed file comes as its change.
func TestATransferLeavesOutWhatIsPresent(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	bytes := func(n int) string {
		b := make([]byte, n)
		random.Read(b)
		return string(b)
	}
	for name, texts := range map[string][]string{"a server that runs Git": nil, "one without deltas by offset": {"ofs-delta"}} {
		t.Run(name, func(t *testing.T) {
			srv := newForge(t)
			srv.during(without(texts...))
			changing := bytes(50 << 10)
			srv.push("kept.bin", bytes(500<<10), "changing.bin", changing, "deep/er/a.yaml", "one\n")
			src := srv.source(Ref{})
			mustFetch(t, src)
			for i := range 3 {
				changing += fmt.Sprintf("and %d", i)
				srv.push("changing.bin", changing, "deep/er/a.yaml", fmt.Sprint(i))
				var received int64
				before := sizes(t, src.cache.Folder())
				snap := mustFetch(t, src)
				received = sizes(t, src.cache.Folder()) - before
				if content(t, snap.FS, "changing.bin") != changing {
					t.Fatal("the changed file is wrong")
				}
				readAll(t, snap.FS)
				// The base of the change is stored again, so that a pack stands
				// on its own.
				if received > 60<<10 {
					t.Errorf("change %d took %d bytes", i, received)
				}
			}
		})
	}
}

func sizes(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, p := range packsOf(t, dir) {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestACompletedPackIsOneThatGitAccepts has Git itself check what was written.
func TestACompletedPackIsOneThatGitAccepts(t *testing.T) {
	srv := newForge(t)
	onePull(srv)
	r := srv.repository()
	mustCompare(t, r, mainRef, pullRef)
	srv.git("checkout", "-q", "topic")
	srv.files("deep/b.yaml", "changed\n"+content(t, os.DirFS(srv.work), "deep/b.yaml"))
	srv.pull(1)
	mustCompare(t, r, mainRef, pullRef)
	packs := packsOf(t, r.cache.Folder())
	if len(packs) != 4 {
		t.Errorf("%d packs", len(packs))
	}
	for _, p := range packs {
		srv.gitIn(filepath.Dir(p), "verify-pack", p)
	}
}
