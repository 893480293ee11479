package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// lines repeats a line.
func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)) + "\n")
	}
	return b.String()
}

func importing(paths ...string) string {
	return "package x\nimport (\n\t_ \"" + strings.Join(paths, "\"\n\t_ \"") + "\"\n)\n"
}

func find(t *testing.T, name string) rule {
	t.Helper()
	for _, r := range rules {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("no rule is called %q", name)
	return rule{}
}

// Every rule is shown a source that breaks it and one that just keeps it.
func TestEveryRuleIsAbleToFail(t *testing.T) {
	tests := []struct {
		rule, why string
		file      string
		bad, good string
	}{
		{rule: "the controller renders Git content in a child process", why: "a package of the controller renders", file: "reconciler/controller/x.go",
			bad:  "package x\nfunc f() { declared.Load(nil) }\n",
			good: "package x\nfunc f() { r.Load(nil) }\n"},
		{rule: "the controller renders Git content in a child process", why: "Run leads to it by functions, methods and closures", file: "cmd/internal/operator/x.go",
			bad:  "package x\nfunc Run() { go func() { a.b() }() }\nfunc (t T) b() { use(load) }\nfunc load() { declared.Load(nil) }\n",
			good: "package x\nfunc Run(load F) { load(); a.b() }\nfunc (t T) b() {}\nfunc Plan() { load() }\nfunc load() { declared.Load(nil) }\n"},
		{rule: "the controller renders Git content in a child process", why: "who starts a child renders itself", file: "cmd/internal/child/x.go",
			bad:  "package x\nfunc (r *Runner) Load() { load() }\nfunc load() { declared.Load(nil) }\n",
			good: "package x\nfunc (r *Runner) Load() { r.run() }\nfunc Serve() { load() }\nfunc load() { declared.Load(nil) }\n"},
		{rule: "the controller renders Git content in a child process", why: "it imports a package of a command that renders", file: "cmd/internal/operator/x.go",
			bad: importing(module + "/cmd/internal/costing"), good: importing(module + "/cmd/internal/child")},
		{rule: "imports go one way", why: "another package uses kustomize", file: "reconciler/declared/x.go",
			bad: importing("sigs.k8s.io/kustomize/api/krusty"), good: importing(module + "/reconciler/declared/render")},
		{rule: "imports go one way", why: "gitsource imports ours", file: "gitsource/gogit/x.go",
			bad: importing(module + "/reconciler/state"), good: importing(module+"/gitsource", "github.com/go-git/go-git/v5")},
		{rule: "imports go one way", why: "provision imports the reconciler", file: "provision/engine/x.go",
			bad: importing(module + "/reconciler/api/v1alpha1"), good: importing(module + "/provision/catalog")},
		{rule: "imports go one way", why: "state imports a client", file: "reconciler/state/x.go",
			bad: importing("k8s.io/client-go/rest"), good: importing("fmt", "k8s.io/apimachinery/pkg/types")},
		{rule: "imports go one way", why: "plan imports a context", file: "reconciler/plan/x.go",
			bad: importing("context"), good: importing("fmt", module+"/reconciler/state")},
		{rule: "imports go one way", why: "plan logs", file: "reconciler/plan/x.go",
			bad: importing("log/slog"), good: importing("slices")},
		{rule: "imports go one way", why: "targets import each other", file: "reconciler/targets/aws/x.go",
			bad: importing(module + "/reconciler/targets/kubernetes/internal/y"), good: importing(module+"/reconciler/targets", module+"/reconciler/targets/aws/y", module+"/reconciler/targets/internal/inventory")},
		{rule: "imports go one way", why: "what targets share imports one of them", file: "reconciler/targets/internal/x/x.go",
			bad: importing(module + "/reconciler/targets/kubernetes"), good: importing(module+"/reconciler/state", module+"/reconciler/targets/internal/y")},
		{rule: "imports go one way", why: "a target applies", file: "reconciler/targets/kubernetes/x.go",
			bad: importing(module + "/reconciler/apply"), good: importing(module + "/reconciler/plan")},
		{rule: "imports go one way", why: "a forge plans", file: "reconciler/report/forge/x.go",
			bad: importing(module + "/reconciler/plan"), good: importing(module + "/reconciler/report")},
		{rule: "imports go one way", why: "a report observes", file: "reconciler/report/x.go",
			bad: importing(module + "/reconciler/targets"), good: importing(module + "/reconciler/apply")},
		{rule: "imports go one way", why: "a report forecasts by itself", file: "reconciler/report/x.go",
			bad: importing(module + "/provision/simulate"), good: importing(module + "/provision")},
		{rule: "imports go one way", why: "Karpenter's operator leaks", file: "provision/simulate/x.go",
			bad: importing(karpenter + "/operator/options"), good: importing(karpenter + "/controllers/provisioning")},
		{rule: "imports go one way", why: "Karpenter's controllers leak", file: "provision/catalog/x.go",
			bad: importing(karpenterIn + "/controllers/nodeclass"), good: importing(karpenterIn + "/apis/v1")},
		{rule: "imports go one way", why: "the AWS SDK leaks", file: "provision/sandbox/aws/x.go",
			bad: importing(awsSDK + "/service/ec2"), good: importing("net/http")},
		{rule: "imports go one way", why: "the product imports the sandbox", file: "cmd/poolwright/x.go",
			bad: importing(module + "/provision/sandbox"), good: importing(module + "/cmd/internal/cli")},
		{rule: "imports go one way", why: "a command picks its own Git client", file: "cmd/internal/cli/x.go",
			bad: importing(module + "/gitsource/gogit"), good: importing(module+"/gitsource", module+"/reconciler/targets", module+"/cmd/internal/operator")},
		{rule: "imports go one way", why: "a command's package takes an adapter that is not of its task", file: "cmd/internal/convert/x.go",
			bad: importing(module + "/reconciler/targets/kubernetes"), good: importing(module+"/gitsource/dir", module+"/reconciler/declared/conversion")},
		{rule: "imports go one way", why: "installing brings a Git client of its own", file: "cmd/internal/bootstrap/x.go",
			bad: importing(module + "/gitsource/gogit"), good: importing(module+"/reconciler/targets/kubernetes", module+"/provision/engine/takeover", module+"/cmd/internal/leaderelection")},
		{rule: "imports go one way", why: "operator imports a command", file: "cmd/internal/operator/x.go",
			bad: importing(module + "/cmd/internal/bootstrap"), good: importing(module+"/reconciler/variables", module+"/cmd/internal/child")},
		{rule: "imports go one way", why: "a command's package takes a constant from the composition root", file: "cmd/internal/check/x.go",
			bad: importing(module + "/cmd/internal/operator"), good: importing(module + "/cmd/internal/leaderelection")},
		{rule: "imports go one way", why: "a controller chooses the client of a forge", file: "reconciler/pullrequest/x.go",
			bad: importing(module + "/reconciler/report/forge/github"), good: importing(module + "/reconciler/report/forge")},
		{rule: "imports go one way", why: "the loop starts the engine", file: "reconciler/controller/x.go",
			bad: importing(module + "/provision/engine"), good: importing(module + "/reconciler/targets")},
		{rule: "imports go one way", why: "a library imports a command", file: "reconciler/x.go",
			bad: importing(module + "/cmd/internal/connect"), good: importing(module + "/gitsource")},
		{rule: "imports go one way", why: "the product compares golden files", file: "reconciler/declared/x.go",
			bad: importing(module + "/internal/golden"), good: importing("flag", module+"/reconciler/state")},
		{rule: "files have at most 400 lines", why: "one more", file: "a/x.go",
			bad: "package x\n" + lines(400, "// #"), good: "package x\n" + lines(399, "// #")},
		{rule: "functions have at most 60 lines", why: "one more", file: "a/x.go",
			bad: "package x\nfunc f() {\n" + lines(59, "\t_ = #") + "}\n", good: "package x\nfunc f() {\n" + lines(58, "\t_ = #") + "}\n"},
		{rule: "constructors take at most 6 parameters", why: "New", file: "a/x.go",
			bad: "package x\nfunc New(a, b, c int, d, e, f, g string) {}\n", good: "package x\nfunc New(a, b, c int, d, e, f string) {}\nfunc Newt(a, b, c, d, e, f, g int) {}\n"},
		{rule: "constructors take at most 6 parameters", why: "Start", file: "a/x.go",
			bad: "package x\nfunc StartAll(int, int, int, int, int, int, int) {}\n", good: "package x\nfunc (s *s) Start(a, b, c, d, e, f, g int) {}\n"},
		{rule: "interfaces have at most 4 methods", why: "one more", file: "a/x.go",
			bad: "package x\ntype i interface{ A(); B(); C(); D(); E() }\n", good: "package x\ntype i interface{ A(); B(); C(); D() }\n"},
		{rule: "structs have at most 20 fields", why: "one more", file: "a/x.go",
			bad: "package x\ntype s struct {\n" + lines(21, "a# int") + "}\n", good: "package x\ntype s struct {\n" + lines(20, "a# int") + "}\n"},
		{rule: "packages export at most 30 names", why: "one more", file: "a/x.go",
			bad: "package x\n" + lines(31, "var A#, b# int"), good: "package x\n" + lines(30, "func A#() {}") + "func (T) M() {}\n"},
		{rule: "packages have names that state what is in them", why: "the name", file: "a/x.go",
			bad: "package util\n", good: "package utility\n"},
		{rule: "packages have names that state what is in them", why: "the folder", file: "a/errors/x.go",
			bad: "package failure\n", good: ""},
		{rule: "nothing runs before main, panics or exits", why: "init", file: "a/x.go",
			bad: "package x\nfunc init() {}\n", good: "package x\nfunc (t) init() {}\n"},
		{rule: "nothing runs before main, panics or exits", why: "panic, also in main", file: "a/x.go",
			bad: "package main\nfunc f() { panic(1) }\n", good: "package main\nfunc f() { p.panic(1) }\n"},
		{rule: "nothing runs before main, panics or exits", why: "os.Exit", file: "a/x.go",
			bad: "package x\nimport \"os\"\nfunc f() { os.Exit(1) }\n", good: "package main\nimport \"os\"\nfunc f() { os.Exit(1) }\n"},
		{rule: "nothing runs before main, panics or exits", why: "log.Fatal", file: "a/x.go",
			bad: "package x\nimport \"log\"\nfunc f() { log.Fatalf(\"\") }\n", good: "package x\nimport \"log\"\nfunc f() { log.Printf(\"\") }\n"},
		{rule: "package variables are never changed", why: "an assignment", file: "a/x.go",
			bad: "package x\nvar v int\nfunc f() { v = 1 }\n", good: "package x\nvar v int\nfunc f() { v := 1; v = 2; v++ }\n"},
		{rule: "package variables are never changed", why: "an entry of a map", file: "a/x.go",
			bad: "package x\nvar v = map[int]int{}\nfunc f() { v[1] = 1 }\n", good: "package x\nvar v = map[int]int{}\nfunc f() { _ = v[1] }\n"},
		{rule: "package variables are never changed", why: "a deletion", file: "a/x.go",
			bad: "package x\nvar v = map[int]int{}\nfunc f() { delete(v, 1) }\n", good: "package x\nvar v = map[int]int{}\nfunc f(v map[int]int) { delete(v, 1) }\n"},
		{rule: "package variables are never changed", why: "a lock", file: "a/x.go",
			bad: "package x\nimport \"sync\"\nvar mu sync.Mutex\n", good: "package x\nimport \"sync\"\ntype t struct{ mu sync.Mutex }\n"},
		{rule: "package variables are never changed", why: "a lazy value", file: "a/x.go",
			bad: "package x\nimport \"sync\"\nvar v = sync.OnceValue(f)\n", good: "package x\nimport \"regexp\"\nvar v = regexp.MustCompile(`a`)\n"},
		{rule: "why a change is held is not read back from text", why: "a cut", file: "a/x.go",
			bad: "package x\nimport \"strings\"\nvar a, b, _ = strings.Cut(c.Hold.String(), \"; \")\n", good: "package x\nvar a = c.Hold.Has(rule)\n"},
		{rule: "why a change is held is not read back from text", why: "the end of the sentence", file: "a/x.go",
			bad: "package x\nimport \"strings\"\nvar a = strings.Contains(b, \"; confirm with \")\n", good: "package x\nimport \"strings\"\nvar a = strings.Join(b, \"; \")\n"},
		{rule: "why a change is held is not read back from text", why: "a pattern", file: "a/x.go",
			bad: "package x\nimport \"regexp\"\nvar a = regexp.MustCompile(`poolwright\\.dev/confirm: (.*)$`)\n", good: "package x\nimport \"regexp\"\nvar a = regexp.MustCompile(`a`)\n"},
		{rule: "every finding has a code", why: "a problem", file: "a/x.go",
			bad:  "package x\nvar p = state.Problem{Message: `m`}\n",
			good: "package x\nvar p, none = state.Problem{Code: c, Message: `m`}, state.Problem{}\n"},
		{rule: "every finding has a code", why: "one of a list", file: "a/x.go",
			bad:  "package x\nvar p = []plan.Note{{Code: c, Text: `m`}, {Text: `m`}}\n",
			good: "package x\nvar p = []plan.Note{{Code: c, Text: `m`}, plan.NewNote(k, o, f)}\n"},
		{rule: "every finding has a code", why: "in the package of its type", file: "reconciler/plan/x.go",
			bad:  "package plan\nvar n = Note{Text: `m`}\n",
			good: "package plan\nvar n = Note{Code: c, Text: `m`}\n"},
		{rule: "every code is a constant, and the table describes it", why: "a code that the table does not have", file: findingPackage + "/x.go",
			bad:  "package finding\nconst A, B Code = `A`, `B`\nconst C Code = `C`\n",
			good: "package finding\nconst C Code = `C`\nfunc d() []Descriptor { return []Descriptor{{`C`, Error, `a`, `b`}} }\n"},
		{rule: "every code is a constant, and the table describes it", why: "a row for a code that nothing reports", file: findingPackage + "/x.go",
			bad:  "package finding\nfunc d() []Descriptor { return []Descriptor{{`C`, Error, `a`, `b`}} }\n",
			good: "package finding\nconst C Code = `C`\nfunc d() []Descriptor { return []Descriptor{{`C`, Error, `a`, `b`}} }\n"},
		{rule: "every code is a constant, and the table describes it", why: "a code that is written where it is reported", file: "a/x.go",
			bad:  "package x\nfunc f() { finding.New(`C`, `m`) }\n",
			good: "package x\nfunc f() { finding.New(codeC, `m`) }\n"},
		{rule: "every exported name has a comment", why: "a function", file: "a/x.go",
			bad: "package x\nfunc A() {}\n", good: "package x\n// A is.\nfunc A() {}\nfunc b() {}\n"},
		{rule: "every exported name has a comment", why: "a method", file: "a/x.go",
			bad: "package x\nfunc (t *T[K]) A() {}\n", good: "package x\nfunc (t *t) A() {}\n"},
		{rule: "every exported name has a comment", why: "one type of a group", file: "a/x.go",
			bad: "package x\n// All of them.\ntype (\n\t// A is.\n\tA int\n\tB int\n)\n", good: "package x\n// A is.\ntype A int\n"},
		{rule: "every exported name has a comment", why: "a constant", file: "a/x.go",
			bad: "package x\nconst A = 1\n", good: "package x\n// The numbers.\nconst (\n\tA = 1\n\tB = 2\n)\n"},
		{rule: "the composition root exports no type but its Config", why: "one of the domain", file: compositionRoot + "/x.go",
			bad: "package x\ntype Config struct{}\ntype Forecast struct{}\n", good: "package x\ntype (\n\tConfig struct{}\n\tapp struct{}\n)\nvar A = 1\n"},
		{rule: "every package has a comment", why: "none", file: "a/x.go",
			bad: "package x\n", good: "// Package x is.\npackage x\n"},
		{rule: "every comment belongs to a declaration", why: "one about the file", file: "a/x.go",
			bad:  "// Package x is.\npackage x\n\nimport \"fmt\"\n\n// This file is about y.\n\n// f is.\nfunc f() { fmt.Print() }\n",
			good: "//go:build linux\n\n// Package x is.\npackage x\n\nimport \"fmt\" // For f.\n\n// The numbers.\nconst (\n\t// First ones.\n\n\ta = 1 // a is.\n)\n\n//go:embed y\n// f is.\nfunc f() {\n\t// It prints.\n\tfmt.Print()\n} // Behind.\n"},
		{rule: "every comment belongs to a declaration", why: "one at the end", file: "a/x.go",
			bad: "package x\n\nfunc f() {}\n\n// g was.\n", good: "package x\n\n//nolint:all\n\n// f is.\nfunc f() {}\n"},
		{rule: "sub-tests that need an earlier one are listed", why: "two steps", file: "cmd/internal/e2e/x_test.go",
			bad:  "package x\nfunc TestX(t *testing.T) { runSteps(s, a, b) }\n",
			good: "package x\nfunc TestSharedGPUsLive(t *testing.T) { runSteps(s, a, b) }\nfunc TestY(t *testing.T) { runSteps(s, a) }\n"},
		{rule: "sub-tests that need an earlier one are listed", why: "a list of steps", file: "cmd/internal/e2e/x_test.go",
			bad:  "package x\nfunc TestX(t *testing.T) { runSteps(s, all...) }\n",
			good: "package x\nfunc TestX(t *testing.T) { runSteps(s, all) }\n"},
		{rule: "sub-tests that need an earlier one are listed", why: "a *testing.T of another name", file: "cmd/internal/e2e/x_test.go",
			bad:  "package x\nfunc TestX(outer *testing.T) { outer.Run(\"a\", func(inner *testing.T) { f(inner) }) }\n",
			good: "package x\nfunc TestX(outer *testing.T) { outer.Run(\"a\", func(inner *testing.T) { inner.Parallel() }) }\n"},
		{rule: "sub-tests that need an earlier one are listed", why: "a sub-test that is not parallel", file: "cmd/internal/e2e/x_test.go",
			bad:  "package x\nfunc (f fixture) x(t *testing.T) { f.T.Run(\"a\", func(t *testing.T) { f.do(t) }) }\n",
			good: "package x\nfunc TestX(t *testing.T) { t.Run(\"a\", func(t *testing.T) { t.Parallel() }); env.Run(\"a\", path) }\n"},
		{rule: "no text names the machine it was written on", why: "a folder", file: "README.md",
			bad: "see /wo" + "rk/main/x", good: "see /worker/x, /workspace/main and https://example.com/root"},
		{rule: "no text names the machine it was written on", why: "a home", file: "x.yaml",
			bad: "path: /ro" + "ot/.cache", good: "path: /rootfs/x"},
		{rule: "no text names the machine it was written on", why: "a neighbour", file: "docs/x.md",
			bad: "see ../sha" + "red/x.md", good: "see ../x.md"},
		{rule: "every path in DESIGN.md and docs/packages.md exists", why: "a file of a table that has moved", file: "DESIGN.md",
			bad: "| loop | `x.go` |\n", good: "| loop | `DESIGN.md` |\nin `x.go`\n"},
		{rule: "every path in DESIGN.md and docs/packages.md exists", why: "a file of a sentence that has moved", file: "DESIGN.md",
			bad: "The loop is in `x/loop.go`.\n", good: "`Observe` is in no file.\n"},
		{rule: "every path in DESIGN.md and docs/packages.md exists", why: "a folder of packages that has moved", file: packagesPage,
			bad: "| loop | `x/...` |\n", good: "| loop | `docs/...`, `docs` |\n"},
		{rule: "every package has a row in docs/packages.md", why: "a package without one", file: "a/x.go",
			bad: "package x\n"},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.rule] = true
		t.Run(tt.rule+"/"+tt.why, func(t *testing.T) {
			r := find(t, tt.rule)
			if got := findings(t, r, tt.file, tt.bad); len(got) != 1 {
				t.Errorf("%d findings in the bad source, want 1: %q", len(got), got)
			} else if !strings.HasPrefix(got[0], path.Dir(tt.file)) && path.Dir(tt.file) != "." {
				t.Errorf("the finding %q does not say where", got[0])
			}
			if got := findings(t, r, tt.file, tt.good); tt.good != "" && len(got) != 0 {
				t.Errorf("findings in the good source: %q", got)
			}
		})
	}
	for _, r := range rules {
		if !covered[r.name] {
			t.Errorf("no bad source for %q", r.name)
		}
	}
}

