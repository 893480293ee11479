package gogit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

func mustOpenLocal(t *testing.T, folder string) *Local {
	t.Helper()
	l, err := OpenLocal(folder)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// localHistory makes a history of four commits, a topic branch with a merge and
// two tags in the working copy of a server.
func localHistory(t *testing.T) *gitServer {
	t.Helper()
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	srv.git("tag", "v1")
	srv.date++
	srv.push("a.yaml", "two\n", "deep/er/b.yaml", "b\n")
	srv.git("checkout", "-q", "-b", "topic")
	srv.date++
	srv.push("c.yaml", "c\n")
	srv.git("tag", "-m", "release", "v2")
	srv.git("checkout", "-q", "main")
	srv.date++
	srv.push("a.yaml", "three\n")
	srv.git("checkout", "-q", "topic")
	srv.git("merge", "-q", "--no-edit", "-X", "ours", "main")
	srv.git("branch", "side", "v2")
	srv.git("push", "-q", "origin", "topic", "side", "v1", "v2")
	return srv
}

func TestRevisionsAreNamedAsGitNamesThem(t *testing.T) {
	srv := localHistory(t)
	srv.git("fetch", "-q", "origin")
	tip := srv.git("rev-parse", "HEAD")
	l := mustOpenLocal(t, filepath.Join(srv.work, "deep", "er"))
	for _, expression := range []string{
		"HEAD", "@", "HEAD~1", "HEAD~", "HEAD^", "HEAD^2", "HEAD^2~1", "@~2", "HEAD^0", "main", "main~1^1", "refs/heads/main", "heads/main",
		"origin/main", "origin/topic^2", "v1", "tags/v1", "v2", "v2~1", tip, tip[:7], tip[:8], tip[:12] + "~1", strings.ToUpper(tip[:10]), "FETCH_HEAD",
	} {
		t.Run(expression, func(t *testing.T) {
			want := srv.git("rev-parse", "--verify", "-q", expression+"^{commit}")
			c, err := l.Compare(t.Context(), expression, "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			if c.Base.Commit != want || c.Head.Commit != tip {
				t.Errorf("got %s, git says %s", c.Base.Commit, want)
			}
			if mergeBase := srv.git("merge-base", expression, "HEAD"); c.MergeBase.Commit != mergeBase {
				t.Errorf("merge base %s, git says %s", c.MergeBase.Commit, mergeBase)
			}
		})
	}
	c, err := l.Compare(t.Context(), "main", tip[:9])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Base.Revision, "main@sha1:") || c.Head.Revision != "sha1:"+tip || !strings.HasPrefix(c.MergeBase.Revision, "sha1:") {
		t.Errorf("revisions %q %q %q", c.Base.Revision, c.Head.Revision, c.MergeBase.Revision)
	}
	if content(t, c.Base.FS, "a.yaml") != "three\n" || content(t, c.Head.FS, "c.yaml") != "c\n" {
		t.Error("wrong files")
	}
}

func TestReferencesAreBranchesAndTagsByTheirShortNames(t *testing.T) {
	srv := localHistory(t)
	srv.git("fetch", "-q", "origin")
	srv.git("pack-refs", "--all")
	srv.git("branch", "later")
	got, err := mustOpenLocal(t, srv.work).References()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"later", "main", "origin/main", "origin/side", "origin/topic", "side", "topic", "v1", "v2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatNamesNoRevisionIsRefusedWithWhatToDo(t *testing.T) {
	srv := localHistory(t)
	blob := srv.git("rev-parse", "HEAD:a.yaml")
	l := mustOpenLocal(t, srv.work)
	for expression, want := range map[string]error{
		"": gitsource.ErrInvalid, "foo": gitsource.ErrNotFound, "~1": gitsource.ErrInvalid, "^main": gitsource.ErrInvalid,
		"main..topic": gitsource.ErrInvalid, "main@{1}": gitsource.ErrInvalid, "@{upstream}": gitsource.ErrInvalid, "HEAD^{tree}": gitsource.ErrInvalid,
		"HEAD:a.yaml": gitsource.ErrInvalid, "../../etc/passwd": gitsource.ErrInvalid, "--help": gitsource.ErrInvalid, "a b": gitsource.ErrInvalid,
		"HEAD~99": gitsource.ErrNotFound, "HEAD^3": gitsource.ErrNotFound, "HEAD~99999999999999999999": gitsource.ErrInvalid, "HEAD~9999999": gitsource.ErrInvalid,
		strings.Repeat("ab", 20): gitsource.ErrNotFound, "abcdef12": gitsource.ErrNotFound, blob: gitsource.ErrNotFound, blob[:12]: gitsource.ErrNotFound,
		"MERGE_HEAD": gitsource.ErrNotFound, ":/change": gitsource.ErrInvalid,
	} {
		t.Run(expression, func(t *testing.T) {
			for _, pair := range [][2]string{{expression, "HEAD"}, {"HEAD", expression}} {
				_, err := l.Compare(t.Context(), pair[0], pair[1])
				if !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				if !strings.HasSuffix(err.Error(), "give a branch, tag or commit (git log shows them)") {
					t.Errorf("it does not say what to do: %v", err)
				}
			}
		})
	}
}

