package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

func packagesHaveComments(s *source) []string {
	var out []string
	for _, p := range s.packages {
		if len(p.files) == 0 {
			continue
		}
		if !slices.ContainsFunc(p.files, func(f *file) bool { return f.ast.Doc != nil }) {
			out = append(out, fmt.Sprintf("%s: no package comment", p.dir))
		}
	}
	return out
}

// exportedNamesHaveComments looks at package-level names, and at methods of
// exported types. A group of constants or variables may have one comment.
func exportedNamesHaveComments(s *source) []string {
	var out []string
	for _, p := range s.packages {
		if p.name == "main" {
			continue
		}
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				for _, id := range bare(d) {
					out = append(out, s.at(id.Pos(), "%s has no comment", id.Name))
				}
			}
		}
	}
	return out
}

// bare lists the exported names of a declaration that no comment explains.
func bare(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiverIsExported(d.Recv)) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var out []*ast.Ident
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || len(d.Specs) > 1) {
					out = append(out, spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					out = append(out, slices.DeleteFunc(slices.Clone(spec.Names), func(id *ast.Ident) bool { return !id.IsExported() })...)
				}
			}
		}
		return out
	}
	return nil
}

func receiverIsExported(recv *ast.FieldList) bool {
	e := recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// commentsBelong finds comments between declarations that belong to none of them, such as
// those about a file: no tool shows them, and a reader of the declarations passes them over.
func commentsBelong(s *source) []string {
	var out []string
	for _, p := range s.packages {
		for _, f := range p.written() {
			for _, c := range f.ast.Comments {
				directive := strings.HasPrefix(c.List[0].Text, "//") && !strings.HasPrefix(c.List[0].Text, "// ")
				if c.Pos() > f.ast.Name.End() && !directive && !slices.ContainsFunc(f.ast.Decls, func(d ast.Decl) bool { return s.holds(d, c) }) {
					out = append(out, s.at(c.Pos(), "a comment that belongs to no declaration"))
				}
			}
		}
	}
	return out
}

// holds reports whether a comment is a declaration's, stands in it, or on its last line.
func (s *source) holds(d ast.Decl, c *ast.CommentGroup) bool {
	begin := d.Pos()
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc != nil {
			begin = d.Doc.Pos()
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			begin = d.Doc.Pos()
		}
	}
	return c.Pos() >= begin && s.fset.Position(c.Pos()).Line <= s.fset.Position(d.End()).Line
}
