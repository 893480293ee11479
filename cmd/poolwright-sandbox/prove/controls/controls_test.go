package controls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../../.."

func TestAControlsPassageStandsOnceInTheSource(t *testing.T) {
	known := map[string]bool{}
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			if known[c.Name] {
				t.Errorf("two controls have the name %s", c.Name)
			}
			known[c.Name] = true
			changed, err := c.changed(root)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(c.by, c.old) && strings.Contains(changed, c.old) || !strings.Contains(changed, c.by) {
				t.Errorf("the passage is still there, or what takes its place is not")
			}
			if named, err := Named(c.Name); err != nil || named != c {
				t.Errorf("the control of that name is %v, %v", named, err)
			}
			moved := c
			moved.old = "a passage that is not there"
			if _, err := moved.changed(root); err == nil {
				t.Error("a passage that is not there was replaced")
			}
		})
	}
	if _, err := Named("nothing"); err == nil {
		t.Error("there is a control of any name")
	}
}

func TestAControlIsFoundByCasesOrByATest(t *testing.T) {
	for _, c := range All() {
		if (c.Finds == "") == (c.test == "") {
			t.Errorf("%s has %q and %q", c.Name, c.Finds, c.test)
		}
	}
}

// The controls are built one by one when they are run, which is too slow for a test. Their packages are
// type-checked instead, as the compiler does: it also refuses what is no longer used.
func TestTheSourceOfAControlCompiles(t *testing.T) {
	compiled := compile(t, All())
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			changed, err := c.changed(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.check(c.file, changed); err != nil {
				t.Error(err)
			}
			if err := compiled.check(c.file, changed+"\nvar _ = absent\n"); err == nil {
				t.Error("a source with a name that does not exist compiles")
			}
		})
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// packages are the packages of some controls, by folder from the module's root, and what they import.
type packages struct {
	fset    *token.FileSet
	byDir   map[string]listed
	imports types.Importer
}

// compile has the go command compile the packages of the controls and all that they import.
func compile(t *testing.T, all []Control) packages {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, c := range all {
		args = append(args, "./"+filepath.Dir(c.file))
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = top, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	p, exports := packages{fset: token.NewFileSet(), byDir: map[string]listed{}}, map[string]string{}
	p.imports = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var l listed
		if err := decoder.Decode(&l); err != nil {
			t.Fatal(err)
		}
		exports[l.ImportPath] = l.Export
		if dir, err := filepath.Rel(top, l.Dir); err == nil {
			p.byDir[dir] = l
		}
	}
	return p
}

// check type-checks the package of a file with another source in that file's place.
func (p packages) check(file, source string) error {
	of, ok := p.byDir[filepath.Dir(file)]
	if !ok || !slices.Contains(of.GoFiles, filepath.Base(file)) {
		return fmt.Errorf("%s is not compiled on this platform", file)
	}
	var files []*ast.File
	for _, name := range of.GoFiles {
		var replaced any
		if name == filepath.Base(file) {
			replaced = source
		}
		parsed, err := parser.ParseFile(p.fset, filepath.Join(of.Dir, name), replaced, 0)
		if err != nil {
			return err
		}
		files = append(files, parsed)
	}
	_, err := (&types.Config{Importer: p.imports}).Check(of.ImportPath, p.fset, files, nil)
	return err
}
