package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ordinary are retired words that mean in a sentence what they mean everywhere.
var ordinary = []string{"room", "shown"}

// countTerms adds to the counts the words of a text that no sentence may contain.
func countTerms(counts map[string]int, text string) {
	retired, err := readRetired()
	plain, err2 := readPlain()
	if err != nil || err2 != nil {
		counts["the glossary cannot be read"] = 1
	}
	text = strings.ToLower(pointer.ReplaceAllString(text, ""))
	for _, w := range termPattern.FindAllString(text, -1) {
		if slices.Contains(plain, w) || slices.Contains(retired, w) && !slices.Contains(ordinary, w) {
			counts[w]++
		}
	}
}

var (
	termPattern = regexp.MustCompile(`[a-z]+`)
	// pointer leads a reader to another place.
	pointer = regexp.MustCompile(`\b[Ss]ee (also )?(\[|https?:|package |[A-Z])`)
)

// retiredInMessages counts, for each word, its uses in texts of more than one word, such
// as errors, conditions, events and output. Packages for tests are tests.
func retiredInMessages(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		for _, f := range p.written() {
			if _, test := imports(f)["testing"]; test {
				continue
			}
			tags := map[ast.Node]bool{}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					tags[n.Tag] = n.Tag != nil
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !tags[n] && strings.Contains(text, " ") {
						countTerms(out, text)
					}
				}
				return true
			})
		}
	}
	return out
}

// retiredInComments counts, for each word, its uses in what go doc prints: the comments of
// packages, of exported names, and of the fields and methods of exported types.
func retiredInComments(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		for _, f := range p.written() {
			countTerms(out, f.ast.Doc.Text())
			for _, d := range f.ast.Decls {
				for _, c := range documented(d) {
					countTerms(out, c.Text())
				}
			}
		}
	}
	return out
}

// documented returns the comments that go doc prints of a declaration.
func documented(d ast.Decl) []*ast.CommentGroup {
	fn, ok := d.(*ast.FuncDecl)
	if ok && fn.Name.IsExported() && (fn.Recv == nil || receiverIsExported(fn.Recv)) {
		return []*ast.CommentGroup{fn.Doc}
	}
	group, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	var out []*ast.CommentGroup
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				out = append(out, spec.Doc, spec.Comment)
				out = append(out, ofFields(spec.Type)...)
			}
		case *ast.ValueSpec:
			if slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
				out = append(out, spec.Doc, spec.Comment)
			}
		}
	}
	if slices.ContainsFunc(declares(d), (*ast.Ident).IsExported) {
		out = append(out, group.Doc)
	}
	return out
}

// ofFields returns the comments of a type's exported fields and methods.
func ofFields(e ast.Expr) []*ast.CommentGroup {
	var out []*ast.CommentGroup
	ast.Inspect(e, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && (len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)) {
			out = append(out, f.Doc, f.Comment)
		}
		return true
	})
	return out
}
