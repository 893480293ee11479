package archtest

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// budget is a limit with the values that it holds for, by what each is of.
type budget struct {
	name   string
	limit  int
	values func(*source) map[string]int
}

var budgets = []budget{
	{"code lines of a package", maxPackageLines, packageLines},
	{"files of a package", maxPackageFiles, packageFiles},
	{"files of a package in one cycle", maxCycle, fileCycles},
	{"lines of a file", maxFileLines, fileLines},
	{"fields of a struct", maxFields, nestedFields},
	{"exported names of a package", maxExported, func(s *source) map[string]int {
		out := map[string]int{}
		for _, p := range s.packages {
			out[p.dir] = exportedCount(p)
		}
		return out
	}},
	{"lines of a function", maxFunctionLines, func(s *source) map[string]int {
		out := map[string]int{}
		eachFunction(s, func(fn *ast.FuncDecl) []string {
			out[s.at(fn.Pos(), "%s", fn.Name.Name)] = s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
			return nil
		})
		return out
	}},
	{"methods of an interface", maxMethods, func(s *source) map[string]int {
		out := map[string]int{}
		eachNode(s, func(_ *pkg, n ast.Node) []string {
			if i, ok := n.(*ast.InterfaceType); ok {
				out[s.at(i.Pos(), "interface")] = fieldCount(i.Methods)
			}
			return nil
		})
		return out
	}},
}

func fileLines(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		for _, f := range p.written() {
			out[f.path] = f.lines
		}
	}
	return out
}

// at lists what has exactly as much as the budget allows.
func (b budget) at(s *source) []string {
	var out []string
	for subject, n := range b.values(s) {
		if n == b.limit {
			out = append(out, subject)
		}
	}
	slices.Sort(out)
	return out
}

// valuesAtBudgets counts the values that sit exactly at each budget. Where many do, the budget forms the code.
func valuesAtBudgets(s *source) map[string]int {
	out := map[string]int{}
	for _, b := range budgets {
		out[b.name] = len(b.at(s))
	}
	return out
}

// The numbers are recorded by a ratchet, so that they cannot grow. What sits at a budget is printed by go test -v, and where
// there is more of it than is recorded.
func TestHowManyValuesSitAtABudget(t *testing.T) {
	content, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := readRatchets(content)
	if err != nil {
		t.Fatal(err)
	}
	s := repository(t)
	for _, b := range budgets {
		at, allowed := b.at(s), recorded[key{atBudgets, b.name}]
		report := t.Logf
		if len(at) > allowed {
			report = t.Errorf
		}
		report("%s: %d sit at %d, %d are recorded:\n\t%s", b.name, len(at), b.limit, allowed, strings.Join(at, "\n\t"))
	}
}
