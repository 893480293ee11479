package archtest

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

const (
	compositionRoot = "cmd/internal/operator"
	maxRootLines    = 1000
	maxPackageLines = 2000
	// The examples of the field have at most 20 files in a package, tests apart.
	maxPackageFiles = 20
	maxCycle        = 8
)

// codeLines counts the lines of a file with anything but a comment on them.
func (s *source) codeLines(f *file) int {
	var sc scanner.Scanner
	content := s.texts[f.path]
	// A FileSet of its own: the file is in the source's already.
	t := token.NewFileSet().AddFile(f.path, -1, len(content))
	sc.Init(t, content, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := t.Line(pos)
		end := first + strings.Count(lit, "\n")
		if end > last {
			n += end - max(first-1, last)
			last = end
		}
	}
}

func (s *source) codeLinesOf(files []*file) int {
	n := 0
	for _, f := range files {
		n += s.codeLines(f)
	}
	return n
}

// rootLines counts the composition root with all folders below it.
func rootLines(s *source) map[string]int {
	n := 0
	for _, p := range s.packages {
		if p.in(compositionRoot) {
			n += s.codeLinesOf(p.written())
		}
	}
	return map[string]int{compositionRoot: rounded(n, maxRootLines)}
}

// rounded is a number of lines that is over a limit, in hundreds rounded up: who mends a
// thing may need a line for it.
func rounded(lines, limit int) int {
	if lines <= limit {
		return lines
	}
	return (lines + 99) / 100 * 100
}

func packageLines(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		out[p.dir] = rounded(s.codeLinesOf(p.written()), maxPackageLines)
	}
	return out
}

func packageFiles(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		out[p.dir] = len(p.written())
	}
	return out
}

// declares lists the package-level names of a declaration, of types, functions,
// variables and constants.
func declares(d ast.Decl) []*ast.Ident {
	var out []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				out = append(out, spec.Name)
			case *ast.ValueSpec:
				out = append(out, spec.Names...)
			}
		}
	}
	return out
}

// generic are names of types that mean in each package what they mean everywhere.
var generic = []string{
	"column", "condition", "dirEntry", "document", "entry", "fileInfo", "image", "item", "kind", "limit", "lines", "listing",
	"member", "network", "object", "observation", "openFile", "options", "pair", "phase", "pool", "quantity", "queue", "reader",
	"result", "revision", "row", "rule", "span", "state", "statement", "subject", "table", "task", "thread", "variable",
	"version", "watcher", "workload",
}

// siblings are packages that implement one interface: a type of such a name means the same
// in each of them.
var siblings = map[string][]string{
	"permission": {"reconciler/report/forge/gitea", "reconciler/report/forge/github", "reconciler/report/forge/gitlab"},
	"statusKey":  {"reconciler/report/forge/gitea", "reconciler/report/forge/github", "reconciler/report/forge/gitlab"},
}

// typeMeanings counts the packages that declare an unexported type of each name, siblings
// once.
func typeMeanings(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.TYPE {
					continue
				}
				for _, id := range declares(d) {
					if !id.IsExported() && !slices.Contains(generic, id.Name) && slices.Index(siblings[id.Name], p.dir) < 1 {
						out[id.Name]++
					}
				}
			}
		}
	}
	return out
}

// area is the part of the repository that a folder is counted with. The sandbox and its program
// are parts of their own: with the product they would hide how little of each is tested. Most of the
// program's code runs the product against a sandbox, in make demo and make prove: a test that does the same with less
// would prove less. What decides something in it is tested, and the number may only fall.
func area(dir string) string {
	for _, sandbox := range []string{"provision/sandbox", "cmd/poolwright-sandbox"} {
		if within(dir, sandbox) {
			return sandbox
		}
	}
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// untested counts, for each area, the lines of 100 code lines that no line of test stands
// against, in steps of five, since every change moves it.
func untested(s *source) map[string]int {
	code, tests := map[string]int{}, map[string]int{}
	for _, p := range s.packages {
		code[area(p.dir)] += s.codeLinesOf(p.written())
		tests[area(p.dir)] += s.codeLinesOf(p.tests)
	}
	out := map[string]int{}
	for a, n := range code {
		if n > 0 {
			out[a] = (100 - 100*tests[a]/n + 4) / 5 * 5
		}
	}
	return out
}

// missingTests counts, of 200, the lines of test that reconciler lacks for each 100 lines of
// its code, in steps of ten.
func missingTests(s *source) map[string]int {
	code, tests := 0, 0
	for _, p := range s.packages {
		if area(p.dir) == "reconciler" {
			code += s.codeLinesOf(p.written())
			tests += s.codeLinesOf(p.tests)
		}
	}
	if code == 0 {
		return nil
	}
	return map[string]int{"reconciler": (200 - 100*tests/code + 9) / 10 * 10}
}

// contracts are the packages that others implement or are programmed against.
var contracts = []string{"gitsource", "provision", "reconciler/apply", "reconciler/plan", "reconciler/state", "reconciler/targets", "reconciler/report/forge"}

func contractsWithoutExample(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		if !slices.Contains(contracts, p.dir) {
			continue
		}
		out[p.dir] = 1
		for _, f := range p.tests {
			// One without an output is compiled, and not run.
			if slices.ContainsFunc(doc.Examples(f.ast), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }) {
				out[p.dir] = 0
			}
		}
	}
	return out
}

