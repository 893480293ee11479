package gogit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// capabilities set what the server offers beyond what every server does.
func (s *gitServer) offers(filter, reachable bool) *gitServer {
	repo := filepath.Join(s.root, "repo.git")
	s.gitIn(repo, "config", "uploadpack.allowFilter", strconv.FormatBool(filter))
	s.gitIn(repo, "config", "uploadpack.allowReachableSHA1InWant", strconv.FormatBool(reachable))
	return s
}

func newForge(t *testing.T) *gitServer {
	t.Helper()
	return newGitServer(t).offers(true, true)
}

// pull publishes the current commit as the head of a pull request.
func (s *gitServer) pull(number int) string {
	s.t.Helper()
	s.git("push", "-q", "--force", "origin", fmt.Sprintf("HEAD:refs/pull/%d/head", number))
	return s.git("rev-parse", "HEAD")
}

func TestTheHeadsOfMergeRequestsAreFetched(t *testing.T) {
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	srv.git("checkout", "-q", "-b", "topic")
	srv.git("commit", "-q", "--allow-empty", "-m", "topic")
	head := srv.git("rev-parse", "HEAD")
	srv.git("push", "-q", "origin", "HEAD:refs/merge-requests/7/head")
	srv.git("checkout", "-q", "main")
	if c := mustCompare(t, srv.repository(), "refs/heads/main", "refs/merge-requests/7/head"); c.Head.Commit != head || c.Head.Revision != "refs/merge-requests/7/head@sha1:"+head {
		t.Errorf("got %+v", c.Head)
	}
}

// commits makes n commits, each with a file of its own, without pushing.
func (s *gitServer) commits(n int, prefix string) string {
	s.t.Helper()
	var b strings.Builder
	branch := s.git("rev-parse", "--abbrev-ref", "HEAD")
	from := s.git("rev-parse", "HEAD")
	for i := range n {
		s.date++
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\n", branch, i+1)
		fmt.Fprintf(&b, "committer a <a@example.com> %d +0000\ndata 6\nchange\n", 1767225600+s.date)
		if i == 0 {
			fmt.Fprintf(&b, "from %s\n", from)
		}
		content := strconv.Itoa(i)
		fmt.Fprintf(&b, "M 100644 inline %s/f%d.yaml\ndata %d\n%s\n", prefix, i, len(content), content)
	}
	s.input(b.String(), "fast-import", "--quiet", "--force")
	s.git("reset", "-q", "--hard")
	return s.git("rev-parse", "HEAD")
}

// lanes adds n merges to main, each of one commit, and pushes it.
func (s *gitServer) lanes(n int) {
	s.t.Helper()
	var b strings.Builder
	last := "refs/heads/main^0"
	for i := range n {
		s.date += 2
		for j, branch := range []string{"side", "main"} {
			fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter a <a@example.com> %d +0000\ndata 1\nx\nfrom %s\n", branch, 2*i+j+1, 1767225600+s.date+int64(j), last)
			if branch == "main" {
				fmt.Fprintf(&b, "merge :%d\n", 2*i+1)
			}
			fmt.Fprintf(&b, "M 100644 inline l.yaml\ndata 3\n%03d\n", i)
		}
		last = fmt.Sprintf(":%d", 2*i+2)
	}
	s.input(b.String(), "fast-import", "--quiet", "--force")
	s.git("reset", "-q", "--hard")
	s.update("main")
}

