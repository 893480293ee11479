package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// renderers are the packages that may render in the process in which they run, with what
// runs in a process that is not to: the controller, which is Karpenter as well, and
// whoever starts a child. Of the others none is part of the controller.
var renderers = map[string]func(*ast.FuncDecl) bool{
	"reconciler/declared":         nil,
	"reconciler/declared/checked": nil,
	"cmd/internal/bootstrap":      nil,
	"cmd/internal/installation":   nil,
	"cmd/internal/costing":        nil,
	"cmd/internal/offline":        nil,
	"cmd/internal/planning":       nil,
	// What others call by an interface is named nowhere.
	"cmd/internal/operator": func(f *ast.FuncDecl) bool {
		return f.Recv == nil && f.Name.Name == "Run" || f.Recv != nil && f.Name.IsExported()
	},
	"cmd/internal/child": func(f *ast.FuncDecl) bool { return f.Recv != nil && receives(f, "Runner") },
}

// gitIsRenderedInAChild finds ways on which the controller would render Git content, or
// check it against schemas, in its own process. It follows names: a function leads to every function and method of its
// package that it names, whether or not that one is meant.
func gitIsRenderedInAChild(s *source) []string {
	var out []string
	for _, p := range s.packages {
		from, may := renderers[p.dir]
		if from == nil {
			from = func(*ast.FuncDecl) bool { return !may }
		}
		functions := map[string][]*ast.FuncDecl{}
		reached := map[*ast.FuncDecl]string{}
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				functions[called(fn)] = append(functions[called(fn)], fn)
				if from(fn) {
					reached[fn] = fn.Name.Name
				}
			}
			if p.dir == "cmd/internal/operator" {
				for _, i := range slices.Sorted(maps.Keys(imports(f))) {
					if dir, ok := ours(i); ok && slices.Contains([]string{"cmd/internal/bootstrap", "cmd/internal/installation", "cmd/internal/offline", "cmd/internal/planning", "cmd/internal/costing"}, dir) {
						out = append(out, s.at(f.ast.Pos(), "%s renders in this process: the controller must not import it", dir))
					}
				}
			}
		}
		for todo := slices.Collect(maps.Keys(reached)); len(todo) > 0; todo = todo[1:] {
			for _, name := range names(todo[0]) {
				if slices.Contains([]string{"checked.Load", "declared.Load", "render.Run", "lint.Check", "lint.Find", "lint.Refused"}, name) {
					out = append(out, s.at(todo[0].Pos(), "%s is for a child process, and runs in the controller's: by %s", name, reached[todo[0]]))
				}
				for _, fn := range functions[name] {
					if _, known := reached[fn]; !known {
						reached[fn] = fmt.Sprintf("%s, %s", reached[todo[0]], fn.Name.Name)
						todo = append(todo, fn)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// called is how a function is named by those that use it: a method with a dot before it.
func called(fn *ast.FuncDecl) string {
	if fn.Recv != nil {
		return "." + fn.Name.Name
	}
	return fn.Name.Name
}

func receives(fn *ast.FuncDecl, name string) bool {
	star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	id, ok := star.X.(*ast.Ident)
	return ok && id.Name == name
}

// names are all functions, methods and things of other packages that a function names.
func names(fn *ast.FuncDecl) []string {
	var out []string
	fields := map[*ast.Ident]bool{}
	ast.Inspect(&ast.FuncLit{Type: fn.Type, Body: fn.Body}, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			fields[n.Sel] = true
			out = append(out, "."+n.Sel.Name)
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil {
				out = append(out, x.Name+"."+n.Sel.Name)
			}
		case *ast.Ident:
			if !fields[n] && (n.Obj == nil || n.Obj.Kind == ast.Fun) {
				out = append(out, n.Name)
			}
		}
		return true
	})
	return out
}
