package archtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

type ratchetCase struct {
	ratchet, why string
	bad, good    map[string]string
	// subject and want are what is counted in the bad source.
	subject string
	want    int
}

// files are n files of a folder with the same content, in which @ is the file's number
// and $ that of the next one; the last is followed by the first.
func files(dir string, n int, content string) map[string]string {
	out := map[string]string{}
	for i := range n {
		numbers := strings.NewReplacer("@", fmt.Sprint(i), "$", fmt.Sprint((i+1)%n))
		out[fmt.Sprintf("%s/f%02d.go", dir, i)] = numbers.Replace(content)
	}
	return out
}

func withFile(files map[string]string, name, content string) map[string]string {
	files[name] = content
	return files
}

// oneFile is a package of one file.
func oneFile(content string) map[string]string {
	return map[string]string{"a/x.go": "package x\n" + content + "\n"}
}

// testFile is a package of one file of tests.
func testFile(content string) map[string]string {
	return map[string]string{"a/x_test.go": "package x\n" + content + "\n"}
}

func ratchetCases() []ratchetCase {
	code := "package x\n" + lines(9, "func f#() {}")
	return []ratchetCase{
		{ratchet: "code lines of the composition root", why: "comments and blank lines are none", subject: compositionRoot, want: 1100,
			bad: map[string]string{compositionRoot + "/x.go": "package x\n" + lines(1000, "func f#() {}")}, good: map[string]string{compositionRoot + "/x.go": "package x\n\n// A comment.\n" + lines(999, "func f#() {}")}},
		{ratchet: "code lines of the composition root", why: "a folder below it counts", subject: compositionRoot, want: 1100,
			bad: map[string]string{compositionRoot + "/x.go": code, compositionRoot + "/y/x.go": "package x\n" + lines(999, "func f#() {}")}, good: map[string]string{compositionRoot + "/x.go": code, "b/x.go": "package x\n" + lines(999, "func f#() {}")}},
		{ratchet: "code lines of a package", why: "a text of three lines is three", subject: "a", want: 2100,
			bad: map[string]string{"a/x.go": "package x\nvar s = `\na\n`\n" + lines(1997, "func f#() {}")}, good: map[string]string{"a/x.go": "package x\n/*\n\n\n*/\n" + lines(1999, "func f#() {}")}},
		{ratchet: "files of a package", why: "tests are none of them", subject: "a", want: 21,
			bad: files("a", 21, "package x\n"), good: withFile(files("a", 20, "package x\n"), "a/x_test.go", "package x\n")},
		{ratchet: "files of a package in one cycle", why: "by functions", subject: "a", want: 9,
			bad: files("a", 9, "package x\nfunc F@() { F$() }\n"), good: files("a", 8, "package x\nfunc F@() { F$() }\n")},
		{ratchet: "files of a package in one cycle", why: "by methods, exported ones too", subject: "a", want: 9,
			bad:  withFile(files("a", 9, "package x\nfunc (t T) M@() { t.M$() }\n"), "a/t.go", "package x\ntype T struct{}\n"),
			good: withFile(files("a", 9, "package x\nfunc (t T) M@() { t.f.M$() }\n"), "a/t.go", "package x\nimport \"f\"\ntype T struct{ M0, M1 int; f f.T }\n")},
		{ratchet: "files of a package in one cycle", why: "by what the standard library returns", subject: "a", want: 9,
			bad:  withFile(files("a", 9, "package x\nimport \"slices\"\nfunc (t T) M@() { slices.Clone([]T{t})[0].M$() }\n"), "a/t.go", "package x\ntype T struct{}\n"),
			good: withFile(files("a", 8, "package x\nimport \"slices\"\nfunc (t T) M@() { slices.Clone([]T{t})[0].M$() }\n"), "a/t.go", "package x\ntype T struct{}\n")},
		{ratchet: "decisions by a sentence", why: "a constant is cut", subject: "a/x.go", want: 2,
			bad:  map[string]string{"a/x.go": "package x\nimport \"strings\"\nconst mark = \"allow it with \"\nfunc f(s string) bool { strings.Cut(s, mark); return s == \"not found\" }\n"},
			good: map[string]string{"a/x.go": "package x\nimport \"strings\"\nfunc f(s string) bool { strings.Cut(s, \": \"); return s == \"NotFound\" && strings.Contains(g(\"a b\"), s) }\n"}},
		{ratchet: "decisions by a sentence", why: "by a list", subject: "a/x.go", want: 4,
			bad:  oneFile("import \"slices\"\nvar list = []string{\"not found\"}\nfunc f(s string) { slices.Contains(list, s); slices.ContainsFunc(list, g); slices.Index([]string{\"too many\"}, s); for _, x := range list { _ = x == s } }"),
			good: oneFile("import \"slices\"\nvar list = []string{\"NotFound\"}\nfunc f(s string) { slices.Contains(list, s); slices.Sort([]string{\"not found\"}); for i := range list { _ = i == n } }")},
		{ratchet: "decisions by a sentence", why: "by a table's keys", subject: "a/x.go", want: 3,
			bad:  oneFile("var table = map[string]int{\"not found\": 1}\nfunc f(s string) { _ = table[s]; _ = map[string]int{\"too many\": 1}[s]; for text := range table { _ = text == s } }"),
			good: oneFile("var table = map[string]string{\"NotFound\": \"was not found\"}\nvar list = []string{\"not found\"}\nfunc f(s string) { _ = table[s]; _ = list[0]; for _, text := range table { _ = text == s } }")},
		{ratchet: "decisions by a sentence", why: "by a field of the rows of a list or a table", subject: "a/x.go", want: 4,
			bad:  oneFile("import \"strings\"\ntype row struct{ reason, part string }\nvar list = []row{{\"A\", \"not found\"}}\nfunc f(s string) { for _, r := range []struct{ reason, part string }{{\"A\", \"not found\"}} { strings.Contains(s, r.part) }; for _, r := range list { _ = s == r.part }; for _, r := range map[string]*row{\"a\": &row{part: \"not found\"}} { strings.HasPrefix(s, r.part) }; strings.Cut(s, list[0].part) }"),
			good: oneFile("import \"strings\"\ntype row struct{ reason, part string }\nvar list = []row{{\"A\", \"not found\"}}\nfunc f(s string) { for _, r := range list { strings.Contains(s, r.reason); _ = r.part }; for i, r := range []row{{reason: \"A\", part: \"not found\"}} { strings.HasPrefix(s, r.reason); _ = i }; strings.Cut(s, list[0].reason) }")},
		{ratchet: "decisions by a sentence", why: "by any function of strings, under any name", subject: "a/x.go", want: 6,
			bad:  oneFile("import str \"strings\"\nvar mark = \"not found\"\nfunc f(s string) { str.Contains(s, mark); str.SplitSeq(s, \"not found\"); str.ContainsAny(s, \"not found\"); str.Fields(err.Error()); str.ReplaceAll(s, \"not found\", \"\"); local := \"not found\"; str.Cut(s, local) }"),
			good: oneFile("import str \"strings\"\nfunc f(s string) { str.Fields(\"get list watch\"); str.Join(list, \"not found\"); str.ToUpper(err.Error()); str.TrimSuffix(err.Error(), \".\"); strings.Contains(s, \"not found\"); mark := \"NotFound\"; str.Cut(s, mark) }")},
		{ratchet: "decisions by a sentence", why: "by the text of an error or a message", subject: "a/x.go", want: 6,
			bad:  oneFile("import \"strings\"\nfunc f(s string) { _ = err.Error() == s; _ = c.Message != s; switch err.Error() { case s: }; strings.Contains(c.Message, \"x\"); _ = x.String() == \"not found\"; _ = fmt.Sprintf(\"not %s\", x) == s }"),
			good: oneFile("import \"strings\"\nfunc f(s string) { _ = c.Message == \"\"; _ = a.Message != b.Message; _ = c.Reason == s; strings.Contains(c.Reason, \"x\"); _ = x.String() == \"NotFound\"; switch c.Reason { case s: } }")},
		{ratchet: "decisions by a sentence", why: "by a pattern", subject: "a/x.go", want: 5,
			bad:  oneFile("import (\"regexp\"; \"fmt\")\nvar a = regexp.MustCompile(`not\\s+found`)\nvar b, _ = regexp.Compile(`^no [a-z]+`)\nfunc f(s string) { c.FindStringSubmatch(err.Error()); c.MatchString(x.Message); fmt.Sscanf(s, \"line %d\", &n) }"),
			good: oneFile("import (\"regexp\"; \"fmt\")\nvar a = regexp.MustCompile(`^[a-z]+/[a-z]+$`)\nfunc f(s string) { c.FindStringSubmatch(s); fmt.Sscanf(s, \"%d\", &n); fmt.Sprintf(\"line %d\", n) }")},
		{ratchet: "decisions by a sentence", why: "by a text of ours", subject: "a/x.go", want: 6,
			bad:  oneFile("import \"strings\"\nfunc f(s string) { _ = n.Text == s; strings.HasPrefix(n.Detail, \"x\"); _ = n.Headline != s; strings.Cut(x.String(), \"x\"); _ = e.Why() == s; strings.Contains(x.Text(), \"x\") }"),
			good: oneFile("import \"strings\"\nfunc f(s string) { _ = n.Text == \"\"; _ = a.Headline == b.Headline; var b strings.Builder; strings.TrimSuffix(b.String(), \"x\"); _ = x.String() == s; _ = n.Text + s }")},
		{ratchet: "decisions by a sentence", why: "by a text that is put together of texts of ours", subject: "a/x.go", want: 3,
			bad:  oneFile("import (\"cmp\"; \"regexp\"; \"strings\")\nfunc f(s string) { text := cmp.Or(p.Detail, p.Message) + s; regexp.MustCompile(`spec`).FindAllString(text, -1); strings.Contains(p.Message+s, \"x\"); strings.Contains(cmp.Or(p.Detail, s), \"x\") }"),
			good: oneFile("import (\"cmp\"; \"regexp\"; \"strings\")\nfunc f(s string) { text := cmp.Or(p.Field, s) + s; regexp.MustCompile(`spec`).FindAllString(text, -1); strings.Contains(p.Field+s, \"x\"); g(p.Message + s) }")},
		{ratchet: "decisions by a sentence", why: "by a part of a hash", subject: "a/x.go", want: 4,
			bad:  oneFile("import \"strings\"\nconst begin = \"plan-\"\nfunc f(hash string) { _ = hash[:strings.Index(hash, \"-\")]; strings.HasPrefix(e.item.CommentHash, begin); strings.TrimPrefix(commentHash, begin); strings.Cut(a.Hash, \"-\") }"),
			good: oneFile("import \"strings\"\nfunc f(hash string) { _ = hash == e.CommentHash; _ = hash[:16]; strings.HasPrefix(hashes, s) }")},
		{ratchet: "decisions by a sentence", why: "by a mark that only texts have", subject: "a/x.go", want: 4,
			bad:  oneFile("import \"strings\"\nfunc f(s string) { strings.Contains(s, \"→\"); strings.Cut(s, \" (\"); strings.SplitN(s, \"–\", 2); strings.TrimPrefix(g().Error(), \": \") }"),
			good: oneFile("import \"strings\"\nfunc f(s string) { strings.ReplaceAll(s, \"|\", \"│\"); strings.TrimPrefix(s, \"\\ufeff\"); strings.Cut(s, \"(\"); strings.TrimRight(s, \"…\") }")},
		{ratchet: "decisions by a sentence", why: "by a constant of another package", subject: "a/x.go", want: 2,
			bad: map[string]string{
				"a/x.go": "package x\nimport (\"strings\"; \"github.com/poolwright/poolwright/b\")\nfunc f(s string) { strings.HasSuffix(s, b.Mark); _ = s == b.Mark }\n",
				"b/y.go": "package b\nconst Mark = \" is not found\"\n",
			},
			good: map[string]string{
				"a/x.go": "package x\nimport (\"strings\"; \"github.com/poolwright/poolwright/b\")\nfunc f(s string) { strings.HasSuffix(s, b.Mark); _ = s == b.Mark }\n",
				"b/y.go": "package b\nconst Mark = \"NotFound\"\n",
			}},
		{ratchet: "declared names with a retired term", why: "a field", subject: "told", want: 2,
			bad: map[string]string{"a/x.go": "package x\ntype t struct{ lastTold int }\nfunc toldHTTP() {}\n"}, good: oneFile("func tolds(x int) { told = x }")},
		{ratchet: "declared names with a retired term", why: "parameters, results and receivers, also of types and literals", subject: "told", want: 5,
			bad:  oneFile("type f func(told int)\ntype i interface{ M(told int) }\nfunc g(told int) (lastTold bool) { return func(x int) {} }\nfunc (told T) h() {}"),
			good: oneFile("type f func(tolds int)\nfunc g(int) (told) { told(told) }")},
		{ratchet: "declared names with a retired term", why: "variables, constants and types of functions", subject: "told", want: 6,
			bad:  oneFile("func f() { told := x; for lastTold, told := range x {}; var told int; const told = 1; type toldOf int }"),
			good: oneFile("func f() { told = x; for told = range x {}; x, tolds := told(told); for range told {} }")},
		{ratchet: "declared names with a retired term", why: "fields of documents", subject: "told", want: 2,
			bad:  oneFile("type t struct { A int `json:\"lastTold,omitempty\"`; B int `yaml:\"told\"` }"),
			good: oneFile("type t struct { A int `json:\"a,told\"`; B int `other:\"told\"` }")},
		{ratchet: "declared names with a retired term", why: "flags", subject: "told", want: 4,
			bad:  oneFile("func f() { flags.BoolVar(&x, \"last-told\", false, \"the last\"); flags.StringVarP(&x, \"told\", \"t\", \"\", \"which\"); flags.String(\"told\", \"\", \"which\"); flags.Var(&x, \"told\", \"which\") }"),
			good: oneFile("func f() { flags.BoolVar(&x, \"last\", false, \"the last that was told\"); g.String(\"told\"); g.Printf(\"told\", x, y) }")},
		{ratchet: "declared names in tests with a retired term", why: "helpers, fields and parameters", subject: "told", want: 3,
			bad:  testFile("type row struct{ lastTold int }\nfunc told(t *testing.T, told int) {}"),
			good: withFile(testFile("func tolds(x int) { told = x }"), "a/x.go", "package x\nfunc told() {}\n")},
		{ratchet: "messages with a retired term", why: "an error, but no constant without a blank, tag or test", subject: "says", want: 2,
			bad: map[string]string{"a/x.go": "package x\nvar a = errors.New(\"the file says: Says who?\")\n"},
			good: map[string]string{"a/x.go": "package x\nconst verb = \"says\"\ntype t struct { a int `json:\"a\" says:\"b c\"` }\nvar a = \"the file declares essays\"\n",
				"a/x_test.go": "package x\nvar a = \"who says so\"\n", "atest/x.go": "package x\nimport \"testing\"\nvar a = \"who says so\"\n"}},
		{ratchet: "comments of exported names with a retired term", why: "of a package, a type, a method and a field", subject: "says", want: 4,
			bad:  map[string]string{"a/x.go": "// Package x says a.\npackage x\n\n// T says b.\ntype T struct {\n\tA int // Says c.\n}\n\n// M says d.\nfunc (T) M() {}\n"},
			good: map[string]string{"a/x.go": "// Package x is a.\npackage x\n\n// t says b.\ntype t struct{}\n\n// M says c.\nfunc (t) M() {}\n\n// N returns d, see https://x.y and M.\nfunc N() {\n\t// It says e.\n}\n"}},
		{ratchet: "names of tests with a retired term", why: "functions that go test runs", subject: "told", want: 3,
			bad:  testFile("func TestItIsTold(t *testing.T) {}\nfunc FuzzTold(f *testing.F) {}\nfunc ExampleTarget_told() {}"),
			good: withFile(testFile("func TestTolds(t *testing.T) {}\nfunc itIsTold() {}\nfunc (b bench) TestTold() {}"), "a/x.go", "package x\nfunc TestX(t *testing.T) {}\n")},
		{ratchet: "names of tests with a retired term", why: "files", subject: "told", want: 1,
			bad: map[string]string{"a/told_twice_test.go": "package x\n"}, good: map[string]string{"a/tolds_test.go": "package x\n", "a/x.go": "package x\n"}},
		{ratchet: "names of tests with a retired term", why: "subtests and steps", subject: "told", want: 3,
			bad:  testFile("func TestX(t *testing.T) { t.Run(\"it is told\", f); step(\"it is told\", func() {}); s.waitFor(time.Second, \"it is told\", func() bool { return true }) }"),
			good: testFile("func TestX(t *testing.T) { t.Run(name, f); told(\"it is told\"); t.Errorf(\"it is told %v\", f) }")},
		{ratchet: "names of tests with a retired term", why: "names that come through functions and closures", subject: "told", want: 4,
			bad:  testFile("func (s suite) begin(n int, about string) { s.T.Run(about, s.f) }\nfunc TestX(t *testing.T) {\n\tcheck := func(title string) { t.Run(title, f) }\n\tcheck(\"it is told\")\n\tboth := func(a int, title string) { check(title) }\n\tboth(1, \"told again\")\n\ts.begin(1, \"told twice\")\n\tbegin(2, \"told\")\n}"),
			good: testFile("func (s suite) object(name string) { s.T.Run(\"a\", s.f); s.get(name) }\nfunc TestX(t *testing.T) { read := func(title string) { f(title) }; read(\"it is told\"); s.object(\"told\") }")},
		{ratchet: "names of tests with a retired term", why: "a step by itself", subject: "told", want: 2,
			bad:  testFile("type step struct { name string; run func(suite) }\nvar a = f(step{\"it is told\", g}, step{name: \"told\"})"),
			good: testFile("type step struct { name string; run func(suite) }\ntype object struct { name string }\nvar a = f(step{\"x\", told}, object{\"told\"})")},
		{ratchet: "names of tests with a retired term", why: "rows of lists, by the field for it", subject: "told", want: 4,
			bad:  testFile("type row struct { n int; name string }\nvar a = []row{{1, \"it is told\"}}\nvar b = []struct{ a, why string }{{\"x\", \"told\"}, {why: \"told\"}}\nvar c = []other{{name: \"told\"}}"),
			good: testFile("type row struct { n int; input string }\nvar a = []row{{1, \"it is told\"}}\nvar b = []struct{ a, why string }{{\"told\", \"x\"}}\nvar c = []string{\"it is told\"}")},
		{ratchet: "names of tests with a retired term", why: "rows of maps, by their keys", subject: "told", want: 3,
			bad:  testFile("var a = map[string]struct{ n int }{\"told\": {1}}\nvar b = map[string]func(){\"told\": f}\nvar c = map[string]int{\"it is told\": 1}"),
			good: testFile("var a = map[string]string{\"told\": \"it is told\"}\nvar b = map[string]func(){told: f}")},
		{ratchet: "fields of a struct, with nameless ones'", why: "ten in each of two", subject: "a.t", want: 22,
			bad:  map[string]string{"a/x.go": "package x\ntype t struct{ a, b struct{ c, d, e, f, g, h, i, j, k, l int } }\n"},
			good: map[string]string{"a/x.go": "package x\ntype t struct{ a, b struct{ c, d, e, f, g, h, i, j, k, l int `json:\"x\"` } }\n"}},
		{ratchet: "types of one unexported name", why: "in two packages", subject: "job", want: 2,
			bad: map[string]string{"a/x.go": "package x\ntype job int\n", "b/x.go": "package x\ntype job int\n"}, good: map[string]string{"a/x.go": "package x\ntype job int\n", "b/x.go": "package x\ntype Job int\n"}},
		{ratchet: "types of one unexported name", why: "in siblings and a third package", subject: "statusKey", want: 2,
			bad:  map[string]string{"reconciler/report/forge/gitea/x.go": "package x\ntype statusKey int\n", "reconciler/report/forge/github/x.go": "package x\ntype statusKey int\n", "b/x.go": "package x\ntype statusKey int\n"},
			good: map[string]string{"reconciler/report/forge/gitea/x.go": "package x\ntype statusKey int\n", "reconciler/report/forge/github/x.go": "package x\ntype statusKey int\n"}},
		{ratchet: atBudgets, why: "of methods", subject: "methods of an interface", want: 1,
			bad: map[string]string{"a/x.go": "package x\ntype I interface { A(); B(); C(); D() }\n"}, good: map[string]string{"a/x.go": "package x\ntype I interface { A(); B(); C() }\ntype J interface { A(); B(); C(); D(); E() }\n"}},
		{ratchet: atBudgets, why: "of lines of a function", subject: "lines of a function", want: 2,
			bad: map[string]string{"a/x.go": "package x\nfunc f() {" + strings.Repeat("\n", 59) + "}\nfunc (t T) f() {" + strings.Repeat("\n", 59) + "}\n"}, good: map[string]string{"a/x.go": "package x\nfunc f() {" + strings.Repeat("\n", 58) + "}\n"}},
		{ratchet: atBudgets, why: "of lines of a file", subject: "lines of a file", want: 1,
			bad: map[string]string{"a/x.go": "package x\n" + strings.Repeat("\n", 399)}, good: map[string]string{"a/x.go": "package x\n" + strings.Repeat("\n", 398)}},
		{ratchet: "lines of code without a line of test, of 100", why: "half", subject: "a", want: 50,
			bad: map[string]string{"a/x.go": code, "a/b/x_test.go": "package x\n" + lines(4, "func f#() {}")}, good: map[string]string{"a/x.go": code, "a/b/x_test.go": code}},
		{ratchet: "lines of code without a line of test, of 100", why: "the sandbox's program is an area of its own", subject: "cmd/poolwright-sandbox", want: 100,
			bad: map[string]string{"cmd/poolwright-sandbox/x.go": code, "cmd/x.go": code, "cmd/x_test.go": code + lines(20, "func g#() {}")}, good: map[string]string{"cmd/poolwright-sandbox/x.go": code, "cmd/poolwright-sandbox/prove/x_test.go": code}},
		{ratchet: "lines of test of reconciler that 2.0 for each line of code lacks, of 200", why: "one for each", subject: "reconciler", want: 100,
			bad: map[string]string{"reconciler/x.go": code, "reconciler/b/x_test.go": code}, good: map[string]string{"reconciler/x.go": code, "reconciler/x_test.go": code + lines(10, "func g#() {}"), "a/x.go": code}},
		{ratchet: "contract packages without an Example", why: "a test is none", subject: "gitsource", want: 1,
			bad:  map[string]string{"gitsource/x.go": "package x\n", "gitsource/x_test.go": "package x\nfunc TestX() {}\n"},
			good: map[string]string{"gitsource/x.go": "package x\n", "gitsource/x_test.go": "package x\nfunc ExampleX() {\n\t// Output:\n\t// x\n}\n"}},
		{ratchet: "contract packages without an Example", why: "an Example without an output is not run", subject: "gitsource", want: 1,
			bad:  map[string]string{"gitsource/x.go": "package x\n", "gitsource/x_test.go": "package x\nfunc ExampleX() {}\n"},
			good: map[string]string{"gitsource/x.go": "package x\n", "gitsource/x_test.go": "package x\nfunc ExampleX() {\n\t// Output:\n\t// x\n}\n"}},
	}
}

func parsed(t *testing.T, content map[string]string) *source {
	t.Helper()
	root := fstest.MapFS{}
	for name, text := range content {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
