// Package yamlnode reads and edits the mappings of a YAML document in place, and keeps its
// comments. A nil node is an absent one.
package yamlnode

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Index is the index of a key of a mapping, or -1.
func Index(n *yaml.Node, key string) int {
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

// Indexes are the indexes of all keys of a mapping, for who needs many of them: Index reads
// the mapping anew for each.
func Indexes(n *yaml.Node) map[string]int {
	out := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if _, twice := out[n.Content[i].Value]; !twice {
			out[n.Content[i].Value] = i
		}
	}
	return out
}

// Get follows a path of keys with dots between them; nil where it ends early.
func Get(n *yaml.Node, path string) *yaml.Node {
	for key := range strings.SplitSeq(path, ".") {
		i := Index(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// LineOf is the line of the deepest key of a path that is there, or of the node.
func LineOf(n *yaml.Node, path string) int {
	line := n.Line
	for key := range strings.SplitSeq(path, ".") {
		i := Index(n, key)
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

// Text is a scalar's text, empty for what is none.
func Text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// IsTrue reads a boolean as kubectl does.
func IsTrue(n *yaml.Node) bool {
	switch strings.ToLower(Text(n)) {
	case "true", "yes", "on", "y":
		return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
	}
	return false
}

// Absent reports a field that is missing, null, or holds nothing.
func Absent(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// Scalar makes a string.
func Scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// Mapping makes one of keys and values in turn.
func Mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content}
}

// List makes a sequence.
func List(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// CopyWithoutComments is a node of its own with the same meaning, without place or comments.
func CopyWithoutComments(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style, Alias: n.Alias}
	for _, child := range n.Content {
		c.Content = append(c.Content, CopyWithoutComments(child))
	}
	return c
}

// RemoveEntry removes an entry and returns its key, its value and where it was.
func RemoveEntry(n *yaml.Node, key string) (k, v *yaml.Node, i int) {
	if i = Index(n, key); i < 0 {
		return nil, nil, i
	}
	k, v = n.Content[i], n.Content[i+1]
	n.Content = slices.Delete(n.Content, i, i+2)
	return k, v, i
}

// Put inserts an entry at an index, at the end where that is negative.
func Put(n *yaml.Node, i int, k, v *yaml.Node) {
	if i < 0 || i > len(n.Content) {
		i = len(n.Content)
	}
	n.Content = slices.Insert(n.Content, i, k, v)
}

// Set gives an entry a value, in its place if there is one.
func Set(n *yaml.Node, key string, v *yaml.Node) {
	if i := Index(n, key); i >= 0 {
		n.Content[i+1] = v
		return
	}
	Put(n, -1, Scalar(key), v)
}

// Remove takes an entry out by its path.
func Remove(n *yaml.Node, path string) {
	parent, key := n, path
	if before, last, found := strings.CutLast(path, "."); found {
		parent, key = Get(n, before), last
	}
	RemoveEntry(parent, key)
}

// Ensure is the mapping at a path, made where it is missing. Where the first
// missing key would be one of n itself, it is put at an index.
func Ensure(n *yaml.Node, path string, i int) *yaml.Node {
	for key := range strings.SplitSeq(path, ".") {
		j := Index(n, key)
		if j < 0 {
			v := Mapping()
			Put(n, i, Scalar(key), v)
			n, i = v, -1
			continue
		}
		if v := n.Content[j+1]; v.Kind != yaml.MappingNode && Absent(v) {
			n.Content[j+1] = Mapping()
		}
		n, i = n.Content[j+1], -1
	}
	return n
}

// WriteOut replaces aliases and merge keys below a node by what they stand for,
// and reports whether there were any.
func WriteOut(n *yaml.Node) bool {
	changed := false
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			n.Content[i] = CopyWithoutComments(c.Alias)
			changed = true
		}
		changed = WriteOut(n.Content[i]) || changed
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
		known := Indexes(n)
		for _, m := range from {
			for j := 0; j+1 < len(m.Content); j += 2 {
				if _, own := known[m.Content[j].Value]; !own {
					known[m.Content[j].Value] = len(n.Content)
					Put(n, -1, CopyWithoutComments(m.Content[j]), CopyWithoutComments(m.Content[j+1]))
				}
			}
		}
		changed = true
	}
	return changed
}

// Elements are the elements of a list with commas. A comma within a variable's
// expression, such as that of a default, divides nothing.
func Elements(n *yaml.Node) []string {
	var out []string
	add := func(p string) {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	s, from, depth := Text(n), 0, 0
	for i := range len(s) {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			depth++
		case s[i] == '}' && depth > 0:
			depth--
		case s[i] == ',' && depth == 0:
			add(s[from:i])
			from = i + 1
		}
	}
	add(s[from:])
	return out
}

// HasVariable reports whether a text holds a variable, so that it is not the value.
func HasVariable(n *yaml.Node) bool { return strings.Contains(Text(n), "${") }

// Quoted is a text in quotes.
func Quoted(s string) *yaml.Node {
	n := Scalar(s)
	n.Style = yaml.DoubleQuotedStyle
	return n
}
