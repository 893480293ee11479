package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
)

// deciders are the functions that decide or cut by a text, by package.
var deciders = map[string][]string{
	"strings": {"Contains", "Cut", "CutPrefix", "CutSuffix", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Split", "SplitAfter", "SplitN", "TrimPrefix", "TrimSuffix", "EqualFold"},
	"bytes":   {"Contains", "Cut", "CutPrefix", "CutSuffix", "HasPrefix", "HasSuffix", "Index", "TrimPrefix", "TrimSuffix"},
	"regexp":  {"MustCompile", "MatchString"},
}

// sentence is a text of two words, or of one and the blank at which it is cut.
var sentence = regexp.MustCompile(`[A-Za-z]{2}[,:;.!?]? +([A-Za-z(%]|$)|^ +[A-Za-z]{2}`)

// foreign are how many texts of others each file decides by, for want of a code or a type
// in what they return.
var foreign = map[string]int{
	// The Go runtime's, when a process dies.
	"cmd/internal/child/tail.go": 5,
	// client-go's, which returns this one without a type; controller-runtime's likewise.
	"cmd/internal/cli/connection.go": 1, "cmd/internal/wire/run.go": 1,
	// os.Root's; those of Git servers.
	"gitsource/dir/dir.go": 1, "gitsource/gogit/internal/remote/classify.go": 1,
	// Generated tables and the sources they come from; Karpenter's reasons; AMI aliases.
	"provision/catalog/internal/generate/module.go": 1, "provision/catalog/table.go": 4, "provision/simulate/internal/placement/reasons.go": 1,
	// Programs that the sandbox runs, and scripts that its containers are given.
	"provision/sandbox/gitserver/settings.go": 2, "provision/sandbox/nodes/internal/kwokbridge/timing.go": 1, "provision/sandbox/process/ports.go": 1,
	// YAML's, kustomize's and the API server's, whose validation names fields in its text only.
	"reconciler/declared/lint/remedy.go": 1, "reconciler/declared/lint/schema.go": 3, "reconciler/declared/manifest/position.go": 3,
	"reconciler/declared/manifest/tree.go": 1, "reconciler/declared/render/message.go": 5, "reconciler/declared/render/survey.go": 1,
	"reconciler/targets/internal/api/redact.go": 3, "reconciler/targets/internal/api/refusal.go": 8,
	// Markers in files and comments that are there to be found again; forges; keys.
	"cmd/poolwright-sandbox/demo/old.go": 1, "cmd/poolwright-sandbox/demo/pull.go": 1,
	"reconciler/declared/conversion/skipped.go": 1, "reconciler/report/forge/internal/rest/transport.go": 2, "reconciler/state/sanitize/redact.go": 1,
	// AWS's messages where one code stands for several things, and what must not be shown of them.
	"reconciler/targets/aws/internal/eks/addon.go": 1, "reconciler/targets/aws/internal/awserr/describe.go": 3, "reconciler/targets/aws/internal/identity/identity.go": 1,
	"reconciler/targets/aws/internal/eks/logging.go": 1,
}

// proseDecisions counts, file by file, where a sentence is compared, cut or matched.
func proseDecisions(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		texts := constants(p)
		for _, f := range p.written() {
			out[f.path] = -foreign[f.path]
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if n != nil && slices.ContainsFunc(decidedBy(n), func(e ast.Expr) bool { return sentence.MatchString(text(e, texts)) }) {
					out[f.path]++
				}
				return true
			})
		}
	}
	return out
}

// decidedBy returns the values by which a node decides.
func decidedBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.CaseClause:
		return n.List
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(deciders[x.Name], sel.Sel.Name) {
			return n.Args
		}
	}
	return nil
}

// constants are the texts that a package's constants stand for.
func constants(p *pkg) map[string]string {
	out := map[string]string{}
	for _, f := range p.written() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			g, ok := n.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				return true
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, id := range v.Names {
					if i < len(v.Values) {
						out[id.Name] = text(v.Values[i], out)
					}
				}
			}
			return true
		})
	}
	return out
}

// text is what an expression stands for, as far as it is constant.
func text(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			value, _ := strconv.Unquote(e.Value)
			return value
		}
	case *ast.Ident:
		if e.Obj == nil || e.Obj.Kind == ast.Con {
			return constants[e.Name]
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return text(e.X, constants) + text(e.Y, constants)
		}
	case *ast.ParenExpr:
		return text(e.X, constants)
	case *ast.CallExpr:
		if len(e.Args) == 1 { // a conversion
			return text(e.Args[0], constants)
		}
	}
	return ""
}
