package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
	maxParameters    = 6
	maxMethods       = 4
	// Fields and exported names are limited far above what a good struct or package has: a
	// limit at which many of them sit has them split, nested and embedded for its sake.
	maxFields   = 20
	maxExported = 30
)

func filesAreShort(s *source) []string {
	var out []string
	for _, p := range s.packages {
		for _, f := range p.written() {
			if f.lines > maxFileLines {
				out = append(out, fmt.Sprintf("%s: %d lines", f.path, f.lines))
			}
		}
	}
	return out
}

func functionsAreShort(s *source) []string {
	return eachFunction(s, func(fn *ast.FuncDecl) []string {
		lines := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
		if lines <= maxFunctionLines {
			return nil
		}
		return []string{s.at(fn.Pos(), "%s has %d lines", fn.Name.Name, lines)}
	})
}

var constructor = regexp.MustCompile(`^(New|Start)([A-Z].*)?$`)

func constructorsTakeFew(s *source) []string {
	return eachFunction(s, func(fn *ast.FuncDecl) []string {
		n := fieldCount(fn.Type.Params)
		if fn.Recv != nil || !constructor.MatchString(fn.Name.Name) || n <= maxParameters {
			return nil
		}
		return []string{s.at(fn.Pos(), "%s takes %d parameters", fn.Name.Name, n)}
	})
}

func eachFunction(s *source, check func(*ast.FuncDecl) []string) []string {
	var out []string
	for _, p := range s.packages {
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					out = append(out, check(fn)...)
				}
			}
		}
	}
	return out
}

// fieldCount counts names, and nameless entries as one each.
func fieldCount(list *ast.FieldList) int {
	if list == nil {
		return 0
	}
	return list.NumFields()
}

func interfacesAreSmall(s *source) []string {
	return eachNode(s, func(p *pkg, n ast.Node) []string {
		i, ok := n.(*ast.InterfaceType)
		if !ok || fieldCount(i.Methods) <= maxMethods {
			return nil
		}
		return []string{s.at(i.Pos(), "an interface with %d methods", fieldCount(i.Methods))}
	})
}

// structsAreSmall passes over the API, whose kinds have the fields that users
// need.
func structsAreSmall(s *source) []string {
	return eachNode(s, func(p *pkg, n ast.Node) []string {
		st, ok := n.(*ast.StructType)
		if !ok || fieldCount(st.Fields) <= maxFields || p.in("reconciler/api") {
			return nil
		}
		return []string{s.at(st.Pos(), "a struct with %d fields", fieldCount(st.Fields))}
	})
}

func eachNode(s *source, check func(*pkg, ast.Node) []string) []string {
	var out []string
	for _, p := range s.packages {
		for _, f := range p.written() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if n != nil {
					out = append(out, check(p, n)...)
				}
				return true
			})
		}
	}
	return out
}

func packagesExportFew(s *source) []string {
	var out []string
	for _, p := range s.packages {
		if p.name == "main" || p.in("reconciler/api") {
			continue
		}
		if n := exportedCount(p); n > maxExported {
			out = append(out, fmt.Sprintf("%s: %d exported names", p.dir, n))
		}
	}
	return out
}

func exportedCount(p *pkg) int {
	n := 0
	for _, f := range p.written() {
		for _, d := range f.ast.Decls {
			n += len(exported(d))
		}
	}
	return n
}

// exported lists the package-level names that a declaration exports.
func exported(d ast.Decl) []*ast.Ident {
	return slices.DeleteFunc(declares(d), func(id *ast.Ident) bool { return !id.IsExported() })
}

// rootExportsNoType reports the types that other packages could use of the composition root: what
// has one of its own to pass on is a part, and belongs where the parts are.
func rootExportsNoType(s *source) []string {
	var out []string
	for _, p := range s.packages {
		if p.dir != compositionRoot {
			continue
		}
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				if group, ok := d.(*ast.GenDecl); !ok || group.Tok != token.TYPE {
					continue
				}
				for _, id := range exported(d) {
					if id.Name != "Config" {
						out = append(out, s.at(id.Pos(), "%s is a type of the composition root", id.Name))
					}
				}
			}
		}
	}
	return out
}
