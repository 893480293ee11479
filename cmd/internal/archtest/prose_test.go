package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// deciders are the functions that do not decide, cut, match or search by a text, by the package
// that has no others; of the rest, those that do.
var deciders = map[string]func(name string) bool{
	"strings": func(name string) bool { return !slices.Contains(composers, name) },
	"bytes":   func(name string) bool { return !slices.Contains(composers, name) },
	"regexp":  func(name string) bool { return name != "QuoteMeta" },
	"slices":  func(name string) bool { return slices.Contains(searchers, name) },
	"fmt":     func(name string) bool { return slices.Contains([]string{"Sscan", "Sscanf", "Sscanln"}, name) },
}

// composers are the functions of package strings that only make a text of others, or have no
// second one to go by.
var composers = []string{
	"Builder", "Clone", "Compare", "Join", "Lines", "Map", "NewBuffer", "NewBufferString", "NewReader", "Repeat", "Title", "ToLower", "ToTitle",
	"ToUpper", "ToValidUTF8", "TrimSpace",
}

// searchers are the functions of package slices that find an element.
var searchers = []string{"BinarySearch", "BinarySearchFunc", "Contains", "ContainsFunc", "Index", "IndexFunc"}

// matchers are the methods of a regular expression that are given a text.
var matchers = regexp.MustCompile(`^(Match|Find|Replace|Split)`)

// sentence is a text of two words, or of one and the blank at which it is cut.
var sentence = regexp.MustCompile(`[A-Za-z]{2}[,:;.!?]? +([A-Za-z(%[]|$)|^ +[A-Za-z]{2}`)

// foreign are how many texts of others each file decides by, for want of a code or a type
// in what they return.
var foreign = map[string]int{
	// The Go runtime's, when a process dies.
	"cmd/internal/child/tail.go": 6,
	// client-go's, which returns this one without a type; controller-runtime's likewise.
	"cmd/internal/cli/connection.go": 1, "cmd/internal/operator/run.go": 1,
	// os.Root's; those of Git servers, and a secret that must not be shown of them.
	"gitsource/dir/dir.go": 1, "gitsource/gogit/internal/remote/classify.go": 3,
	"gitsource/gogit/internal/signature/keyring.go": 1, "gitsource/gogit/internal/signature/openpgp.go": 2, "gitsource/gogit/internal/signature/signature.go": 5, "gitsource/gogit/internal/signature/ssh.go": 1,
	// Generated tables and the sources they come from; Karpenter's reasons; AMI aliases.
	"provision/catalog/internal/generate/module.go": 1, "provision/catalog/table.go": 4, "provision/simulate/internal/placement/reasons.go": 2,
	// Commands of SSH, whose client calls them text; go-git's hashes.
	"provision/sandbox/sshtest/sshtest.go": 1, "gitsource/gogit/local.go": 1, "gitsource/gogit/revision.go": 1,
	// Programs that the sandbox runs, and scripts that its containers are given.
	"provision/sandbox/gitserver/settings.go": 2, "provision/sandbox/nodes/internal/kwokbridge/timing.go": 1, "provision/sandbox/process/ports.go": 1,
	// YAML's, kustomize's and the API server's, whose validation names fields in its text only.
	"reconciler/declared/lint/schema.go": 3, "reconciler/declared/manifest/position.go": 7,
	"reconciler/declared/manifest/tree.go": 1, "reconciler/declared/render/message.go": 5, "reconciler/declared/render/survey.go": 2,
	"reconciler/targets/internal/api/redact.go": 4, "reconciler/targets/internal/api/refusal.go": 11,
	// A library of JSON patches of which kustomize passes on the text alone.
	"reconciler/declared/render/output.go": 1,
	// What a test of forges expects of a comment, whose steps are a table.
	"reconciler/report/forge/forgetest/forgetest.go": 1,
	// The last lines of NVIDIA's device plugin, which has neither codes nor exit statuses.
	"provision/gpu/readiness/check.go": 1,
	// GitHub's, which has one code for all that is forbidden; the scheduler's, which has one reason for all that a pod lacks.
	"reconciler/report/forge/github/failure.go": 1, "cmd/poolwright-sandbox/demo/watch.go": 1,
	// Markers in files and comments that are there to be found again; forges; keys.
	"cmd/poolwright-sandbox/demo/commit.go": 2, "cmd/poolwright-sandbox/demo/old.go": 1,
	"reconciler/declared/conversion/skipped.go": 2, "reconciler/report/forge/internal/rest/transport.go": 2, "reconciler/state/sanitize/redact.go": 2,
	// AWS's messages where one code stands for several things, what must not be shown of them, and names of its services.
	"reconciler/targets/aws/internal/eks/addon.go": 1, "reconciler/targets/aws/internal/awserr/describe.go": 4, "reconciler/targets/aws/internal/iam/iam.go": 1,
	"reconciler/targets/aws/internal/eks/logging.go": 1,
}