func findings(t *testing.T, r rule, file, content string) []string {
	t.Helper()
	s, err := load(fstest.MapFS{file: {Data: []byte(content)}})
	if err != nil && content != "" {
		t.Fatal(err)
	}
	return r.check(s)
}

func TestAVariableOfAnotherFileIsKnown(t *testing.T) {
	s, err := load(fstest.MapFS{
		"a/x.go": {Data: []byte("package x\nvar v int\n")},
		"a/y.go": {Data: []byte("package x\nfunc f() { v = 1 }\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := packageVariablesStay(s); len(got) != 1 || !strings.HasPrefix(got[0], "a/y.go:2") {
		t.Errorf("findings %q", got)
	}
}

func TestWhatIsNotOursIsPassedOver(t *testing.T) {
	bad := &fstest.MapFile{Data: []byte("package x\nfunc init() { panic(1) }\n")}
	s, err := load(fstest.MapFS{
		"a/vendor/b/x.go": bad, ".cache/x.go": bad, "a/testdata/x.go": bad, "a/_old/x.go": bad,
		"a/zz.go":     {Data: []byte("// Code generated by x. DO NOT EDIT.\n\npackage x\nfunc init() { panic(1) }\n")},
		"a/x_test.go": bad,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := nothingBreaksOut(s); len(got) != 0 {
		t.Errorf("findings %q", got)
	}
	if i := slices.IndexFunc(s.packages, func(p *pkg) bool { return p.dir != "a" }); i >= 0 {
		t.Errorf("package %s was read", s.packages[i].dir)
	}
}

func TestASourceThatDoesNotParseIsAnError(t *testing.T) {
	_, err := load(fstest.MapFS{"a/x.go": {Data: []byte("package")}})
	if err == nil || !strings.Contains(err.Error(), "a/x.go") {
		t.Errorf("error %v", err)
	}
}