func (s *gitServer) repository(change ...func(*Config)) *Repository {
	s.t.Helper()
	r, err := Open(s.config(change))
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func mustCompare(t *testing.T, r *Repository, base, head string) gitsource.Comparison {
	t.Helper()
	c, err := r.Compare(t.Context(), base, head)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requests counts what f asks the server for: lists of references and packs.
func (s *gitServer) requests(f func()) (lists, packs int) {
	l, p := s.counts()
	f()
	lists, packs = s.counts()
	return lists - l, packs - p
}

func TestAYoungBranchIsComparedInTwoTransfers(t *testing.T) {
	overEach(t, aYoungBranchIsComparedInTwoTransfers)
}

func aYoungBranchIsComparedInTwoTransfers(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t).offers(true, true)
	srv.push("a.yaml", "one\n")
	srv.commits(10, "old")
	mergeBase := srv.push("a.yaml", "two\n")
	srv.git("checkout", "-q", "-b", "topic")
	srv.push("b.yaml", "new\n")
	head := srv.pull(7)
	srv.git("checkout", "-q", "main")
	base := srv.push("a.yaml", "three\n")

	r := srv.repository()
	var c gitsource.Comparison
	lists, packs := srv.requests(func() { c = mustCompare(t, r, "refs/heads/main", "refs/pull/7/head") })
	if lists != 1 || packs != 2 {
		t.Errorf("it took %d lists and %d transfers", lists, packs)
	}
	if c.Base.Revision != "main@sha1:"+base || c.Head.Revision != "refs/pull/7/head@sha1:"+head || c.MergeBase.Revision != "sha1:"+mergeBase {
		t.Errorf("revisions %q %q %q", c.Base.Revision, c.Head.Revision, c.MergeBase.Revision)
	}
	if c.Base.Commit != base || c.Head.Commit != head || c.MergeBase.Commit != mergeBase {
		t.Errorf("commits %s %s %s", c.Base.Commit, c.Head.Commit, c.MergeBase.Commit)
	}
	if content(t, c.Base.FS, "a.yaml") != "three\n" || content(t, c.Head.FS, "b.yaml") != "new\n" || content(t, c.MergeBase.FS, "a.yaml") != "two\n" {
		t.Error("wrong files")
	}
	if want := srv.git("rev-parse", mergeBase+"^{tree}"); c.MergeBase.TreeID != want {
		t.Errorf("tree %s, want %s", c.MergeBase.TreeID, want)
	}
	if lists, packs := srv.requests(func() { mustCompare(t, r, "refs/heads/main", "refs/pull/7/head") }); lists != 1 || packs != 0 {
		t.Errorf("unmoved, it took %d lists and %d transfers", lists, packs)
	}
	again := srv.repository(func(c *Config) { c.Dir = r.cache.Folder() })
	if lists, packs := srv.requests(func() { mustCompare(t, again, "refs/heads/main", "refs/pull/7/head") }); lists != 1 || packs != 0 {
		t.Errorf("after a restart, it took %d lists and %d transfers", lists, packs)
	}
}

// files makes a commit that is not pushed.
func (s *gitServer) files(files ...string) string {
	s.t.Helper()
	s.date++
	s.write(files...)
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", "change")
	return s.git("rev-parse", "HEAD")
}

// topic begins a branch at a revision.
func (s *gitServer) topic(name, at string) {
	s.t.Helper()
	s.git("checkout", "-q", "-B", name, at)
}

func (s *gitServer) update(branch string) {
	s.t.Helper()
	s.git("push", "-q", "--force", "origin", "HEAD:refs/heads/"+branch)
}

func TestComparisons(t *testing.T) {
	type scenario struct {
		base, head string // references
		mergeBase  string // the commit
		packs      int
	}
	for name, events := range map[string]func(*gitServer) scenario{
		"a young branch at the tip of its base": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			s.files("b.yaml", "b\n")
			s.pull(1)
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 2}
		},
		"a base that moved on": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			s.files("b.yaml", "b\n")
			s.pull(1)
			s.git("checkout", "-q", "main")
			s.commits(20, "main")
			s.update("main")
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 2}
		},
		"a base that moved on by more than the first step": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			s.files("b.yaml", "b\n")
			s.pull(1)
			s.git("checkout", "-q", "main")
			s.commits(80, "main")
			s.update("main")
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 3}
		},
		"a branch that is longer than the second step": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			s.commits(600, "topic")
			s.pull(1)
			s.git("checkout", "-q", "main")
			s.push("a.yaml", "two\n")
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 4}
		},
		"a base that was merged into the head": func(s *gitServer) scenario {
			s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			s.files("b.yaml", "b\n")
			s.git("checkout", "-q", "main")
			mergeBase := s.push("a.yaml", "two\n")
			s.git("checkout", "-q", "topic")
			s.date++
			s.git("merge", "-q", "--no-edit", "main")
			s.pull(1)
			s.git("checkout", "-q", "main")
			s.push("a.yaml", "three\n")
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 2}
		},
		"a criss-cross of merges": func(s *gitServer) scenario {
			s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			older := s.files("b.yaml", "b\n")
			s.git("checkout", "-q", "main")
			newer := s.files("c.yaml", "c\n")
			s.date++
			s.git("merge", "-q", "--no-edit", older)
			s.update("main")
			s.git("checkout", "-q", "topic")
			s.git("merge", "-q", "--no-edit", newer)
			s.pull(1)
			return scenario{"refs/heads/main", "refs/pull/1/head", newer, 2}
		},
		"a head that is merged already": func(s *gitServer) scenario {
			s.push("a.yaml", "one\n")
			s.topic("topic", "main")
			head := s.files("b.yaml", "b\n")
			s.pull(1)
			s.git("checkout", "-q", "main")
			s.git("merge", "-q", "--no-ff", "--no-edit", "topic")
			s.push("a.yaml", "two\n")
			return scenario{"refs/heads/main", "refs/pull/1/head", head, 2}
		},
		"a head that is the base": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.pull(1)
			return scenario{"refs/heads/main", "refs/pull/1/head", mergeBase, 2}
		},
		"annotated tags": func(s *gitServer) scenario {
			mergeBase := s.push("a.yaml", "one\n")
			s.git("tag", "-m", "release", "v1")
			s.push("a.yaml", "two\n")
			s.git("tag", "-m", "release", "v2")
			s.git("push", "-q", "origin", "v1", "v2")
			return scenario{"refs/tags/v2", "refs/tags/v1", mergeBase, 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newForge(t)
			s := events(srv)
			r := srv.repository()
			var c gitsource.Comparison
			lists, packs := srv.requests(func() { c = mustCompare(t, r, s.base, s.head) })
			if c.MergeBase.Commit != s.mergeBase {
				t.Errorf("merge base %s, want %s", c.MergeBase.Commit, s.mergeBase)
			}
			if lists != 1 || packs != s.packs {
				t.Errorf("it took %d lists and %d transfers, want 1 and %d", lists, packs, s.packs)
			}
			for _, snap := range []struct{ commit, tree string }{
				{c.Base.Commit, c.Base.TreeID}, {c.Head.Commit, c.Head.TreeID}, {c.MergeBase.Commit, c.MergeBase.TreeID},
			} {
				if want := srv.git("rev-parse", snap.commit+"^{tree}"); snap.tree != want {
					t.Errorf("tree %s of %s, want %s", snap.tree, snap.commit, want)
				}
			}
			if lists, packs := srv.requests(func() { mustCompare(t, r, s.base, s.head) }); lists != 1 || packs != 0 {
				t.Errorf("again it took %d lists and %d transfers", lists, packs)
			}
		})
	}
}