// proseDecisions counts, file by file, where a sentence, a part of one or a text of ours is compared,
// cut, matched, or found in a list or a table.
func proseDecisions(s *source) map[string]int {
	out := map[string]int{}
	all := map[string]map[string]ast.Expr{}
	for _, p := range s.packages {
		all[module+"/"+p.dir] = packageValues(p)
	}
	for _, p := range s.packages {
		types := map[string]*ast.StructType{}
		for _, f := range p.written() {
			structTypes(f, types)
		}
		for _, f := range p.written() {
			prose := prose{values: all[module+"/"+p.dir], others: all, types: types, imported: importNames(f)}
			out[f.path] = -foreign[f.path]
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if n != nil && (slices.ContainsFunc(prose.decidedBy(n), prose.isSentence) || prose.cutsOwn(n)) {
					out[f.path]++
				}
				return true
			})
		}
	}
	return out
}

// importNames returns the path of each import by the name that it has in the file.
func importNames(f *file) map[string]string {
	out := map[string]string{}
	for _, i := range f.ast.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			name := path.Base(p)
			if i.Name != nil {
				name = i.Name.Name
			}
			out[name] = p
		}
	}
	return out
}

// prose finds sentences in a file.
type prose struct {
	// values are those of the package's constants and variables, others those of all packages, by
	// their import paths.
	values map[string]ast.Expr
	others map[string]map[string]ast.Expr
	// types are the structs that the package declares.
	types map[string]*ast.StructType
	// imported are the paths of the file's imports, by their names in it.
	imported map[string]string
}

// decidedBy returns the values by which a node decides.
func (p prose) decidedBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		empty := func(e ast.Expr) bool { l, ok := e.(*ast.BasicLit); return ok && l.Value == `""` }
		equality := n.Op == token.EQL || n.Op == token.NEQ
		// Whether there is a message, or another one than before, is for whoever passes it on.
		if equality && !empty(n.X) && !empty(n.Y) && (!isProse(n.X) || !isProse(n.Y)) {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return []ast.Expr{n.Tag}
		}
	case *ast.CaseClause:
		return n.List
	case *ast.IndexExpr:
		if p.isTable(n.X) {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && p.imported[x.Name] != "" {
				if decides := deciders[p.imported[x.Name]]; decides != nil && decides(sel.Sel.Name) && !trimsMarks(sel.Sel.Name, n.Args) && !cutsLiteral(sel.Sel.Name, n.Args) {
					return n.Args
				}
			} else if matchers.MatchString(sel.Sel.Name) {
				return n.Args
			}
		}
	}
	return nil
}

// isSentence reports whether an expression is a sentence, or a list or a table of some.
func (p prose) isSentence(e ast.Expr) bool {
	return isProse(e) || p.isComposed(e) || slices.ContainsFunc(p.texts(e, 0), func(text string) bool {
		return sentence.MatchString(blank.ReplaceAllString(text, " "))
	})
}

// cutters are the functions of packages strings and bytes that find a part of a text.
var cutters = regexp.MustCompile(`^(Contains|Count|Cut|CutPrefix|CutSuffix|Fields|FieldsFunc|HasPrefix|HasSuffix|Index|LastIndex|Split|SplitN|SplitAfter|TrimPrefix|TrimSuffix)$`)

// part is what only texts for people have: a character that no name has, or a bracket that opens.
var part = regexp.MustCompile(`[^\x00-\x7F]|[ \pL]\($`)

// ownText are the names of methods that return a text of ours, identity those of values that identify
// something and have no parts.
var (
	ownText  = regexp.MustCompile(`^(String|Text|Why)$`)
	identity = regexp.MustCompile(`^(h|.*H)ash$`)
)

