package buildcache

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func tree() fstest.MapFS {
	return fstest.MapFS{
		"d/a": {Data: []byte("a")}, "d/b": {Data: []byte("b")}, "link": {Data: []byte("d/a"), Mode: fs.ModeSymlink},
	}
}

func TestEveryReadIsRecordedOnce(t *testing.T) {
	r := Record(tree())
	files := r.FS()
	for range 2 {
		_, _ = fs.ReadFile(files, "d/a")
		_, _ = fs.ReadFile(files, "gone")
		_, _ = fs.Stat(files, "d")
		_, _ = fs.ReadDir(files, "d")
		_, _ = fs.Lstat(files, "link")
		_, _ = fs.ReadLink(files, "link")
		_, _ = files.Open("opened")
	}
	want := []Read{"dd", "dopened", "fd/a", "fgone", "fopened", "llink", "sd", "sopened", "tlink"}
	if d := cmp.Diff(want, r.Reads()); d != "" {
		t.Error(d)
	}
}

func TestADigestChangesWithWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		reads   []Read
		change  func(fstest.MapFS)
		changes bool
	}{
		"the content of a file":                       {[]Read{"fd/a"}, func(f fstest.MapFS) { f["d/a"].Data = []byte("c") }, true},
		"the content of another":                      {[]Read{"fd/a"}, func(f fstest.MapFS) { f["d/b"].Data = []byte("c") }, false},
		"what there is of a file, by its content":     {[]Read{"sd/a"}, func(f fstest.MapFS) { f["d/a"].Data = []byte("c") }, true},
		"what there is of a file, by its mode":        {[]Read{"sd/a"}, func(f fstest.MapFS) { f["d/a"].Mode = 0o755 }, true},
		"what there is of a folder, by its files":     {[]Read{"sd"}, func(f fstest.MapFS) { f["d/c"] = &fstest.MapFile{} }, false},
		"the names in a folder":                       {[]Read{"dd"}, func(f fstest.MapFS) { f["d/c"] = &fstest.MapFile{} }, true},
		"the names in a folder, not by their content": {[]Read{"dd"}, func(f fstest.MapFS) { f["d/a"].Data = []byte("c") }, false},
		"a file that comes":                           {[]Read{"fnew"}, func(f fstest.MapFS) { f["new"] = &fstest.MapFile{} }, true},
		"a file that goes":                            {[]Read{"sd/a"}, func(f fstest.MapFS) { delete(f, "d/a") }, true},
		"where a link leads":                          {[]Read{"tlink"}, func(f fstest.MapFS) { f["link"].Data = []byte("d/b") }, true},
		"a link that becomes a file":                  {[]Read{"llink"}, func(f fstest.MapFS) { f["link"] = &fstest.MapFile{Data: []byte("d/a")} }, true},
		"an operation that there is not":              {[]Read{"", "xd"}, func(f fstest.MapFS) { f["d/a"].Data = []byte("c") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree()
			before := Digest(files, c.reads)
			c.change(files)
			if changed := Digest(files, c.reads) != before; changed != c.changes {
				t.Errorf("the digest changed: %v", changed)
			}
		})
	}
}

func TestTheFolderThatWasUsedLeastRecentlyLosesItsParts(t *testing.T) {
	files := tree()
	one := Build{Name: "p", Reads: []Read{"fd/a"}, Content: []byte(strings.Repeat("x", 1000))}
	c := &Cache{}
	c.Folder("a").Keep(files, nil, []Build{one})
	c.budget = 2*c.Bytes() + 10
	for _, key := range []string{"b", "a", "c"} {
		c.Folder(key).Keep(files, nil, []Build{one})
	}
	for key, want := range map[string]int{"a": 1, "b": 0, "c": 1} {
		if got := len(c.Folder(key).Valid(files)); got != want {
			t.Errorf("folder %s has %d builds, want %d", key, got, want)
		}
	}
	c.Folder("d").Keep(files, nil, []Build{{Name: "p", Content: []byte(strings.Repeat("x", 9000))}})
	if c.Bytes() > c.budget {
		t.Errorf("%d bytes are kept, within a budget of %d", c.Bytes(), c.budget)
	}
}

