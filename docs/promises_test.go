package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/promises"
)

// testsIn are the names of the tests of a folder, from the module's root.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}

// split separates the folder of a test from its name.
func split(test string) (folder, name string) {
	at := strings.LastIndex(test, ".")
	return test[:max(0, at)], test[at+1:]
}

func TestEveryNamedTestExists(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, table := range promises.All() {
		for _, p := range table.Promises {
			all := p.Tests
			if strings.Contains(p.Control, ".") {
				all = append(all, p.Control)
			}
			for _, test := range all {
				folder, name := split(test)
				if known[folder] == nil {
					known[folder] = testsIn(t, folder)
				}
				if !known[folder][name] {
					t.Errorf("%s, %s%s: there is no test %s in %s", p.Area, p.Fault, strings.Join(p.Sentences, ", "), name, folder)
				}
			}
		}
	}
}
