package gogit

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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

func (s *gitServer) repository(change ...func(*Config)) *Repository {
	s.t.Helper()
	c := Config{URL: s.url(), Dir: s.t.TempDir()}
	for _, f := range change {
		f(&c)
	}
	r, err := Open(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func mustCompare(t *testing.T, r *Repository, base, head string) Comparison {
	t.Helper()
	c, err := r.Compare(t.Context(), base, head)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requests counts what f asks the server for: lists of references and packs.
func (s *gitServer) requests(f func()) (lists, packs int) {
	l, p := s.lists.Load(), s.packs.Load()
	f()
	return int(s.lists.Load() - l), int(s.packs.Load() - p)
}

func TestAYoungBranchIsComparedInTwoTransfers(t *testing.T) {
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	srv.commits(10, "old")
	parted := srv.push("a.yaml", "two\n")
	srv.git("checkout", "-q", "-b", "topic")
	srv.push("b.yaml", "new\n")
	head := srv.pull(7)
	srv.git("checkout", "-q", "main")
	base := srv.push("a.yaml", "three\n")

	r := srv.repository()
	var c Comparison
	lists, packs := srv.requests(func() { c = mustCompare(t, r, "refs/heads/main", "refs/pull/7/head") })
	if lists != 1 || packs != 2 {
		t.Errorf("it took %d lists and %d transfers", lists, packs)
	}
	if c.Base.Revision != "main@sha1:"+base || c.Head.Revision != "refs/pull/7/head@sha1:"+head || c.Parted.Revision != "sha1:"+parted {
		t.Errorf("revisions %q %q %q", c.Base.Revision, c.Head.Revision, c.Parted.Revision)
	}
	if c.Base.Commit != base || c.Head.Commit != head || c.Parted.Commit != parted {
		t.Errorf("commits %s %s %s", c.Base.Commit, c.Head.Commit, c.Parted.Commit)
	}
	if content(t, c.Base.FS, "a.yaml") != "three\n" || content(t, c.Head.FS, "b.yaml") != "new\n" || content(t, c.Parted.FS, "a.yaml") != "two\n" {
		t.Error("wrong files")
	}
	if want := srv.git("rev-parse", parted+"^{tree}"); c.Parted.TreeID != want {
		t.Errorf("tree %s, want %s", c.Parted.TreeID, want)
	}
	if lists, packs := srv.requests(func() { mustCompare(t, r, "refs/heads/main", "refs/pull/7/head") }); lists != 1 || packs != 0 {
		t.Errorf("unmoved, it took %d lists and %d transfers", lists, packs)
	}
	again := srv.repository(func(c *Config) { c.Dir = r.mirror.dir })
	if lists, packs := srv.requests(func() { mustCompare(t, again, "refs/heads/main", "refs/pull/7/head") }); lists != 1 || packs != 0 {
		t.Errorf("after a restart, it took %d lists and %d transfers", lists, packs)
	}
}
