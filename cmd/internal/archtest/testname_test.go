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
		takes := takeNames(p.tests)
		for _, f := range p.tests {
			countTerms(out, strings.ReplaceAll(strings.TrimSuffix(path.Base(f.path), "_test.go"), "_", " "))
			for _, n := range testNames(f, types, takes) {
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

// testNames lists the names of a file's tests as sentences. takes are the functions of its package that pass a name on.
func testNames(f *file, types map[string]*ast.StructType, takes map[string]int) []testName {
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
			} else if i, ok := takes[calledName(n)]; ok && i < len(n.Args) {
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

// calledName is the name of the function, the method or the variable that is called.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// takeNames finds the functions, methods and closures of a package's tests that pass one of their parameters on as the
// name of a sub-test or a step, directly or through each other, with the place of that parameter.
func takeNames(tests []*file) map[string]int {
	bodies := map[string]*ast.FuncLit{}
	for _, f := range tests {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil && !testFunctions.MatchString(n.Name.Name) {
					bodies[n.Name.Name] = &ast.FuncLit{Type: n.Type, Body: n.Body}
				}
			case *ast.AssignStmt:
				for i, value := range n.Rhs {
					id, named := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident)
					if lit, ok := value.(*ast.FuncLit); ok && named {
						bodies[id.Name] = lit
					}
				}
			}
			return true
		})
	}
	takes := map[string]int{}
	for again := true; again; {
		again = false
		for name, fn := range bodies {
			if _, found := takes[name]; found {
				continue
			}
			if i := passesName(fn, takes); i >= 0 {
				takes[name], again = i, true
			}
		}
	}
	return takes
}

// passesName is the place of the parameter that a function passes on as a name; -1 where it passes none.
func passesName(fn *ast.FuncLit, takes map[string]int) int {
	var parameters []string
	for _, field := range fn.Type.Params.List {
		for _, id := range field.Names {
			parameters = append(parameters, id.Name)
		}
	}
	out := -1
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		at, found := takes[calledName(call)]
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" && len(call.Args) == 2 {
			at, found = 0, true
		}
		if found && at < len(call.Args) {
			if id, ok := call.Args[at].(*ast.Ident); ok {
				out = max(out, slices.Index(parameters, id.Name))
			}
		}
		return true
	})
	return out
}

// rowNames lists what names the rows of a table: of a list of structs the field for it, of a
// map its keys. The keys of a map to plain values are names where they are sentences, and
// else data.
func rowNames(table *ast.CompositeLit, types map[string]*ast.StructType) []ast.Expr {
	var out []ast.Expr
	switch t := table.Type.(type) {
	case *ast.Ident: // a step by itself: a struct with a name and a function
		if st := types[t.Name]; st != nil && hasFunction(st) {
			out = append(out, namesOf(table, namingField(t, types))...)
		}
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
			out = append(out, namesOf(row, at)...)
		}
	}
	return out
}

// namesOf are the elements of a struct that name it: that at a place, or by their keys.
func namesOf(row *ast.CompositeLit, at int) []ast.Expr {
	var out []ast.Expr
	for i, field := range row.Elts {
		if pair, ok := field.(*ast.KeyValueExpr); ok {
			if id, ok := pair.Key.(*ast.Ident); ok && slices.Contains(naming, id.Name) {
				out = append(out, pair.Value)
			}
		} else if i == at {
			out = append(out, field)
		}
	}
	return out
}

func hasFunction(st *ast.StructType) bool {
	return slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool { _, ok := f.Type.(*ast.FuncType); return ok })
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