// splitCamelCase returns the words of an identifier, in lower case.
func splitCamelCase(id string) []string {
	var out []string
	var term []rune
	runes := []rune(id)
	for i, r := range runes {
		upper := unicode.IsUpper(r)
		if len(term) > 0 && (r == '_' || upper && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))) {
			out = append(out, strings.ToLower(string(term)))
			term = nil
		}
		if r != '_' {
			term = append(term, r)
		}
	}
	if len(term) > 0 {
		out = append(out, strings.ToLower(string(term)))
	}
	return out
}

// readRetired reads the words that no declared name may get, and readPlain those that no
// sentence may contain, from the glossary.
var (
	readRetired = sync.OnceValues(func() ([]string, error) { return firstColumn("Retired words") })
	readPlain   = sync.OnceValues(func() ([]string, error) { return firstColumn("Sentences") })
)

// firstColumn reads the words in the first column of the table under a heading of the glossary.
func firstColumn(heading string) ([]string, error) {
	page, err := os.ReadFile("../../../docs/glossary.md")
	if err != nil {
		return nil, err
	}
	_, table, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var out []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		for term := range strings.SplitSeq(row[1], ", ") {
			out = append(out, strings.Trim(term, "`"))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("docs/glossary.md has no table of words under %q", heading)
	}
	return out, nil
}

// retiredTerms counts, for each retired word, the names that are declared with it:
// packages, files, types, functions, methods, parameters, results, fields, variables (those
// of functions too) and constants, fields of documents (by their tags) and flags.
func retiredTerms(s *source) map[string]int {
	count := newTermCount()
	for _, p := range s.packages {
		count.name(path.Base(p.dir))
		for _, f := range p.written() {
			count.name(strings.TrimSuffix(path.Base(f.path), ".go"))
			count.declared(f)
		}
	}
	return count.terms
}

// retiredTermsInTests is retiredTerms of what tests declare. Their own names are sentences, see
// retiredInTests.
func retiredTermsInTests(s *source) map[string]int {
	count := newTermCount()
	for _, p := range s.packages {
		for _, f := range p.tests {
			count.declared(f)
		}
	}
	return count.terms
}

// termCount counts names by the retired words in them.
type termCount struct {
	retired []string
	terms   map[string]int
}

func newTermCount() termCount {
	retired, err := readRetired()
	out := termCount{retired, map[string]int{}}
	if err != nil {
		out.terms[err.Error()] = 1
	}
	return out
}

func (c termCount) name(name string) {
	for _, w := range splitCamelCase(name) {
		if slices.Contains(c.retired, w) {
			c.terms[w]++
		}
	}
}

// declared counts the names that a file declares.
func (c termCount) declared(f *file) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
			c.name(fn.Name.Name)
		}
		for _, id := range declares(d) {
			if !testFunctions.MatchString(id.Name) {
				c.name(id.Name)
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // of a struct, an interface, parameters, results or a receiver
			for _, id := range n.Names {
				c.name(id.Name)
			}
			for _, name := range tagged(n) {
				c.name(name)
			}
		case *ast.CallExpr:
			c.name(flagName(n))
		default:
			for _, id := range locals(n) {
				c.name(id.Name)
			}
		}
		return true
	})
}

// locals are the names that a statement of a function declares.
func locals(n ast.Node) []*ast.Ident {
	var of []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			of = n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			of = []ast.Expr{n.Key, n.Value}
		}
	case *ast.DeclStmt:
		return declares(n.Decl)
	}
	var out []*ast.Ident
	for _, e := range of {
		if id, ok := e.(*ast.Ident); ok {
			out = append(out, id)
		}
	}
	return out
}

// tagged returns the names that a field has in documents.
func tagged(field *ast.Field) []string {
	if field.Tag == nil {
		return nil
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return nil
	}
	var out []string
	for _, key := range []string{"json", "yaml"} {
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get(key), ",")
		out = append(out, name)
	}
	return out
}

// definesFlag are the methods of a FlagSet, of flag and of pflag, that define a flag. BoolVar,
// BoolVarP and the like have its name behind the variable.
var definesFlag = regexp.MustCompile(`^(Bool|BoolFunc|Count|Duration|Float64|Func|Int|Int32|Int64|String|StringArray|StringSlice|Text|Uint|Uint64)?(Var)?P?$`)

// flagName is the name of the flag that a call defines; empty where it defines none: the name
// of a flag comes before its description.
func flagName(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 3 || !definesFlag.MatchString(sel.Sel.Name) {
		return ""
	}
	at := 0
	if strings.Contains(sel.Sel.Name, "Var") {
		at = 1
	}
	if lit, ok := call.Args[at].(*ast.BasicLit); ok && lit.Kind == token.STRING {
		return strings.ReplaceAll(strings.Trim(lit.Value, "\"`"), "-", "_")
	}
	return ""
}

// structFields counts a struct's fields, with those of the nameless structs in it, unless
// these have tags: such a struct has the form of a document.
func structFields(st *ast.StructType) int {
	n := fieldCount(st.Fields)
	for _, f := range st.Fields.List {
		if inner, ok := f.Type.(*ast.StructType); ok && !slices.ContainsFunc(inner.Fields.List, func(f *ast.Field) bool { return f.Tag != nil }) {
			n += max(len(f.Names), 1) * structFields(inner)
		}
	}
	return n
}

// nestedFields returns the fields of each struct that has a name.
func nestedFields(s *source) map[string]int {
	out := map[string]int{}
	eachNode(s, func(p *pkg, n ast.Node) []string {
		if t, ok := n.(*ast.TypeSpec); ok && !p.in("reconciler/api") {
			if st, ok := t.Type.(*ast.StructType); ok {
				out[p.dir+"."+t.Name.Name] = structFields(st)
			}
		}
		return nil
	})
	return out
}
