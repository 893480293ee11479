package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// laid are the contents of the files that lie in a folder, by name.
func laid(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(content)
	}
	return out
}

func TestFilesAreReplacedAllOrNone(t *testing.T) {
	change := func(name, before, after string) File {
		return File{Path: name, Before: []byte(before), After: []byte(after)}
	}
	for name, c := range map[string]struct {
		files []File
		err   string
		want  map[string]string
	}{
		"all": {files: []File{change("a.yaml", "a", "A"), change("b.yaml", "b", "B")}, want: map[string]string{"a.yaml": "A", "b.yaml": "B"}},
		"none, where one was changed meanwhile": {
			files: []File{change("a.yaml", "a", "A"), change("b.yaml", "was", "B")},
			err:   "writing b.yaml, no file was changed: it was changed meanwhile", want: map[string]string{"a.yaml": "a", "b.yaml": "b"}},
		"none, where one is gone": {
			files: []File{change("a.yaml", "a", "A"), change("c.yaml", "c", "C")},
			err:   "writing c.yaml, no file was changed", want: map[string]string{"a.yaml": "a", "b.yaml": "b"}},
		"none, where one is a folder": {
			files: []File{change("a.yaml", "a", "A"), change("d", "d", "D")},
			err:   "it is not a regular file", want: map[string]string{"a.yaml": "a", "b.yaml": "b"}},
		"none, where one lies elsewhere": {
			files: []File{change("a.yaml", "a", "A"), change("../out.yaml", "", "x")},
			err:   "writing ../out.yaml, no file was changed", want: map[string]string{"a.yaml": "a", "b.yaml": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range map[string]string{"a.yaml": "a", "b.yaml": "b"} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(folder, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			err := replaceAll(folder, c.files)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, laid(t, folder)); diff != "" {
				t.Errorf("what lies there (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatWasReplacedIsPutBack(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := putBack(root, []stagedFile{{File: File{Path: "a.yaml", Before: []byte("a"), After: []byte("A")}}}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"a.yaml": "a"}, laid(t, folder)); diff != "" {
		t.Errorf("what lies there (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeReadIsNotShown(t *testing.T) {
	f := File{Path: "a.yaml", Before: []byte("a: [hunter2"), After: []byte("kind: Secret\ndata:\n  a: aHVudGVyMg==\nother: 1\n")}
	before, after := f.Masked()
	if string(before) != "***\n" {
		t.Errorf("of a file that is no YAML it shows %q", before)
	}
	if want := "kind: Secret\ndata: ***\n  ***\nother: 1\n"; string(after) != want {
		t.Errorf("of a Secret it shows %q, want %q", after, want)
	}
}
