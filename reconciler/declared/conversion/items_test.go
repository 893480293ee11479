package conversion

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/canonical"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

func TestTheLinesOfManyFieldsAreFoundByReadingTheirMappingOnce(t *testing.T) {
	const fields = 2000
	var text strings.Builder
	text.WriteString("spec:\n")
	value := map[string]any{}
	for i := range fields {
		fmt.Fprintf(&text, "  field%d: 1\n", i)
		value[fmt.Sprint("field", i)] = int64(1)
	}
	var written yaml.Node
	if err := yaml.Unmarshal([]byte(text.String()), &written); err != nil {
		t.Fatal(err)
	}
	n := canonical.Node(map[string]any{"spec": value})
	var lines numbering
	lines.number(n, written.Content[0])
	if lines.read != fields+1 {
		t.Errorf("%d keys were read for %d fields", lines.read, fields)
	}
	spec := yamlnode.Get(n, "spec")
	for i := range fields {
		if j := yamlnode.Index(spec, fmt.Sprint("field", i)); spec.Content[j].Line != i+2 {
			t.Fatalf("field%d is in line %d", i, spec.Content[j].Line)
		}
	}
}

func TestOfAKeyThatIsWrittenTwiceTheFirstCounts(t *testing.T) {
	one := func(line int) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: "a", Line: line} }
	n := canonical.Node(map[string]any{"a": "b"})
	var lines numbering
	lines.number(n, yamlnode.Mapping(one(1), yamlnode.Scalar("b"), one(2), yamlnode.Scalar("b")))
	if got := n.Content[0].Line; got != 1 {
		t.Errorf("it is in line %d", got)
	}
}
