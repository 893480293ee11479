package upgrade

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// at is the index of a key of a mapping, or -1.
func at(n *yaml.Node, key string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// keys are the indexes of all keys of a mapping, for who asks for many of them: at reads the
// mapping anew for each.
func keys(n *yaml.Node) map[string]int {
	out := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if _, twice := out[n.Content[i].Value]; !twice {
			out[n.Content[i].Value] = i
		}
	}
	return out
}

// get follows a path of keys with dots between them; nil where it ends early.
func get(n *yaml.Node, path string) *yaml.Node {
	for key := range strings.SplitSeq(path, ".") {
		i := at(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// lineOf is the line of the deepest key of a path that is there, or of the node.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for key := range strings.SplitSeq(path, ".") {
		i := at(n, key)
		if i < 0 {
			break
		}
		if n.Content[i].Line > 0 {
			line = n.Content[i].Line
		}
		n = n.Content[i+1]
	}
	return line
}

// text is a scalar's text, empty for what is none.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// isTrue reads a boolean as kubectl does.
func isTrue(n *yaml.Node) bool {
	switch strings.ToLower(text(n)) {
	case "true", "yes", "on", "y":
		return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
	}
	return false
}

// absent reports a field that is missing, null, or holds nothing.
func absent(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// isMapping reports whether there is a mapping at a path.
func isMapping(n *yaml.Node, path string) bool {
	n = get(n, path)
	return n != nil && n.Kind == yaml.MappingNode
}

func scalarOf(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// mapping makes one of keys and values in turn.
func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content}
}

func list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// fresh is a node of its own with the same meaning, without place or comments.
func fresh(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style, Alias: n.Alias}
	for _, child := range n.Content {
		c.Content = append(c.Content, fresh(child))
	}
	return c
}

// take removes an entry and returns its key, its value and where it was.
func take(n *yaml.Node, key string) (k, v *yaml.Node, i int) {
	if i = at(n, key); i < 0 {
		return nil, nil, i
	}
	k, v = n.Content[i], n.Content[i+1]
	n.Content = slices.Delete(n.Content, i, i+2)
	return k, v, i
}

// put inserts an entry at an index, at the end where that is negative.
func put(n *yaml.Node, i int, k, v *yaml.Node) {
	if i < 0 || i > len(n.Content) {
		i = len(n.Content)
	}
	n.Content = slices.Insert(n.Content, i, k, v)
}

// set gives an entry a value, in its place if there is one.
func set(n *yaml.Node, key string, v *yaml.Node) {
	if i := at(n, key); i >= 0 {
		n.Content[i+1] = v
		return
	}
	put(n, -1, scalarOf(key), v)
}

// remove takes an entry out by its path.
func remove(n *yaml.Node, path string) {
	parent, key := n, path
	if before, last, found := strings.CutLast(path, "."); found {
		parent, key = get(n, before), last
	}
	take(parent, key)
}

// within is the mapping at a path, made where it is missing. Where the first
// missing key would be one of n itself, it is put at an index.
func within(n *yaml.Node, path string, i int) *yaml.Node {
	for key := range strings.SplitSeq(path, ".") {
		j := at(n, key)
		if j < 0 {
			v := mapping()
			put(n, i, scalarOf(key), v)
			n, i = v, -1
			continue
		}
		if v := n.Content[j+1]; v.Kind != yaml.MappingNode && absent(v) {
			n.Content[j+1] = mapping()
		}
		n, i = n.Content[j+1], -1
	}
	return n
}

// rename gives a key another name in its place; it keeps its comments.
func rename(k *yaml.Node, to string) { k.Value = to }

// writeOut replaces aliases and merge keys below a node by what they stand for.
func writeOut(n *yaml.Node) bool {
	changed := false
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			n.Content[i] = fresh(c.Alias)
			changed = true
		}
		changed = writeOut(n.Content[i]) || changed
	}
	if n.Kind != yaml.MappingNode {
		return changed
	}
	for i := 0; i+1 < len(n.Content); {
		if n.Content[i].Tag != "!!merge" {
			i += 2
			continue
		}
		merged := n.Content[i+1]
		n.Content = slices.Delete(n.Content, i, i+2)
		from := []*yaml.Node{merged}
		if merged.Kind == yaml.SequenceNode {
			from = merged.Content
		}
		known := keys(n)
		for _, m := range from {
			for j := 0; j+1 < len(m.Content); j += 2 {
				if _, own := known[m.Content[j].Value]; !own {
					known[m.Content[j].Value] = len(n.Content)
					put(n, -1, fresh(m.Content[j]), fresh(m.Content[j+1]))
				}
			}
		}
		changed = true
	}
	return changed
}
