package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the import path under which all of our packages live, nested
// modules included.
const module = "github.com/poolwright/poolwright"

// source is a whole repository, parsed.
type source struct {
	fset     *token.FileSet
	packages []*pkg
	// texts are the files that people read, by path.
	texts map[string][]byte
}

// pkg is one folder of Go files. Files that make an external test package are
// among its test files.
type pkg struct {
	dir   string
	name  string
	files []*file
	tests []*file
}

type file struct {
	path      string
	ast       *ast.File
	lines     int
	generated bool
}

// written are the package's own files: neither tests nor generated.
func (p *pkg) written() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.generated })
}

// in reports whether the package lies in one of the folders or below.
func (p *pkg) in(dirs ...string) bool { return within(p.dir, dirs...) }

func within(dir string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
}

// skipped are folders that hold nothing of ours.
func skipped(name string) bool {
	return slices.Contains([]string{"vendor", "node_modules", "bin", "dist"}, name) || strings.HasPrefix(name, "_") ||
		strings.HasPrefix(name, ".") && name != "." && name != ".ci" && name != ".github"
}

// load parses every Go file below root, and reads every other text.
func load(root fs.FS) (*source, error) {
	s := &source{fset: token.NewFileSet(), texts: map[string][]byte{}}
	packages := map[string]*pkg{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return fs.SkipDir
		case d.Name() == ".git":
			return nil // Of a worktree it is a file that names the clone's folder.
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > 1<<20 {
			return err
		}
		content, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if !bytes.ContainsRune(content, 0) {
			s.texts[p] = content
		}
		if path.Ext(p) != ".go" || strings.Contains("/"+p, "/testdata/") {
			return nil
		}
		return s.parse(packages, p, content)
	})
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		s.packages = append(s.packages, packages[dir])
	}
	return s, err
}

func (s *source) parse(packages map[string]*pkg, p string, content []byte) error {
	parsed, err := parser.ParseFile(s.fset, p, content, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", p, err)
	}
	dir := path.Dir(p)
	if packages[dir] == nil {
		packages[dir] = &pkg{dir: dir}
	}
	f := &file{path: p, ast: parsed, lines: bytes.Count(content, []byte("\n")), generated: ast.IsGenerated(parsed)}
	if strings.HasSuffix(p, "_test.go") {
		packages[dir].tests = append(packages[dir].tests, f)
		return nil
	}
	packages[dir].name = parsed.Name.Name
	packages[dir].files = append(packages[dir].files, f)
	return nil
}

// at writes a finding with its place.
func (s *source) at(pos token.Pos, format string, args ...any) string {
	p := s.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// imports lists what a file imports, with the places.
func imports(f *file) map[string]token.Pos {
	out := map[string]token.Pos{}
	for _, i := range f.ast.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			out[p] = i.Pos()
		}
	}
	return out
}

// ours cuts the module's path from an import path.
func ours(importPath string) (dir string, ok bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// standard reports whether the import is of the standard library.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// repository parses this repository.
func repository(t *testing.T) *source {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.Contains(string(content), "module "+module+"\n") {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod of the module in any folder above")
		}
		dir = parent
	}
	s, err := load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
