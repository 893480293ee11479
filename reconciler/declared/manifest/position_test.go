package manifest

import (
	"strings"
	"testing"
)

func TestInvalidYAMLIsReportedInItsLine(t *testing.T) {
	const head = "apiVersion: v1\nkind: X\nmetadata:\n  name: x\n"
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"a brace left open":                       {head + "  labels: {a: b\nspec: {}\n", 5},
		"a brace left open at the end":            {head + "  labels: {a: b\n", 5},
		"a brace left open in the first line":     {"{a: b\nc: d\ne: f\n", 1},
		"a bracket left open":                     {"apiVersion: v1\nkind: [\nmetadata:\n  name: x\n", 2},
		"a bracket left open in the first line":   {"kind: [\nmetadata:\n  name: x\n", 1},
		"a bracket left open in the last line":    {"apiVersion: v1\nkind: [\n", 2},
		"a bracket and nothing else":              {"kind: [\n\n\n", 1},
		"a key that is indented too little":       {head + " labels: y\n", 5},
		"a key that is indented too much":         {head + "   labels: y\n", 5},
		"an item among keys":                      {head + "- a: b\n", 5},
		"an item among keys, after blank lines":   {"\n\n" + head + "- a: b\nspec: {}\n", 7},
		"a key among items":                       {"list:\n  - a\n  - b\n  c: d\n", 4},
		"a quote left open":                       {head + "  labels: \"y\nspec: {}\n", 5},
		"a quote left open in the first line":     {"kind: \"X\nmetadata: {}\nspec: {}\n", 1},
		"a tab":                                   {head + "\tlabels: y\n", 5},
		"two colons":                              {head + "  labels: a: b\n", 5},
		"a text without a colon":                  {head + "  labels\nspec: {}\n", 5},
		"a tag of nowhere":                        {head + "  labels: !x!y z\n", 5},
		"a character that starts nothing":         {head + "  labels: @y\n", 5},
		"Windows line ends":                       {strings.ReplaceAll(head+"- a: b\n", "\n", "\r\n"), 5},
		"a template that was not rendered":        {head + "  labels: {{ .x }} y\n", 5},
		"an item among keys, with no line end":    {head + "- a: b", 5},
		"a brace left open after a comment above": {"# comment\n" + head + "  labels: {a: b\nspec: {}\n", 6},
	} {
		for _, above := range []string{"", "kind: Y\n---\n", "# c\n\nkind: Y\n--- # d\n\n# e\n"} {
			_, problems, err := NewTree(nil, Limits{}).Parse("f", []byte(above+c.text))
			if err != nil || len(problems) != 1 {
				t.Errorf("%s: %v, %v", name, problems, err)
				continue
			}
			want := c.line + strings.Count(above, "\n")
			if problems[0].Origin.Line != want {
				t.Errorf("%s, below %q: %s, want line %d", name, above, problems[0], want)
			}
		}
	}
}

func TestALineBelongsToTheObjectThatStartsLastBeforeIt(t *testing.T) {
	const text = `# A comment.
kind: A
a:
  b: 1
---
kind: List
items:
- kind: B
  a: 1
- kind: C
  a: 1
---
kind: D
`
	docs, problems, err := NewTree(nil, Limits{}).Parse("a.yaml", []byte(text))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	for line, want := range map[int]string{0: "", 1: "", 2: "A", 4: "A", 5: "A", 6: "List", 7: "List", 8: "B", 9: "B", 10: "C", 11: "C", 13: "D", 99: "D"} {
		doc, ok := Around(docs, line)
		if got := Text(Child(doc.Node, "kind")); ok != (want != "") || got != want {
			t.Errorf("line %d is of %q (%t), not %q", line, got, ok, want)
		}
	}
}