// cutsOwn reports whether a node finds a part of a text of ours, or of a hash.
func (p prose) cutsOwn(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !cutters.MatchString(sel.Sel.Name) || len(call.Args) == 0 {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Obj != nil || p.imported[x.Name] != "strings" && p.imported[x.Name] != "bytes" {
		return false
	}
	switch of := call.Args[0].(type) {
	case *ast.CallExpr:
		method, ok := of.Fun.(*ast.SelectorExpr)
		if ok && len(of.Args) == 0 && ownText.MatchString(method.Sel.Name) && !isBuilder(method.X) {
			return true
		}
	case *ast.SelectorExpr:
		if identity.MatchString(of.Sel.Name) {
			return true
		}
	case *ast.Ident:
		if identity.MatchString(of.Name) {
			return true
		}
	}
	return slices.ContainsFunc(call.Args[1:], func(e ast.Expr) bool {
		return slices.ContainsFunc(p.texts(e, 0), func(text string) bool { return text != bom && part.MatchString(text) })
	})
}

// bom begins files of other programs.
const bom = "\ufeff"

// isBuilder reports whether an expression is a variable in which a text is put together.
func isBuilder(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	if !ok || id.Obj == nil {
		return false
	}
	spec, ok := id.Obj.Decl.(*ast.ValueSpec)
	if !ok {
		return false
	}
	kind, ok := spec.Type.(*ast.SelectorExpr)
	return ok && (kind.Sel.Name == "Builder" || kind.Sel.Name == "Buffer")
}

// proseFields and proseMethods are the names of what has the text of an error, a message, or a text that is
// made for people.
var (
	proseFields  = []string{"Message", "Text", "Detail", "Headline"}
	proseMethods = []string{"Error", "Message", "Why"}
)

// isProse reports whether an expression is the text of an error, a message, or a text of ours.
func isProse(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 0 {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains(proseMethods, sel.Sel.Name)
	}
	sel, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(proseFields, sel.Sel.Name)
}

// isComposed reports whether an expression, or the variable that it names, is put together of texts of ours by + or cmp.Or.
func (p prose) isComposed(e ast.Expr) bool {
	if id, ok := e.(*ast.Ident); ok {
		e = p.valueOf(id)
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isProse(e.X) || isProse(e.Y) || p.isComposed(e.X) || p.isComposed(e.Y))
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Or" {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && p.imported[x.Name] == "cmp" && slices.ContainsFunc(e.Args, isProse)
	}
	return false
}

// isTable reports whether an expression is a map that is written in the package.
func (p prose) isTable(e ast.Expr) bool {
	table := p.literal(e)
	if table == nil {
		return false
	}
	_, ok := table.Type.(*ast.MapType)
	return ok
}

// literal is the list, table or struct that an expression, or the variable that it names, is written as; nil for others.
func (p prose) literal(e ast.Expr) *ast.CompositeLit {
	if id, ok := e.(*ast.Ident); ok {
		e = p.valueOf(id)
	}
	lit, _ := e.(*ast.CompositeLit)
	return lit
}

// rows are the list or table of which an expression is an element: by an index, or as the second name of a loop; nil for others.
func (p prose) rows(e ast.Expr) *ast.CompositeLit {
	switch e := e.(type) {
	case *ast.IndexExpr:
		return p.literal(e.X)
	case *ast.Ident:
		if e.Obj == nil {
			return nil
		}
		loop, ok := e.Obj.Decl.(*ast.AssignStmt)
		if !ok || len(loop.Lhs) != 2 || len(loop.Rhs) != 1 {
			return nil
		}
		name, _ := loop.Lhs[1].(*ast.Ident)
		u, ok := loop.Rhs[0].(*ast.UnaryExpr)
		if ok && u.Op == token.RANGE && name != nil && name.Name == e.Name {
			return p.literal(u.X)
		}
	}
	return nil
}