// pulls makes n pull requests of one commit each, the first at the tip of main
// and each other one commit further back.
func (s *gitServer) pulls(n int) {
	s.t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "commit refs/heads/p/%d\ncommitter a <a@example.com> %d +0000\ndata 4\npull\n", i+1, 1767225600+s.date)
		fmt.Fprintf(&b, "from refs/heads/main~%d\nM 100644 inline pull.yaml\ndata 3\n%03d\n", i, i)
	}
	s.input(b.String(), "fast-import", "--quiet", "--force")
	s.git("push", "-q", "origin", "refs/heads/p/*:refs/pull/*/head")
}

func TestAHundredPullRequestsFetchTheirBaseOnce(t *testing.T) {
	t.Parallel()
	srv := newForge(t)
	random := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(random)
	srv.push("big.bin", string(random))
	srv.commits(150, "old")
	srv.update("main")
	pulls := 100
	if testing.Short() {
		pulls = 20
	}
	srv.pulls(pulls)
	mergeBase := strings.Fields(srv.git("rev-list", "--first-parent", "main"))
	r := srv.repository()
	mustCompare(t, r, "refs/heads/main", "refs/pull/1/head")
	first := packBytes(t, r)
	all := func(r *Repository, n int) func() {
		return func() {
			for i := range n {
				c := mustCompare(t, r, "refs/heads/main", fmt.Sprintf("refs/pull/%d/head", i+1))
				if c.MergeBase.Commit != mergeBase[i] {
					t.Fatalf("pull request %d has merge base %s, want %s", i+1, c.MergeBase.Commit, mergeBase[i])
				}
			}
		}
	}
	lists, packs := srv.requests(all(r, pulls))
	if lists != pulls || packs > 2*pulls+1 {
		t.Errorf("%d pull requests took %d lists and %d transfers", pulls, lists, packs)
	}
	if rest := packBytes(t, r) - first; rest > 1<<20 {
		t.Errorf("the first took %d bytes, all others %d: the base came again", first, rest)
	}
	again := srv.repository(func(c *Config) { c.Dir = r.cache.Folder() })
	if _, packs := srv.requests(all(again, pulls/4)); packs > 0 {
		t.Errorf("after a restart, they took %d transfers", packs)
	}
	srv.git("checkout", "-q", "main")
	srv.push("a.yaml", "moved\n")
	if _, packs := srv.requests(all(again, pulls/4)); packs != 2 {
		t.Errorf("a base that moved cost %d transfers, want its history and its files once", packs)
	}
}

func packBytes(t *testing.T, r *Repository) int64 {
	t.Helper()
	var n int64
	for _, p := range packsOf(t, r.cache.Folder()) {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
