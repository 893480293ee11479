package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/promises"
)

// testsIn are the names of the tests of a folder, from the module's root.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}

// split separates the folder of a test from its name.
func split(test string) (folder, name string) {
	at := strings.LastIndex(test, ".")
	return test[:max(0, at)], test[at+1:]
}

func TestEveryNamedTestExists(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, table := range promises.All() {
		for _, p := range table.Promises {
			all := p.Tests
			if strings.Contains(p.Control, ".") {
				all = append(all, p.Control)
			}
			for _, test := range all {
				folder, name := split(test)
				if known[folder] == nil {
					known[folder] = testsIn(t, folder)
				}
				if !known[folder][name] {
					t.Errorf("%s, %s%s: there is no test %s in %s", p.Area, p.Fault, strings.Join(p.Sentences, ", "), name, folder)
				}
			}
		}
	}
}

func TestAPromiseIsProvedOrDeclaredNotToBeOne(t *testing.T) {
	for _, table := range promises.All() {
		for _, p := range table.Promises {
			about := p.Area + ": " + p.Fault + strings.Join(p.Sentences, ", ")
			if len(p.Cases)+len(p.Tests) == 0 && p.NotPromised == "" {
				t.Errorf("%s: nothing proves it", about)
			}
			if (p.Fault == "") == (len(p.Sentences) == 0) || p.Fault != "" && p.Outcome == "" && p.NotPromised == "" {
				t.Errorf("%s: it is neither a fault with its outcome nor of a document", about)
			}
		}
	}
}

func TestTheFaultMatrixKeepsItsRows(t *testing.T) {
	if n := len(promises.All()[0].Promises); n != 47 {
		t.Errorf("it has %d", n)
	}
}

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence = regexp.MustCompile(`[.:] +(?:[A-Z]|` + "`" + `)`)
)

// promisedIn are the sentences of a document that promise something: those of its lists, in
// DESIGN.md of its last section, and the rows of its first table.
func promisedIn(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	if name == "DESIGN.md" {
		_, text, _ = strings.Cut(text, "\n## Invariants\n")
	}
	var items []string
	inItem := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "- "):
			items, inItem = append(items, line[2:]), true
		case inItem && strings.HasPrefix(line, "  "):
			items[len(items)-1] += " " + strings.TrimSpace(line)
		case strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| who | "):
			items, inItem = append(items, strings.Trim(line, "| ")), false
		default:
			inItem = false
		}
	}
	var out []string
	for _, item := range items {
		item = link.ReplaceAllString(item, "$1")
		if strings.HasPrefix(item, "Tests: ") || strings.HasPrefix(item, "More: ") {
			continue
		}
		for strings.Contains(item, " | ") {
			item, _, _ = strings.Cut(item, " | ") // a row is one
		}
		for {
			at := sentence.FindStringIndex(item)
			if at == nil {
				break
			}
			out = append(out, item[:at[0]+1])
			item = strings.TrimSpace(item[at[0]+1:])
		}
		out = append(out, item)
	}
	return out
}

func TestEverySentenceHasItsRow(t *testing.T) {
	for _, table := range promises.All() {
		if table.File == "" {
			continue
		}
		t.Run(table.File, func(t *testing.T) {
			used := map[string]int{}
			for _, text := range promisedIn(t, table.File) {
				var rows []string
				for _, p := range table.Promises {
					for _, beginning := range p.Sentences {
						if strings.HasPrefix(text, beginning) {
							rows = append(rows, beginning)
							used[beginning]++
						}
					}
				}
				if len(rows) != 1 {
					t.Errorf("%q has %d rows: %q", text, len(rows), rows)
				}
			}
			for _, p := range table.Promises {
				for _, beginning := range p.Sentences {
					if used[beginning] != 1 {
						t.Errorf("%q begins %d sentences", beginning, used[beginning])
					}
				}
			}
		})
	}
}
