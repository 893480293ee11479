package gogit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// graph makes commits whose parents and clocks are random, the clocks often
// wrong, and branches b0, b1 … at the last ones.
func (s *gitServer) graph(rng *rand.Rand, commits, branches int) {
	s.t.Helper()
	var b strings.Builder
	for i := range commits {
		fmt.Fprintf(&b, "commit refs/heads/c%d\nmark :%d\n", i, i+1)
		fmt.Fprintf(&b, "committer a <a@example.com> %d +0000\ndata 1\nx\n", 1767225600+i*10+rng.IntN(60)-30)
		if i > 0 {
			from := max(1, i-rng.IntN(4))
			if rng.IntN(12) == 0 {
				from = max(1, i-rng.IntN(100))
			}
			fmt.Fprintf(&b, "from :%d\n", from)
			if other := max(1, i-rng.IntN(12)); other != from && rng.IntN(3) == 0 {
				fmt.Fprintf(&b, "merge :%d\n", other)
			}
		}
		fmt.Fprintf(&b, "M 100644 inline f%d\ndata 1\n%d\n", i%9, i%10)
	}
	s.input(b.String(), "fast-import", "--quiet", "--force")
	refs := []string{"push", "-q", "--force", "origin"}
	for i := range branches {
		refs = append(refs, fmt.Sprintf("refs/heads/c%d:refs/heads/b%d", commits-1-i*7, i))
	}
	s.git(refs...)
}

// TestTheMergeBaseOfTwoCommitsIsGits compares with git merge-base over
// histories full of merges, fetched in parts, in every way that servers offer.
func TestTheMergeBaseOfTwoCommitsIsGits(t *testing.T) {
	const branches = 5
	for seed := range uint64(4) {
		for _, offer := range []struct {
			name              string
			filter, reachable bool
		}{{"all", true, true}, {"tips only", true, false}, {"no filter", false, true}, {"neither", false, false}} {
			t.Run(fmt.Sprintf("history %d from a server that offers %s", seed, offer.name), func(t *testing.T) {
				t.Parallel()
				srv := newGitServer(t).offers(offer.filter, offer.reachable)
				srv.graph(rand.New(rand.NewPCG(seed, 1)), 160, branches)
				r := srv.repository()
				for i := range branches {
					for j := range branches {
						base, head := fmt.Sprintf("refs/heads/b%d", i), fmt.Sprintf("refs/heads/b%d", j)
						c := mustCompare(t, r, base, head)
						all := strings.Fields(srv.git("merge-base", "--all", c.Base.Commit, c.Head.Commit))
						if !slices.Contains(all, c.MergeBase.Commit) {
							t.Errorf("%s and %s have merge base %s, git says %v", base, head, c.MergeBase.Commit, all)
						}
						if newest := srv.newest(all); c.MergeBase.Commit != newest {
							t.Errorf("%s and %s have merge base %s, the newest is %s", base, head, c.MergeBase.Commit, newest)
						}
						for _, s := range []struct{ commit, tree string }{{c.Base.Commit, c.Base.TreeID}, {c.MergeBase.Commit, c.MergeBase.TreeID}} {
							if want := srv.git("rev-parse", s.commit+"^{tree}"); s.tree != want {
								t.Errorf("tree %s of %s, want %s", s.tree, s.commit, want)
							}
						}
					}
				}
			})
		}
	}
}

// newest is the one that was committed last, by its clock and then its id.
func (s *gitServer) newest(commits []string) string {
	s.t.Helper()
	best, when := "", ""
	for _, c := range commits {
		if w := s.git("show", "-s", "--format=%ct", c); w > when || w == when && c > best {
			best, when = c, w
		}
	}
	return best
}

func TestAncestorsAreThoseOfGit(t *testing.T) {
	t.Parallel()
	srv := newForge(t)
	rng := rand.New(rand.NewPCG(9, 1))
	srv.graph(rng, 160, 3)
	r := srv.repository()
	reachable := strings.Fields(srv.git("rev-list", "c159"))
	var yes, no int
	for range 120 {
		a, b := reachable[rng.IntN(len(reachable))], reachable[rng.IntN(len(reachable))]
		got, err := r.Contains(t.Context(), "refs/heads/b0", a, b)
		if err != nil {
			t.Fatal(err)
		}
		if want := srv.git("merge-base", a, b) == b; got != want {
			t.Errorf("%s is an ancestor of %s: %v, git says %v", b, a, got, want)
		}
		if got {
			yes++
		} else {
			no++
		}
	}
	if yes < 5 || no < 5 {
		t.Errorf("%d and %d answers", yes, no)
	}
}
