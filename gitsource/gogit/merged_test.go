package gogit

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sides makes a commit and two branches from it, main and topic. Empty contents remove a
// file.
func (s *gitServer) sides(mergeBase, base, head map[string]string) {
	s.t.Helper()
	s.put(mergeBase)
	at := s.git("rev-parse", "HEAD")
	s.topic("topic", at)
	s.put(head)
	s.topic("main", at)
	s.put(base)
}

func (s *gitServer) put(files map[string]string) {
	s.t.Helper()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name] == "" {
			s.git("rm", "-q", "--ignore-unmatch", name)
			continue
		}
		list = append(list, name, files[name])
	}
	s.files(list...)
}

// merges is what Git makes of merging topic into main, and whether it asks.
func (s *gitServer) merges() (files map[string]string, clean bool) {
	s.t.Helper()
	s.git("checkout", "-q", "-B", "try", "main")
	if !strings.Contains(s.git("-c", "alias.try=!git merge -q --no-edit topic >/dev/null 2>&1 && echo merged || echo asks", "try"), "merged") {
		s.git("merge", "--abort")
		return nil, false
	}
	files = map[string]string{}
	for name := range strings.SplitSeq(s.git("ls-tree", "-r", "-z", "--name-only", "HEAD"), "\x00") {
		if name != "" {
			files[name] = s.git("show", "HEAD:"+name)
		}
	}
	return files, true
}

// holds are the files of a merged tree.
func holds(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out[name] = strings.TrimSpace(content(t, tree, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text is a file of its own, long enough for Git to find it again elsewhere.
func text(name string, lines ...string) string {
	var out strings.Builder
	for i := range 12 {
		fmt.Fprintf(&out, "%s line %d of it\n", name, i)
	}
	return out.String() + strings.Join(lines, "\n") + "\n"
}

func TestTheResultOfAMergeIsComputedWhereItIsCertain(t *testing.T) {
	type files = map[string]string
	a, b := text("a"), text("b")
	for name, tt := range map[string]struct {
		mergeBase, base, head files
		want                  bool
	}{
		"files of its own each":                    {files{"d/a": a, "d/b": b}, files{"d/a": a + "x"}, files{"d/b": b + "x"}, true},
		"new files of one folder":                  {files{"d/a": a}, files{"d/x": "x"}, files{"d/y": "y"}, true},
		"one that is removed and one that changes": {files{"d/a": a, "d/b": b}, files{"d/a": ""}, files{"d/b": b + "x"}, true},
		"new folders":                              {files{"d/a": a}, files{"e/x": "x"}, files{"f/y": "y"}, true},
		"the same change":                          {files{"d/a": a}, files{"d/a": a + "x"}, files{"d/a": a + "x", "d/b": b}, true},
		"a file that both change":                  {files{"d/a": a}, files{"d/a": a + "x"}, files{"d/a": a + "y"}, false},
		"one that is removed and changed":          {files{"d/a": a}, files{"d/a": ""}, files{"d/a": a + "y"}, false},
		"one that is renamed and changed":          {files{"d/a": a}, files{"d/a": "", "d/z": a}, files{"d/a": a + "y"}, false},
		"one that is renamed and removed":          {files{"d/a": a, "d/b": b}, files{"d/a": "", "y": a}, files{"d/a": ""}, false},
		"one that both rename":                     {files{"d/a": a, "d/b": b}, files{"d/a": "", "d/y": a}, files{"d/a": "", "d/z": a}, false},
		"a folder that is renamed and grows":       {files{"d/a": a, "d/b": b}, files{"d/a": "", "d/b": "", "e/a": a, "e/b": b}, files{"d/c": "c"}, false},
		"a root that is moved and grows":           {files{"a": a, "b": b}, files{"a": "", "b": "", "file": "", "e/a": a, "e/b": b}, files{"c": "c"}, false},
		"a file here, a folder there":              {files{"d/a": a}, files{"x": "x"}, files{"x/y": "y"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newForge(t)
			srv.sides(tt.mergeBase, tt.base, tt.head)
			if got := srv.mergesAsGit(); got != tt.want {
				t.Errorf("told is %t", got)
			}
		})
	}
}

func TestAMergeWithSeveralMergeBasesIsNotComputed(t *testing.T) {
	srv := newForge(t)
	srv.sides(map[string]string{"d/a": text("a")}, map[string]string{"d/x": "x"}, map[string]string{"d/y": "y"})
	srv.git("branch", "before", "main")
	srv.git("merge", "-q", "--no-edit", "topic")
	srv.git("checkout", "-q", "topic")
	srv.git("merge", "-q", "--no-edit", "before")
	srv.put(map[string]string{"d/b": text("b")})
	srv.git("checkout", "-q", "main")
	srv.put(map[string]string{"d/c": text("c")})
	if srv.mergesAsGit() {
		t.Error("it is told")
	}
}

// mergesAsGit compares what we tell of the merge with what Git makes of it, and reports
// whether we tell anything.
func (s *gitServer) mergesAsGit() bool {
	s.t.Helper()
	c, err := mustOpenLocal(s.t, s.work).Compare(s.t.Context(), "main", "topic")
	if err != nil {
		s.t.Fatal(err)
	}
	got, ok := c.Merged()
	if !ok {
		return false
	}
	want, clean := s.merges()
	if !clean {
		s.t.Errorf("Git asks, and we tell")
		return true
	}
	for name := range want {
		want[name] = strings.TrimSpace(want[name])
	}
	if d := cmp.Diff(want, holds(s.t, got.FS)); d != "" {
		s.t.Errorf("git and we (-git +we):\n%s", d)
	}
	return true
}

// TestAComputedMergeIsThatOfGit lets two sides change, rename, add and remove files of a
// small tree by chance.
func TestAComputedMergeIsThatOfGit(t *testing.T) {
	const tries = 24
	chance := rand.New(rand.NewPCG(7, 9))
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "f/a", "f/b"}
	reported := 0
	for range tries {
		srv := newForge(t)
		mergeBase := map[string]string{}
		for _, name := range names[:6] {
			mergeBase[name] = text(name)
		}
		side := func() map[string]string {
			out := map[string]string{}
			for range 1 + chance.IntN(3) {
				from, to := names[chance.IntN(len(names))], names[chance.IntN(len(names))]
				switch chance.IntN(4) {
				case 0:
					out[from] = text(from, "more", from)
				case 1:
					out[from] = ""
				case 2:
					out[to+"2"] = "new\n"
				default:
					if was := mergeBase[from]; was != "" {
						out[from], out[to+"3"] = "", was
					}
				}
			}
			return out
		}
		base, head := side(), side()
		srv.sides(mergeBase, base, head)
		if srv.mergesAsGit() {
			reported++
		}
		if t.Failed() {
			t.Fatalf("base %q head %q", slices.Sorted(maps.Keys(base)), slices.Sorted(maps.Keys(head)))
		}
	}
	if reported < tries/5 || reported > tries*4/5 {
		t.Errorf("%d of %d merges are told: by such chances nothing is shown", reported, tries)
	}
}
