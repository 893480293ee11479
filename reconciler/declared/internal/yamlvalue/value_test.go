package yamlvalue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// throughText is what reading an object gives once it is written.
func throughText(n *kyaml.RNode) (out map[string]any, err error) {
	b, err := n.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return out, utiljson.Unmarshal(b, &out)
}

func TestPlainValuesAreReadAsTheyAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		plain bool
	}{
		"texts":                        {"a: b\nc: 'd e'\nf: \"g: h\"\ni: |\n  j\n  k\n", true},
		"texts in quotes like others":  {"a: 'true'\nb: \"1\"\nc: '~'\nf: '2001-01-01'\n", true},
		"names, addresses and amounts": {"a: /a/b\nb: 10Gi\nc: g4dn.xlarge\nd: 4xlarge\n", true},
		"truth of YAML 1.1":            {"a: yes\n", false},
		"what may be a number":         {"a: 10.0.0.1\nb: 1e3\nc: 1_000\n", false},
		"numbers":                      {"a: 1\nb: -20\nc: 0\n", true},
		"truth and nothing":            {"a: true\nb: false\nc: null\nd: ~\n", true},
		"lists and maps, empty too":    {"a: [1, {b: c}, []]\nd: {}\n", true},
		"comments":                     {"# head\na: b # line\n", true},
		"nothing at all":               {"a:\nb: {c}\n", false},
		"another truth":                {"a: True\n", false},
		"an octal number":              {"a: 0777\n", false},
		"a number with a fraction":     {"a: 1.0\n", false},
		"a large number":               {"a: 12345678901234567890\n", false},
		"a date":                       {"a: 2001-01-01\n", false},
		"bytes":                        {"a: !!binary aGk=\n", false},
		"a tag":                        {"a: !!str 1\nb: !mine c\n", false},
		"an anchor":                    {"a: &x b\nc: *x\n", false},
		"a merge":                      {"a: &x {b: c}\nd: {<<: *x}\n", false},
		"a key that is a number":       {"1: a\n", false},
		"folded text":                  {"a: >\n  b\n  c\n", false},
		"text that begins with space":  {"a: |2\n   b\n", false},
		"lines that end in space":      {"a: \"b \\nc\"\n", false},
		"other characters":             {"a: é\n", false},
		"a tab":                        {"a: \"b\\tc\"\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := kyaml.Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			got, plain := Decode(n.YNode())
			if plain != c.plain {
				t.Errorf("plain: %v, want %v", plain, c.plain)
			}
			want, err := throughText(n)
			if d := cmp.Diff(any(want), got); plain && (err != nil || d != "") {
				t.Error(d, err)
			}
		})
	}
}

func FuzzPlainValuesAreReadAsTheyAreWritten(f *testing.F) {
	for _, text := range []string{"a: [b, 'c', \"d\", 1, true, null]\n", "a: |\n  b\n   c\n\n", "# x\na: {b: ~, 'c d': e} # y\n", "a: !!int \"1\"\nb: !!str x\n", "'a\n\n b': c\n", "? a\n: b\n", "a: \"#\"\nb: ' #'\nc: '- d'\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := kyaml.Parse(text)
		if err != nil {
			return
		}
		got, plain := Decode(n.YNode())
		if _, object := got.(map[string]any); !plain || !object {
			return
		}
		want, err := throughText(n)
		if d := cmp.Diff(any(want), got); err != nil || d != "" {
			t.Errorf("%q: %v %s", text, err, d)
		}
		if strings.ContainsAny(text, "\\\t\r%!") {
			return // Whoever reads the text itself reads these by YAML 1.1 alone.
		}
		j, err := sigsyaml.YAMLToJSON([]byte(text))
		var old any
		if err == nil {
			err = utiljson.Unmarshal(j, &old)
		}
		if d := cmp.Diff(old, got); err != nil || d != "" {
			t.Errorf("by YAML 1.1, %q: %v %s", text, err, d)
		}
	})
}

// TestRandomNodesAreReadAsTheyAreWritten also has nodes that no text has: with styles and tags as
// transformers set them.
func TestRandomNodesAreReadAsTheyAreWritten(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	texts := []string{
		"", "a", "A b", "yes", "No", "on", "true", "True", "null", "~", "NULL", "1", "-1", "0", "01", "0x1", "0o7", "1e3", "1.5", "1_0", "123456789012345678", "1234567890123456789",
		"2001-01-01", "12:30", "10Gi", "4xlarge", "10.0.0.1", "/a/b", "a: b", "a #b", "#a", "- a", "-", "? a", "&a", "*a", "!a", "%a", "@a", "`a", "{a}", "[a", "'a'", "\"a\"", "|", ">", "<<", "=", ".", ".inf",
		"a\nb", "a\n", "a\n\n", "\na", " a", "a ", "a \nb", "a\n b", "a\n  b\nc\n", "a\n\n\nb", "a\tb", "é", "\u0085", "a\r", "---", "--- a", "...", "a:", ":a", "a,b", "a]b", strings.Repeat("x", 120), strings.Repeat("x ", 80) + "x",
	}
	var node func(depth int) *yaml.Node
	scalarNode := func() *yaml.Node {
		return &yaml.Node{
			Kind: yaml.ScalarNode, Value: texts[r.IntN(len(texts))],
			Tag:   []string{"", "", "!!str", "!!str", "!!int", "!!bool", "!!null"}[r.IntN(7)],
			Style: []yaml.Style{0, 0, 0, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle, yaml.FoldedStyle}[r.IntN(7)],
		}
	}
	node = func(depth int) *yaml.Node {
		if depth == 0 || r.IntN(3) == 0 {
			return scalarNode()
		}
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: []yaml.Style{0, 0, yaml.FlowStyle}[r.IntN(3)]}
		for range r.IntN(4) {
			n.Content = append(n.Content, node(depth-1))
		}
		if r.IntN(2) == 0 {
			n.Kind, n.Content = yaml.MappingNode, nil
			for i := range r.IntN(4) {
				key := &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint("k", i)}
				if r.IntN(4) == 0 {
					key = scalarNode()
				}
				n.Content = append(n.Content, key, node(depth-1))
			}
		}
		return n
	}
	compared := 0
	for range 20_000 {
		n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "a"}, node(r.IntN(4))}}
		got, plain := Decode(n)
		if !plain {
			continue
		}
		compared++
		want, err := throughText(kyaml.NewRNode(n))
		if d := cmp.Diff(any(want), got); err != nil || d != "" {
			text, _ := kyaml.String(n)
			t.Fatalf("%v %s\n%s", err, d, text)
		}
	}
	if compared < 2000 {
		t.Errorf("only %d nodes were compared", compared)
	}
}
