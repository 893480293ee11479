package archtest

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// fileCycles returns the files of each package's largest cycle: the files of which each
// uses, by others, something that each other declares: a name of the package or a method of one
// of its types.
func fileCycles(s *source) map[string]int {
	out := map[string]int{}
	in := newImporter()
	for _, p := range s.packages {
		out[p.dir] = largestCycle(uses(s.fset, p, in))
	}
	return out
}

// uses returns which files of a package each of its files uses. The package is checked without
// those that it imports, so that what it gets from their functions has no type; what is not
// found for that reason is not counted.
func uses(fset *token.FileSet, p *pkg, in types.Importer) [][]int {
	var files []*ast.File
	for _, f := range p.files {
		files = append(files, f.ast)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: in, Error: func(error) {}, DisableUnusedImportCheck: true}
	checked, _ := config.Check(p.dir, fset, files, &info)
	written := p.written()
	number := map[string]int{}
	for i, f := range written {
		number[f.path] = i
	}
	out := make([][]int, len(written))
	for id, object := range info.Uses {
		if object.Pkg() != checked || object.Parent() != checked.Scope() && !isMethod(object) {
			continue
		}
		from, ok := number[fset.Position(id.Pos()).Filename]
		if to, declared := number[fset.Position(object.Pos()).Filename]; ok && declared && from != to {
			out[from] = append(out[from], to)
		}
	}
	for i := range out {
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	return out
}

// isMethod reports whether an object is a method of a type, and not of an interface, whose
// methods are part of its declaration.
func isMethod(object types.Object) bool {
	f, ok := object.(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return false
	}
	return !types.IsInterface(f.Signature().Recv().Type())
}

// standardImporter imports generic packages of the standard library, which return what they are
// given, and nothing of any other.
type standardImporter struct {
	standard types.Importer
	empty    map[string]*types.Package
}

func newImporter() standardImporter {
	return standardImporter{importer.ForCompiler(token.NewFileSet(), "source", nil), map[string]*types.Package{}}
}

// Import implements types.Importer.
func (i standardImporter) Import(path string) (*types.Package, error) {
	if slices.Contains([]string{"cmp", "iter", "maps", "slices"}, path) {
		return i.standard.Import(path)
	}
	if i.empty[path] == nil {
		name := path[strings.LastIndex(path, "/")+1:]
		i.empty[path] = types.NewPackage(path, name)
		i.empty[path].MarkComplete()
	}
	return i.empty[path], nil
}

// largestCycle returns the size of the largest strongly connected part of a graph; 0
// where none has two members.
func largestCycle(edges [][]int) int {
	reach := make([][]bool, len(edges))
	for i := range edges {
		reach[i] = make([]bool, len(edges))
		for todo := []int{i}; len(todo) > 0; {
			from := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, to := range edges[from] {
				if !reach[i][to] {
					reach[i][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	largest := 0
	for i := range edges {
		n := 0
		for j := range edges {
			if i == j || reach[i][j] && reach[j][i] {
				n++
			}
		}
		if n > 1 {
			largest = max(largest, n)
		}
	}
	return largest
}
