package inplace_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/inplace"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

func read(name, content string) (*inplace.FileSet, *inplace.File, []manifest.Document, bool) {
	docs, problems, err := manifest.NewTree(nil, manifest.Limits{}).Parse(name, []byte(content))
	if err != nil || len(problems) > 0 {
		return nil, nil, nil, false
	}
	book := inplace.NewFileSet()
	return book, book.Read(name, []byte(content), docs), docs, true
}

func TestAChangeTouchesItsOwnLines(t *testing.T) {
	text := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	// value is that of a key of the root.
	value := func(root *yaml.Node, key string) (i int) {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == key {
				return i + 1
			}
		}
		return -1
	}
	for name, c := range map[string]struct {
		file, before, after string
		change              func(book *inplace.FileSet, root *yaml.Node)
	}{
		"a plain value, its comment kept": {"f.yaml", "a:  b   # c\nd: e\n", "a:  x   # c\nd: e\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1].Value = "x" }},
		"a quoted value that holds a hash": {"f.yaml", "a: 'b # ''c' # d\n", "a: x # d\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1] = text("x") }},
		"a value that must be quoted": {"f.yaml", "a: b\n", "a: \"5\"\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1] = text("5") }},
		"a key, in its quotes": {"f.yaml", "\"a\" : b\n", "\"x\" : b\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[0].Value = "x" }},
		"a key of a block text": {"f.yaml", "a: |  # c\n  b\n\n  # d\ne: f\n", "x: |  # c\n  b\n\n  # d\ne: f\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[0].Value = "x" }},
		"the first of a list's entries goes": {"f.yaml", "l:\n  # one\n  - a: 1\n    b: 2  # two\n  - c\n", "l:\n  # one\n  - b: 2  # two\n  - c\n",
			func(_ *inplace.FileSet, root *yaml.Node) {
				item := root.Content[1].Content[0]
				item.Content = item.Content[2:]
			}},
		"an entry that moves down a level": {"f.yaml", "a:\n    b:\n      - c\n\n      - d: |\n          e\n    # f\n    g: h\n", "a:\n    x:\n        # f\n        g: h\n        b:\n          - c\n\n          - d: |\n              e\n",
			func(_ *inplace.FileSet, root *yaml.Node) {
				a := root.Content[1]
				moved := append(append([]*yaml.Node{}, a.Content[2:]...), a.Content[:2]...)
				a.Content = []*yaml.Node{text("x"), {Kind: yaml.MappingNode, Tag: "!!map", Content: moved}}
			}},
		"within brackets over several lines": {"f.yaml", "a: {\n  b: c, # d\n  e: [1,\n    2]\n}\n", "a: {\n  b: x, # d\n  e: [1,\n    2]\n}\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1].Content[1].Value = "x" }},
		"a block becomes a scalar": {"f.yaml", "a: # c\n  b: d\n# e\nf: g\n", "a: x # c\n# e\nf: g\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1] = text("x") }},
		"a scalar becomes a block": {"f.yaml", "f:\n- g\na: b # c\n", "f:\n- g\na: # c\n- x\n",
			func(_ *inplace.FileSet, root *yaml.Node) {
				root.Content[value(root, "a")] = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{text("x")}}
			}},
		"the last line has no end": {"f.yaml", "a: b", "a: b\nx: y",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content = append(root.Content, text("x"), text("y")) }},
		"a mark at the start of the file": {"f.yaml", "\xef\xbb\xbfa: b\n", "\xef\xbb\xbfa: x\n",
			func(_ *inplace.FileSet, root *yaml.Node) { root.Content[1].Value = "x" }},
		"JSON in one line": {"f.json", `{"a": {"b": 1}, "c": [true]}`, `{"a": {"b": 1, "x": "y"}, "c": [true]}`,
			func(_ *inplace.FileSet, root *yaml.Node) {
				root.Content[1].Content = append(root.Content[1].Content, text("x"), text("y"))
			}},
		"a comment of what is gone": {"f.yaml", "a: 1 # one\nb: 2\n", "# one\nb: 2\n",
			func(book *inplace.FileSet, root *yaml.Node) {
				book.Keep(root.Content[2], root.Content[:2]...)
				root.Content = root.Content[2:]
			}},
	} {
		t.Run(name, func(t *testing.T) {
			book, page, docs, ok := read(c.file, c.before)
			if !ok {
				t.Fatal("it does not parse")
			}
			c.change(book, docs[0].Node)
			if diff := cmp.Diff(c.after, string(page.Print())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A page that nothing was changed in has its own bytes, and one in which a node
// was replaced by an equal one without a place still means the same, or is observed to.
func FuzzPrint(f *testing.F) {
	for _, s := range []string{"a: b\n---\n# c\n- d: |+\n    e\n\n- {f: g}\n", "a: &b {c: d}\ne: *b\n", "\"a\": 'b'\n\n\n", "{\"a\": [1, 2]}", "- - a\n  - b\n-\n  c: d\n", "a:\r\n- b\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, page, docs, ok := read("f.yaml", string(content))
		if !ok {
			return
		}
		if got := page.Print(); !bytes.Equal(got, content) {
			t.Errorf("%q became %q", content, got)
		}
		for _, d := range docs {
			if d.Node.Kind == yaml.MappingNode {
				d.Node.Content = append(d.Node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "zz"}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "1"})
			}
		}
		page.Print()
	})
}
