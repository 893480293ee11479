package treefs

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

func fileSystem() *FileSystem {
	files := fstest.MapFS{"apps/a.yaml": {Data: []byte("a")}, "apps/b.yaml": {Data: []byte("b")}, "link.yaml": {Data: []byte("apps/a.yaml"), Mode: fs.ModeSymlink}}
	return &FileSystem{Tree: manifest.NewTree(files, manifest.Limits{}), Replaced: map[string][]byte{"apps/b.yaml": []byte("replaced")}}
}

func TestAFileIsReadByItsPathInTheTree(t *testing.T) {
	for name, tt := range map[string]struct{ path, want string }{
		"an absolute path":                         {"/apps/a.yaml", "a"},
		"a relative one begins at the root":        {"apps/a.yaml", "a"},
		"one that climbs over the root stays":      {"/../../apps/a.yaml", "a"},
		"a link is followed":                       {"/link.yaml", "a"},
		"what is replaced has the other content":   {"/apps/b.yaml", "replaced"},
		"what does not exist is an error":          {"/apps/c.yaml", ""},
		"a file of the machine is not in the tree": {"/etc/passwd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fileSystem().ReadFile(tt.path)
			if string(got) != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestWhatIsReadIsACopy(t *testing.T) {
	f := fileSystem()
	first, err := f.ReadFile("/apps/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first[0] = 'x'
	if second, err := f.ReadFile("/apps/a.yaml"); err != nil || string(second) != "a" {
		t.Errorf("a writer of what was read changed the tree: %q, %v", second, err)
	}
}

func TestFoldersAndFilesAreDistinguished(t *testing.T) {
	f := fileSystem()
	if !f.IsDir("/apps") || f.IsDir("/apps/a.yaml") || !f.Exists("/apps/a.yaml") || f.Exists("/apps/c.yaml") {
		t.Error("the kinds of entries are mixed up")
	}
	names, err := f.ReadDir("/apps")
	if d := cmp.Diff([]string{"a.yaml", "b.yaml"}, names); d != "" || err != nil {
		t.Errorf("%v, names (-want +got):\n%s", err, d)
	}
	for path, want := range map[string]struct {
		dir  filesys.ConfirmedDir
		file string
	}{"/apps": {"/apps", ""}, "/apps/../apps/a.yaml": {"/apps", "a.yaml"}, "/link.yaml": {"/apps", "a.yaml"}} {
		if dir, file, err := f.CleanedAbs(path); dir != want.dir || file != want.file || err != nil {
			t.Errorf("%s is %q, %q, %v", path, dir, file, err)
		}
	}
}

func TestNothingIsWritten(t *testing.T) {
	f := fileSystem()
	open := func(_ filesys.File, err error) error { return err }
	for name, err := range map[string]error{
		"Open":      open(f.Open("/apps/a.yaml")),
		"Create":    open(f.Create("/x")),
		"Mkdir":     f.Mkdir("/x"),
		"MkdirAll":  f.MkdirAll("/x"),
		"RemoveAll": f.RemoveAll("/apps"),
		"WriteFile": f.WriteFile("/apps/a.yaml", nil),
		"Walk":      f.Walk("/", nil),
		"Glob":      func() error { _, err := f.Glob("*"); return err }(),
	} {
		if err == nil {
			t.Errorf("%s returns no error", name)
		}
	}
}