// TestHundredsOfHostileFoldersFillTheirBudgetAtMost counts also what takes little each: builds
// without content, with many reads.
func TestHundredsOfHostileFoldersFillTheirBudgetAtMost(t *testing.T) {
	c := &Cache{budget: 1 << 18}
	for i := range 200 {
		var made []Build
		for n := range 20 {
			made = append(made, Build{Name: fmt.Sprint(n), Reads: make([]Read, i)})
		}
		c.Folder(fmt.Sprint(i)).Keep(tree(), nil, made)
	}
	if c.Bytes() > 1<<18 || c.Bytes() == 0 {
		t.Errorf("%d bytes are kept", c.Bytes())
	}
}

func TestOnlyPartsThatWereUsedOrMadeStay(t *testing.T) {
	files, c := tree(), &Cache{}
	f := c.Folder("f")
	f.Keep(files, nil, []Build{{Name: "a", Reads: []Read{"fd/a"}}, {Name: "b", Reads: []Read{"fd/b"}}, {Name: "c"}})
	files["d/b"].Data = []byte("changed")
	names := func() (out []string) {
		for _, p := range f.Valid(files) {
			out = append(out, p.Name)
		}
		return out
	}
	builds := NewBuilds(f.Valid(files)...)
	_, stale := builds.Find("b")
	if _, kept := builds.Find("a"); !kept || stale {
		t.Errorf("a kept: %v, the b that has changed kept: %v", kept, stale)
	}
	builds.Make(Build{Name: "b", Reads: []Read{"fd/b"}})
	f.Keep(files, append(builds.Used(), "never"), builds.Made())
	got := names()
	if len(got) != 2 {
		t.Errorf("kept are %v, want a and b", got)
	}
	var none *Builds
	none.Make(Build{})
	if _, kept := none.Find("a"); kept {
		t.Error("no builds have one")
	}
}

// identifyingFS knows modes and ids of contents, as a tree of Git does. It counts what is read beside.
type identifyingFS struct {
	fstest.MapFS
	reads *int
}

func (f identifyingFS) ContentID(name string) (string, error) {
	content, err := fs.ReadFile(f.MapFS, name)
	return string(content), err
}

func (f identifyingFS) ModeOf(name string, _ bool) (fs.FileMode, error) {
	info, err := fs.Stat(f.MapFS, name)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

func (f identifyingFS) Stat(name string) (fs.FileInfo, error) {
	*f.reads++
	return fs.Stat(f.MapFS, name)
}

func (f identifyingFS) ReadFile(name string) ([]byte, error) {
	*f.reads++
	return fs.ReadFile(f.MapFS, name)
}

func (f identifyingFS) Open(name string) (fs.File, error) {
	*f.reads++
	return f.MapFS.Open(name)
}

// TestADigestReadsNothingOfATreeThatIdentifiesItsFiles counts reads: each opens a pack of the repository.
func TestADigestReadsNothingOfATreeThatIdentifiesItsFiles(t *testing.T) {
	reads := 0
	files := identifyingFS{tree(), &reads}
	before := Digest(files, []Read{"sd/a", "ld/a", "fd/a", "sgone", "sd"})
	if reads != 0 {
		t.Errorf("%d reads, want none", reads)
	}
	files.MapFS["d/a"].Data = []byte("c")
	changed := Digest(files, []Read{"sd/a", "ld/a", "fd/a", "sgone", "sd"})
	files.MapFS["d/a"] = &fstest.MapFile{Data: []byte("a"), Mode: 0o755}
	if executable := Digest(files, []Read{"sd/a", "ld/a", "fd/a", "sgone", "sd"}); before == changed || before == executable {
		t.Error("a change of the content, or of the mode, is not in the digest")
	}
}
