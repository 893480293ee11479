// Package canonical converts between YAML nodes and the values that JSON has, and gives nodes
// of the same meaning one text.
package canonical

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// Node is a value as encoding/json has it, with int64 for whole numbers, as a node with its
// keys in order. Anything else is null.
func Node(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := yamlnode.Mapping()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlnode.Scalar(k), Node(v[k]))
		}
		return n
	case []any:
		n := yamlnode.List()
		for _, e := range v {
			n.Content = append(n.Content, Node(e))
		}
		return n
	case string:
		return yamlnode.Scalar(v)
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v, 10)}
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(v, 'g', -1, 64)}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

// Value is the value of a node that Node made.
func Value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = Value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			l = append(l, Value(e))
		}
		return l
	default: // a scalar: Node makes nothing else
		return scalarValue(n)
	}
}

func scalarValue(n *yaml.Node) any {
	switch n.Tag {
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f
		}
	case "!!bool":
		return n.Value == "true"
	case "!!null":
		return nil
	}
	return n.Value
}

// JSON is a node as JSON, which two nodes of the same meaning share. It is empty for one
// that is absent, null or of no meaning.
func JSON(n *yaml.Node) string {
	if yamlnode.Absent(n) {
		return ""
	}
	c := yamlnode.List(yamlnode.CopyWithoutComments(n))
	yamlnode.WriteOut(c)
	b, err := yaml.Marshal(c.Content[0])
	if err != nil {
		return ""
	}
	j, err := sigsyaml.YAMLToJSON(b)
	if err != nil || strings.TrimSpace(string(j)) == "null" {
		return ""
	}
	return string(j)
}
