package archtest

import (
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "types", "errors"}

func packagesHaveDescriptiveNames(s *source) []string {
	var out []string
	for _, p := range s.packages {
		if slices.Contains(emptyNames, p.name) || slices.Contains(emptyNames, p.dir[strings.LastIndex(p.dir, "/")+1:]) {
			out = append(out, fmt.Sprintf("%s: a package called %s says nothing of what it is", p.dir, p.name))
		}
	}
	return out
}

// nothingBreaksOut forbids init and panic everywhere, and whatever ends the
// process outside of main.
func nothingBreaksOut(s *source) []string {
	out := eachFunction(s, func(fn *ast.FuncDecl) []string {
		if fn.Recv == nil && fn.Name.Name == "init" {
			return []string{s.at(fn.Pos(), "func init")}
		}
		return nil
	})
	return append(out, eachNode(s, func(p *pkg, n ast.Node) []string {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return nil
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			if fun.Name == "panic" && fun.Obj == nil {
				return []string{s.at(call.Pos(), "panic: return an error")}
			}
		case *ast.SelectorExpr:
			x, ok := fun.X.(*ast.Ident)
			exits := ok && (x.Name == "os" && fun.Sel.Name == "Exit" || x.Name == "log" && strings.HasPrefix(fun.Sel.Name, "Fatal"))
			if exits && p.name != "main" {
				return []string{s.at(call.Pos(), "%s.%s outside of main: return an error", x.Name, fun.Sel.Name)}
			}
			if ok && x.Name == "log" && strings.HasPrefix(fun.Sel.Name, "Panic") {
				return []string{s.at(call.Pos(), "log.%s: return an error", fun.Sel.Name)}
			}
		}
		return nil
	})...)
}

// heldText is what stands in an argument that is, or looks for, the text of why a change
// is held.
var heldText = regexp.MustCompile(`\.(Hold|Holds|Reasons\(\))\b|ConfirmWith|confirm with|poolwright(\\*)\.dev/confirm`)

// holdsAreNotParsed finds calls that take apart, search or match why a change is held. It
// is data (package plan/hold), and text only where it is shown.
func holdsAreNotParsed(s *source) []string {
	joins := []string{"Join", "Builder", "NewReplacer", "ToLower", "Repeat"}
	return eachNode(s, func(_ *pkg, n ast.Node) []string {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return nil
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if x, ok := fun.X.(*ast.Ident); !ok || x.Name != "strings" && x.Name != "regexp" || slices.Contains(joins, fun.Sel.Name) {
			return nil
		}
		for _, arg := range call.Args {
			var text strings.Builder
			if err := printer.Fprint(&text, token.NewFileSet(), arg); err != nil || heldText.MatchString(text.String()) {
				return []string{s.at(call.Pos(), "%s of why a change is held: ask its rules and facts", fun.Sel.Name)}
			}
		}
		return nil
	})
}

// packageVariablesStay finds package variables that are assigned to, or made
// to be changed. Constants that Go cannot write as such (tables, patterns,
// sentinel errors) are fine.
func packageVariablesStay(s *source) []string {
	var out []string
	for _, p := range s.packages {
		vars := packageVars(p)
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			if spec := vars[name]; changeable(spec) {
				out = append(out, s.at(spec.Pos(), "variable %s is made to be changed", name))
			}
		}
		for _, f := range p.written() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				for _, target := range assigned(n) {
					if id := root(target); id != nil && isPackageVar(id, vars) {
						out = append(out, s.at(id.Pos(), "package variable %s is changed", id.Name))
					}
				}
				return true
			})
		}
	}
	return out
}

func packageVars(p *pkg) map[string]*ast.ValueSpec {
	out := map[string]*ast.ValueSpec{}
	for _, f := range p.written() {
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if name.Name != "_" {
						out[name.Name] = spec.(*ast.ValueSpec)
					}
				}
			}
		}
	}
	return out
}

// changeable reports variables of types that serve to be changed: locks, lazy
// values, atomics.
func changeable(spec *ast.ValueSpec) bool {
	found := false
	for _, e := range append([]ast.Expr{spec.Type}, spec.Values...) {
		switch lit := e.(type) {
		case *ast.CompositeLit:
			e = lit.Type
		case *ast.CallExpr:
			e = lit.Fun
		case *ast.UnaryExpr:
			if c, ok := lit.X.(*ast.CompositeLit); ok {
				e = c.Type
			}
		}
		if index, ok := e.(*ast.IndexExpr); ok {
			e = index.X
		}
		if sel, ok := e.(*ast.SelectorExpr); ok {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && (x.Name == "sync" || x.Name == "atomic")
		}
	}
	return found
}

// assigned lists what a statement gives another value.
func assigned(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		if fun, ok := n.Fun.(*ast.Ident); ok && (fun.Name == "delete" || fun.Name == "clear") && fun.Obj == nil && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// root is the variable that an assignment's left side starts from.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isPackageVar tells a package's variable from a local one of the same name:
// the parser resolves names within a file, and leaves those of other files
// open.
func isPackageVar(id *ast.Ident, vars map[string]*ast.ValueSpec) bool {
	spec, ok := vars[id.Name]
	return ok && (id.Obj == nil || id.Obj.Decl == spec)
}

// machine are traces of the machine or session in which a text was written.
// They are put together here so that this file does not hold them.
var machine = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.~-])/(?:` + "wo" + `rk/(?:main|` + "sha" + `red)|ro` + `ot/|tmp/` + `(?:w/|bash_jobs))|\.\./` + "sha" + `red/`)

func textsKnowNoMachine(s *source) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.texts)) {
		for n, line := range strings.Split(string(s.texts[name]), "\n") {
			if found := machine.FindString(line); found != "" {
				out = append(out, fmt.Sprintf("%s:%d: %q", name, n+1, strings.TrimSpace(found)))
			}
		}
	}
	return out
}