// fieldTexts are what a field of structs is in the rows of a list or table.
func (p prose) fieldTexts(rows *ast.CompositeLit, field string, depth int) []string {
	var out []string
	at := p.fieldIndex(rows.Type, field)
	for _, row := range rows.Elts {
		if pair, ok := row.(*ast.KeyValueExpr); ok {
			row = pair.Value
		}
		if u, ok := row.(*ast.UnaryExpr); ok {
			row = u.X
		}
		one, ok := row.(*ast.CompositeLit)
		if !ok {
			continue
		}
		for i, value := range one.Elts {
			if pair, ok := value.(*ast.KeyValueExpr); !ok && i == at {
				out = append(out, p.texts(value, depth+1)...)
			} else if ok && isNamed(pair.Key, field) {
				out = append(out, p.texts(pair.Value, depth+1)...)
			}
		}
	}
	return out
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// fieldIndex is the place of a field in the structs of which a list or table is; -1 where they have none.
func (p prose) fieldIndex(e ast.Expr, field string) int {
	switch t := e.(type) {
	case *ast.ArrayType:
		return p.fieldIndex(t.Elt, field)
	case *ast.MapType:
		return p.fieldIndex(t.Value, field)
	case *ast.StarExpr:
		return p.fieldIndex(t.X, field)
	case *ast.Ident:
		if st := p.types[t.Name]; st != nil {
			return p.fieldIndex(st, field)
		}
	case *ast.StructType:
		i := 0
		for _, f := range t.Fields.List {
			for _, id := range f.Names {
				if id.Name == field {
					return i
				}
				i++
			}
			if len(f.Names) == 0 {
				i++
			}
		}
	}
	return -1
}

// cutsLiteral reports whether a call makes a list of a text that is written there, as of
// "get list watch".
func cutsLiteral(name string, args []ast.Expr) bool {
	if !strings.HasPrefix(name, "Fields") || len(args) == 0 {
		return false
	}
	_, ok := args[0].(*ast.BasicLit)
	return ok
}

// trimsMarks reports whether a call only takes punctuation and blanks from the ends of a text. What is before a
// mark at the beginning was put there by somebody.
func trimsMarks(name string, args []ast.Expr) bool {
	if !strings.HasPrefix(name, "Trim") || name == "TrimPrefix" || len(args) != 2 {
		return false
	}
	marks, ok := args[1].(*ast.BasicLit)
	return ok && !strings.ContainsFunc(marks.Value, unicode.IsLetter)
}

// blank is a blank, as a pattern may have it.
var blank = regexp.MustCompile(`\\s[+*]?|\[ \]|\[\[:space:\]\]`)

// maxDepth is how many names are followed to a value: a variable may be made of itself.
const maxDepth = 5

// texts are what an expression stands for, as far as that is in the source: of a list its
// elements, of a table its keys.
func (p prose) texts(e ast.Expr, depth int) []string {
	if depth > maxDepth {
		return nil
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		if value, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{value}
		}
	case *ast.Ident:
		return p.texts(p.valueOf(e), depth+1)
	case *ast.SelectorExpr: // a field of a row, or a constant or a variable of another package
		if rows := p.rows(e.X); rows != nil {
			return p.fieldTexts(rows, e.Sel.Name, depth)
		}
		if x, ok := e.X.(*ast.Ident); ok && x.Obj == nil {
			if values := p.others[p.imported[x.Name]]; values != nil {
				return prose{values: values, others: p.others}.texts(values[e.Sel.Name], depth+1)
			}
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			x, y := p.texts(e.X, depth), p.texts(e.Y, depth)
			return []string{strings.Join(append(x, y...), "")}
		}
	case *ast.ParenExpr:
		return p.texts(e.X, depth)
	case *ast.UnaryExpr: // "range list" of a loop, by its variable
		if e.Op == token.RANGE {
			return p.texts(e.X, depth)
		}
	case *ast.CompositeLit:
		var out []string
		for _, element := range e.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if _, ok := e.Type.(*ast.MapType); !ok {
					continue
				}
				element = pair.Key
			}
			out = append(out, p.texts(element, depth)...)
		}
		return out
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return p.texts(e.Args[0], depth)
		}
		if len(e.Args) == 1 { // a conversion
			return p.texts(e.Args[0], depth)
		}
	}
	return nil
}

// valueOf is the value that a name is declared with; nil where it has none.
func (p prose) valueOf(id *ast.Ident) ast.Expr {
	if id.Obj == nil {
		return p.values[id.Name]
	}
	switch d := id.Obj.Decl.(type) {
	case *ast.ValueSpec:
		if i := slices.IndexFunc(d.Names, func(n *ast.Ident) bool { return n.Name == id.Name }); i >= 0 && i < len(d.Values) {
			return d.Values[i]
		}
	case *ast.AssignStmt:
		i := slices.IndexFunc(d.Lhs, func(e ast.Expr) bool { n, ok := e.(*ast.Ident); return ok && n.Name == id.Name })
		if i >= 0 && len(d.Rhs) == len(d.Lhs) {
			return d.Rhs[i]
		}
		// A loop gives a list's elements to its second name, and a table's keys to its first.
		if u, ok := d.Rhs[0].(*ast.UnaryExpr); ok && u.Op == token.RANGE && p.isTable(u.X) == (i == 0) {
			return u
		}
	}
	return nil
}

// packageValues are the values of a package's constants and variables.
func packageValues(p *pkg) map[string]ast.Expr {
	out := map[string]ast.Expr{}
	for _, f := range p.written() {
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, id := range v.Names {
					if i < len(v.Values) {
						out[id.Name] = v.Values[i]
					}
				}
			}
		}
	}
	return out
}
