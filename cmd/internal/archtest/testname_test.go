package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// testFunctions are those that go test runs.
var testFunctions = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([A-Z0-9]|$)`)

// naming are the fields of a table by which its rows are named.
var naming = []string{"name", "why", "what", "title", "about", "scenario"}

// retiredInTests counts, for each word that neither a name nor a sentence may have, its
// uses in the names of tests: of files, of functions, of subtests, and of the rows of tables.
func retiredInTests(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		types := map[string]*ast.StructType{}
		for _, f := range slices.Concat(p.files, p.tests) {
			structTypes(f, types)
		}
		for _, f := range p.tests {
			countTerms(out, strings.ReplaceAll(strings.TrimSuffix(path.Base(f.path), "_test.go"), "_", " "))
			for _, n := range testNames(f, types) {
				countTerms(out, n.text)
			}
		}
	}
	return out
}

// testName is a name of a test with its place.
type testName struct {
	pos  token.Pos
	text string
}

// testNames lists the names of a file's tests as sentences.
func testNames(f *file, types map[string]*ast.StructType) []testName {
	var out []testName
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, testName{lit.Pos(), text})
			}
		}
	}
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testFunctions.MatchString(fn.Name.Name) {
			out = append(out, testName{fn.Pos(), strings.Join(splitCamelCase(fn.Name.Name), " ")})
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if i := subtestName(n); i >= 0 {
				add(n.Args[i])
			}
		case *ast.CompositeLit:
			for _, e := range rowNames(n, types) {
				add(e)
			}
		}
		return true
	})
	return out
}

// subtestName is the place of the argument by which a call names a step: Run's, and that of
// any function that gets the step behind it; -1 for other calls.
func subtestName(call *ast.CallExpr) int {
	if len(call.Args) < 2 {
		return -1
	}
	_, literal := call.Args[len(call.Args)-1].(*ast.FuncLit)
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" && len(call.Args) == 2 {
		return 0
	}
	if !literal {
		return -1
	}
	return slices.IndexFunc(call.Args, func(e ast.Expr) bool { lit, ok := e.(*ast.BasicLit); return ok && lit.Kind == token.STRING })
}

// rowNames lists what names the rows of a table: of a list of structs the field for it, of a
// map its keys. The keys of a map to plain values are names where they are sentences, and
// else data.
func rowNames(table *ast.CompositeLit, types map[string]*ast.StructType) []ast.Expr {
	var out []ast.Expr
	switch t := table.Type.(type) {
	case *ast.MapType:
		for _, e := range table.Elts {
			pair, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			_, plain := t.Value.(*ast.Ident)
			if key, ok := pair.Key.(*ast.BasicLit); ok && (!plain || strings.Contains(key.Value, " ")) {
				out = append(out, key)
			}
		}
	case *ast.ArrayType:
		at := namingField(t.Elt, types)
		for _, e := range table.Elts {
			row, ok := e.(*ast.CompositeLit)
			if !ok || row.Type != nil {
				continue
			}
			for i, field := range row.Elts {
				if pair, ok := field.(*ast.KeyValueExpr); ok {
					if id, ok := pair.Key.(*ast.Ident); ok && slices.Contains(naming, id.Name) {
						out = append(out, pair.Value)
					}
				} else if i == at {
					out = append(out, field)
				}
			}
		}
	}
	return out
}

// namingField is the place of the field by which structs of a type are named; -1 where they
// have none.
func namingField(e ast.Expr, types map[string]*ast.StructType) int {
	st, ok := e.(*ast.StructType)
	if id, isName := e.(*ast.Ident); isName {
		st, ok = types[id.Name]
	}
	if !ok {
		return -1
	}
	i := 0
	for _, field := range st.Fields.List {
		for _, id := range field.Names {
			if slices.Contains(naming, id.Name) {
				return i
			}
			i++
		}
		if len(field.Names) == 0 {
			i++
		}
	}
	return -1
}

// structTypes adds the structs that a file declares, by their names.
func structTypes(f *file, types map[string]*ast.StructType) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok {
			if st, ok := t.Type.(*ast.StructType); ok {
				types[t.Name.Name] = st
			}
		}
		return true
	})
}
