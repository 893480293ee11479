package yamlnode_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

const written = `# the pool
spec:
  limits: # of all nodes
    cpu: "8"
  taints: []
  weight: null
`

func TestEditsKeepOrderAndComments(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(n *yaml.Node)
		want string
	}{
		"a value is set in its place": {
			func(n *yaml.Node) { yamlnode.Set(yamlnode.Get(n, "spec"), "weight", yamlnode.Scalar("5")) },
			strings.Replace(written, "weight: null", `weight: "5"`, 1)},
		"a new entry comes last": {
			func(n *yaml.Node) { yamlnode.Set(n, "kind", yamlnode.Scalar("NodePool")) }, written + "kind: NodePool\n"},
		"a key is renamed in its place": {
			func(n *yaml.Node) { yamlnode.Get(n, "spec").Content[0].Value = "bounds" },
			strings.Replace(written, "limits:", "bounds:", 1)},
		"an entry is removed by its path": {
			func(n *yaml.Node) { yamlnode.Remove(n, "spec.taints") }, strings.Replace(written, "  taints: []\n", "", 1)},
		"what is not there is not removed": {
			func(n *yaml.Node) { yamlnode.Remove(n, "spec.gone"); yamlnode.Remove(n, "gone.limits") }, written},
		"a mapping is made where it is missing": {
			func(n *yaml.Node) {
				yamlnode.Set(yamlnode.Ensure(n, "spec.template.spec", -1), "a", yamlnode.Scalar("b"))
			},
			written + "  template:\n    spec:\n      a: b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(written), &doc); err != nil {
				t.Fatal(err)
			}
			test.edit(doc.Content[0])
			var out strings.Builder
			enc := yaml.NewEncoder(&out)
			enc.SetIndent(2)
			if err := enc.Encode(&doc); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), test.want)
			}
		})
	}
}

func TestWhatIsThereIsRead(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(written), &doc); err != nil {
		t.Fatal(err)
	}
	n := doc.Content[0]
	if got := yamlnode.Text(yamlnode.Get(n, "spec.limits.cpu")); got != "8" {
		t.Errorf("cpu is %q", got)
	}
	for path, line := range map[string]int{"spec.limits.cpu": 4, "spec.limits.memory": 3, "spec.gone.deep": 2} {
		if got := yamlnode.LineOf(n, path); got != line {
			t.Errorf("%s is of line %d, want %d", path, got, line)
		}
	}
	for path, absent := range map[string]bool{"spec.limits": false, "spec.taints": true, "spec.weight": true, "spec.gone": true} {
		if got := yamlnode.Absent(yamlnode.Get(n, path)); got != absent {
			t.Errorf("%s is absent: %v", path, got)
		}
	}
	for text, want := range map[string]bool{"true": true, "yes": true, "On": true, `"true"`: false, "no": false, "1": false} {
		var b yaml.Node
		if err := yaml.Unmarshal([]byte("b: "+text), &b); err != nil {
			t.Fatal(err)
		}
		if got := yamlnode.IsTrue(yamlnode.Get(b.Content[0], "b")); got != want {
			t.Errorf("%s is true: %v", text, got)
		}
	}
}

func TestAliasesAndMergeKeysAreWrittenOut(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nagain: *b\n"), &doc); err != nil {
		t.Fatal(err)
	}
	n := doc.Content[0]
	if !yamlnode.WriteOut(n) || yamlnode.WriteOut(n) {
		t.Error("what was written out is reported wrongly")
	}
	for path, want := range map[string]string{"use.x": "1", "use.y": "3", "again.y": "2"} {
		if got := yamlnode.Text(yamlnode.Get(n, path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
