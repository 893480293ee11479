package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
)

// findingPackage has the codes' type and the table of what they mean.
const findingPackage = "reconciler/state/finding"

// coded are the types of findings, by their package's folder and name, with the field of their text.
var coded = map[string]map[string]string{
	"reconciler/state":         {"Problem": "Message"},
	"reconciler/plan":          {"Note": "Text", "Unknown": "Reason"},
	"reconciler/declared/lint": {"Diagnostic": "Text"},
	"provision":                {"Unknown": "Text"},
	findingPackage:             {"Finding": "Text"},
}

// findingsHaveCodes lists the findings that are made without a code.
func findingsHaveCodes(s *source) []string {
	return eachNode(s, func(p *pkg, n ast.Node) []string {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return nil
		}
		var out []string
		of := []*ast.CompositeLit{lit}
		typ := lit.Type
		if list, isList := typ.(*ast.ArrayType); isList {
			typ, of = list.Elt, nil
			for _, e := range lit.Elts {
				if one, isLit := e.(*ast.CompositeLit); isLit && one.Type == nil {
					of = append(of, one)
				}
			}
		}
		text := textField(p, typ)
		for _, one := range of {
			if text != "" && hasField(one, text) && !hasField(one, "Code") {
				out = append(out, s.at(one.Pos(), "a finding without a code"))
			}
		}
		return out
	})
}

// textField is the field for the text of a type of findings; empty for all other types.
func textField(p *pkg, typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.Ident:
		return coded[p.dir][t.Name]
	case *ast.SelectorExpr:
		for dir, types := range coded {
			if x, ok := t.X.(*ast.Ident); ok && dir[len(dir)-min(len(x.Name), len(dir)):] == x.Name {
				return types[t.Sel.Name]
			}
		}
	}
	return ""
}

func hasField(lit *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := field.Key.(*ast.Ident)
		return ok && key.Name == name
	})
}

// codesAreDescribed lists the codes that are no constant of their own, that the table does not describe, or describes and
// nothing reports.
func codesAreDescribed(s *source) []string {
	declared, described := map[string]token.Pos{}, map[string]token.Pos{}
	var out []string
	for _, p := range s.packages {
		for _, f := range p.written() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					code, ok := codeOf(p, n)
					if !ok {
						break
					}
					if _, twice := declared[code]; twice {
						out = append(out, s.at(n.Pos(), "the code %s is declared twice", code))
					}
					declared[code] = n.Pos()
				case *ast.CompositeLit:
					if code, ok := describedCode(p, n); ok {
						described[code] = n.Pos()
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && f.Sel.Name == "New" && isIdent(f.X, "finding") {
						if _, literal := n.Args[0].(*ast.BasicLit); literal {
							out = append(out, s.at(n.Pos(), "a code that is no constant"))
						}
					}
				}
				return true
			})
		}
	}
	for code, pos := range declared {
		if _, ok := described[code]; !ok {
			out = append(out, s.at(pos, "the code %s is not described in %s", code, findingPackage))
		}
	}
	for code, pos := range described {
		if _, ok := declared[code]; !ok {
			out = append(out, s.at(pos, "nothing reports the code %s", code))
		}
	}
	slices.Sort(out)
	return out
}

// codeOf is the value of a constant that is a code.
func codeOf(p *pkg, spec *ast.ValueSpec) (string, bool) {
	t, ok := spec.Type.(*ast.SelectorExpr)
	ours := ok && (t.Sel.Name == "Code" && isIdent(t.X, "finding") || t.Sel.Name == "UnknownCode" && isIdent(t.X, "provision")) || p.dir == findingPackage && isIdent(spec.Type, "Code")
	if !ours || len(spec.Values) != 1 {
		return "", false
	}
	return textOf(spec.Values[0])
}

// describedCode is the code that a row of the table describes.
func describedCode(p *pkg, lit *ast.CompositeLit) (string, bool) {
	if p.dir != findingPackage || lit.Type != nil || len(lit.Elts) != 4 {
		return "", false
	}
	return textOf(lit.Elts[0])
}

func textOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