func TestALocalRepositoryIsFoundWhereverGitFindsIt(t *testing.T) {
	srv := localHistory(t)
	linked := filepath.Join(t.TempDir(), "linked")
	srv.git("worktree", "add", "-q", linked, "main")
	packed := filepath.Join(t.TempDir(), "packed")
	srv.git("clone", "-q", "--no-local", srv.work, packed)
	for name, folder := range map[string]string{
		"a working copy":         srv.work,
		"a folder in it":         filepath.Join(srv.work, "deep"),
		"a file in it":           filepath.Join(srv.work, "a.yaml"),
		"its own folder":         filepath.Join(srv.work, ".git"),
		"a linked working copy":  linked,
		"a bare repository":      filepath.Join(srv.root, "repo.git"),
		"a clone that is packed": packed,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := mustOpenLocal(t, folder).Compare(t.Context(), "HEAD", "v2")
			if err != nil {
				t.Fatal(err)
			}
			dir := folder
			if info, err := os.Stat(folder); err == nil && !info.IsDir() {
				dir = filepath.Dir(folder)
			}
			if want := srv.gitIn(dir, "rev-parse", "HEAD"); c.Base.Commit != want {
				t.Errorf("HEAD is %s, git says %s", c.Base.Commit, want)
			}
		})
	}
}

func TestALocalRepositoryThatCannotBeReadWholeNamesTheReason(t *testing.T) {
	srv := localHistory(t)
	clone := func(args ...string) string {
		dir := filepath.Join(t.TempDir(), "clone")
		srv.git(append(append([]string{"clone", "-q", "--no-local"}, args...), "file://"+filepath.Join(srv.root, "repo.git"), dir)...)
		return dir
	}
	compared := func(folder, base, head string) error {
		l, err := OpenLocal(folder)
		if err != nil {
			return err
		}
		_, err = l.Compare(t.Context(), base, head)
		return err
	}
	empty := filepath.Join(t.TempDir(), "empty")
	srv.git("init", "-q", "-b", "main", empty)
	sha256 := filepath.Join(t.TempDir(), "sha256")
	srv.git("init", "-q", "--object-format=sha256", sha256)
	alternates := filepath.Join(t.TempDir(), "borrowing")
	srv.git("clone", "-q", "--shared", srv.work, alternates)
	lost := filepath.Join(t.TempDir(), "lost")
	if err := errors.Join(os.MkdirAll(lost, 0o755), os.WriteFile(filepath.Join(lost, ".git"), []byte("gitdir: ../nowhere\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(t.TempDir(), "strange")
	if err := errors.Join(os.MkdirAll(strange, 0o755), os.WriteFile(filepath.Join(strange, ".git"), []byte("hello\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	shallow := clone("--depth=1", "--no-single-branch", "-b", "main")
	for name, c := range map[string]struct {
		err     error
		message string
	}{
		"a shallow clone of two branches":  {compared(shallow, "origin/main", "origin/side"), "fetch-depth: 0"},
		"a shallow clone's past":           {compared(shallow, "main~1", "main"), "git fetch --unshallow"},
		"a branch that it did not fetch":   {compared(clone("--depth=1", "-b", "main"), "origin/topic", "main"), "fetch-depth: 0"},
		"a clone without files":            {compared(clone("--filter=blob:none", "--no-checkout"), "origin/main", "origin/topic"), "without --filter"},
		"a clone that borrows":             {compared(alternates, "origin/main", "HEAD"), "git repack"},
		"another kind of id":               {compared(sha256, "main", "HEAD"), "only sha1"},
		"nothing committed":                {compared(empty, "HEAD", "main"), "nothing is committed"},
		"no repository":                    {compared(t.TempDir(), "main", "HEAD"), "inside a working copy"},
		"a folder that is not there":       {compared(filepath.Join(t.TempDir(), "none"), "main", "HEAD"), "inside a working copy"},
		"a working copy that lost its own": {compared(lost, "main", "HEAD"), "is not there"},
		"a .git that is something else":    {compared(strange, "main", "HEAD"), "gitdir"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err == nil || !strings.Contains(c.err.Error(), c.message) {
				t.Errorf("got %v, which should say %q", c.err, c.message)
			}
			t.Log(c.err)
		})
	}
	// What the message said to do helps, and the same Local notices.
	l := mustOpenLocal(t, shallow)
	if _, err := l.Compare(t.Context(), "origin/main", "origin/side"); err == nil {
		t.Fatal("compared without the history")
	}
	srv.gitIn(shallow, "fetch", "-q", "--unshallow")
	c, err := l.Compare(t.Context(), "origin/main", "origin/side")
	if err != nil {
		t.Fatal(err)
	}
	if want := srv.gitIn(shallow, "merge-base", "origin/main", "origin/side"); c.MergeBase.Commit != want {
		t.Errorf("merge base %s, git says %s", c.MergeBase.Commit, want)
	}
}

func TestOnlyTheHistorySinceTheMergeBaseIsRead(t *testing.T) {
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	srv.commits(400, "old")
	l := mustOpenLocal(t, srv.work)
	c, err := l.Compare(t.Context(), "main~3", "main")
	if err != nil || c.MergeBase.Commit != c.Base.Commit {
		t.Fatalf("merge base %s, %v", c.MergeBase.Commit, err)
	}
	if n, _ := l.history.Size(); n > 20 {
		t.Errorf("%d commits were read", n)
	}
}

func TestUnrelatedLocalBranchesAreNotFound(t *testing.T) {
	srv := localHistory(t)
	srv.git("checkout", "-q", "--orphan", "other")
	srv.push("x.yaml", "x\n")
	_, err := mustOpenLocal(t, srv.work).Compare(t.Context(), "main", "other")
	if !errors.Is(err, gitsource.ErrNotFound) || !strings.Contains(err.Error(), "share no commit") {
		t.Error(err)
	}
}
