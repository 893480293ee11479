package inplace

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// behind is the text of a node where it can stand behind its key.
func (p *File) behind(n *yaml.Node, col int) ([]string, bool) {
	switch {
	case p.json || n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 || n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle != 0:
		return p.flow(n, col), true
	case n.Kind == yaml.AliasNode:
		return []string{"*" + n.Value}, true
	case n.Kind != yaml.ScalarNode:
		return p.flow(n, col), len(n.Content) == 0
	}
	text := p.text(n)
	return []string{text}, !strings.Contains(text, "\n")
}

// text is a scalar in the block style: as it was written, or as it would be.
func (p *File) text(n *yaml.Node) string {
	if p.json {
		return p.scalar(n)
	}
	if from := p.book.pages[n]; from != nil && p.book.Unchanged(n) {
		if s, ok := from.inline(n); ok {
			return from.source(s)[0]
		}
	}
	return marshalled(n)
}

// marshalled is a scalar as the YAML library writes it, without its comments.
func marshalled(n *yaml.Node) string {
	out, err := yaml.Marshal(withoutComments(n))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

func withoutComments(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment, c.Anchor = "", "", "", ""
	return &c
}

// long are the lines of a scalar that needs several, below a key in a column.
func (p *File) long(n *yaml.Node, col int) []string {
	lines := strings.Split(marshalled(n), "\n")
	rest := shifted(lines[1:], col-4)
	return withEnds(append(lines[:1:1], rest...), p.eol)
}

func withEnds(lines []string, eol string) []string {
	for i := range lines {
		lines[i] += eol
	}
	return lines
}

// scalar is a scalar within brackets.
func (p *File) scalar(n *yaml.Node) string {
	if p.json {
		if n.ShortTag() != "!!str" {
			return n.Value
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(n.Value) != nil {
			return ""
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	c := withoutComments(n)
	c.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{c}})
	if err != nil {
		return ""
	}
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(out)), "["), "]")
	return strings.TrimSpace(text)
}

// flow are the lines of a node in brackets; col is where the line that holds the
// opening one is indented to.
func (p *File) flow(n *yaml.Node, col int) []string {
	from := p.book.pages[n]
	var old span
	known := false
	if from != nil {
		old, known = from.inline(ofOld(p.book, n))
	}
	if known && p.book.Unchanged(n) && from.json == p.json {
		text := from.source(old)
		return append(text[:1:1], shifted(text[1:], col-indent(from.lines[old.line]))...)
	}
	if text, ok := p.single(n); ok {
		return []string{text}
	}
	open, end, parts := "[", "]", 1
	if n.Kind == yaml.MappingNode {
		open, end, parts = "{", "}", 2
	}
	if known && old.line != old.toLine || !known && p.spread(n) {
		return p.spreadOut(n, col, parts, open, end)
	}
	pad := ""
	if known && strings.HasPrefix(from.lines[old.line][old.at+1:], " ") {
		pad = " "
	}
	return p.joined(n, col, parts, open+pad, pad+end)
}

// single is the text, within brackets, of a node that holds no others.
func (p *File) single(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "*" + n.Value, true
	case n.Kind == yaml.ScalarNode:
		return p.scalar(n), true
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "{}", true
	}
	return "[]", len(n.Content) == 0
}

// joined writes a collection in one line, but for parts that have several.
func (p *File) joined(n *yaml.Node, col, parts int, open, end string) []string {
	out := []string{open}
	for i := 0; i+parts <= len(n.Content); i += parts {
		if i > 0 {
			out[len(out)-1] += ", "
		}
		out = glue(out, p.pair(n.Content[i:i+parts], col))
	}
	out[len(out)-1] += end
	return out
}

// spread reports whether a new collection is written over several lines.
func (p *File) spread(n *yaml.Node) bool {
	if !p.json || len(p.docs) == 0 || p.docs[0].root.Line == p.docs[0].last {
		return false
	}
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode || n.Kind == yaml.MappingNode {
			return true
		}
	}
	return false
}

func (p *File) spreadOut(n *yaml.Node, col, parts int, open, end string) []string {
	inner := col + p.flowIndent()
	pad := strings.Repeat(" ", inner)
	out := []string{open + p.eol}
	for i := 0; i+parts <= len(n.Content); i += parts {
		c := n.Content[i : i+parts]
		for text := range strings.SplitSeq(c[0].HeadComment, "\n") {
			if text != "" && !p.json {
				out = append(out, pad+text+p.eol)
			}
		}
		lines := p.pair(c, inner)
		lines[0] = pad + lines[0]
		last := &lines[len(lines)-1]
		if i+parts < len(n.Content) {
			*last += ","
		}
		if text := c[parts-1].LineComment; text != "" && !p.json && !strings.Contains(text, "\n") {
			*last += " " + text
		}
		*last += p.eol
		out = append(out, lines...)
	}
	return append(out, strings.Repeat(" ", col)+end)
}

// pair is an entry or an item within brackets.
func (p *File) pair(c []*yaml.Node, col int) []string {
	if len(c) == 1 {
		return p.flow(c[0], col)
	}
	return glue([]string{p.flow(c[0], col)[0] + ": "}, p.flow(c[1], col))
}

// glue joins lines to the last of others.
func glue(out, lines []string) []string {
	out[len(out)-1] += lines[0]
	return append(out, lines[1:]...)
}

// flowIndent is by how much the page indents within brackets.
func (p *File) flowIndent() int {
	for _, l := range p.docs {
		if root := p.book.was[l.root]; root.Style&yaml.FlowStyle != 0 && len(root.Content) > 0 {
			if k := root.Content[0]; k.Line > root.Line {
				return max(1, k.Column-root.Column)
			}
		}
	}
	return p.indent
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
