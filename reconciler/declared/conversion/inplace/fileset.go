// Package inplace writes a changed YAML or JSON tree back into the text that it
// was read from. Whatever the change did not touch keeps its bytes: order, line
// breaks, indentation, quotes and comments.
//
// It reads YAML and nothing of Kubernetes. It refuses a page whose new text would not
// read as the requested tree. Start reading at FileSet and File.Print.
package inplace

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// FileSet records the text of the nodes of several files as they were read, so that a node
// may move from one file to another and take its text along. It is used by one
// goroutine.
type FileSet struct {
	was          map[*yaml.Node]yaml.Node
	parts        map[*yaml.Node]block
	footComments map[*yaml.Node][]string
	pages        map[*yaml.Node]*File
	kept         map[*yaml.Node][]string // comments to stand above a key
}

// block is the place of an entry of a mapping, kept by its key, or of an item of
// a sequence, kept by itself. Lines count from 0: [lead,head) are comments above
// it, [head,end) are its own.
type block struct {
	page            *File
	lead, head, end int
	col             int // of the key, or of the dash
	value           *yaml.Node
}

// File is one file.
type File struct {
	book      *FileSet
	lines     []string
	irregular bool // its lines cannot be split as YAML does
	bom       bool
	eol       string
	json      bool
	indent    int // by how much a mapping's entries are indented
	dash      int // and a sequence's dashes
	docs      []*leaf
}

// leaf is one document of a page.
type leaf struct {
	root        *yaml.Node
	first, last int // its lines, the second exclusive
	added       []*yaml.Node
}

// NewFileSet returns an empty book.
func NewFileSet() *FileSet {
	return &FileSet{was: map[*yaml.Node]yaml.Node{}, parts: map[*yaml.Node]block{}, footComments: map[*yaml.Node][]string{}, pages: map[*yaml.Node]*File{}, kept: map[*yaml.Node][]string{}}
}

const bom = "\xef\xbb\xbf"

// Read adds a file whose content was parsed into these documents. Their nodes may
// be changed afterwards.
func (b *FileSet) Read(name string, content []byte, docs []manifest.Document) *File {
	text, hasBOM := strings.CutPrefix(string(content), bom)
	p := &File{book: b, lines: strings.Split(text, "\n"), bom: hasBOM, json: strings.HasSuffix(name, ".json"), indent: 2, dash: -1}
	if strings.Contains(text, "\r\n") {
		p.eol = "\r"
	}
	// YAML takes these for line breaks, too.
	p.irregular = strings.ContainsAny(strings.ReplaceAll(text, "\r\n", "\n"), "\r\u0085\u2028\u2029")
	for i, d := range docs {
		l := &leaf{root: d.Node, last: len(p.lines)}
		if i > 0 && !p.irregular {
			l.first = p.separator(p.docs[i-1].first, d.Node.Line-1)
			p.docs[i-1].last = l.first
		}
		p.docs = append(p.docs, l)
	}
	for _, l := range p.docs {
		p.record(l.root, l.root.Line-1, l.last)
	}
	return p
}

// separator is the line of the last separator between a line and a document's
// content, which may stand in the separator's own line.
func (p *File) separator(after, content int) int {
	for i := content; i > after; i-- {
		if strings.HasPrefix(p.lines[i], "---") {
			return i
		}
	}
	return content
}

// record keeps a node, and the places of its blocks, which lie in [start,end).
func (p *File) record(n *yaml.Node, start, end int) {
	b := p.book
	if _, known := b.was[n]; known {
		return
	}
	copied := *n
	copied.Content = slices.Clone(n.Content)
	b.was[n], b.pages[n] = copied, p
	heads, step := p.heads(n)
	if heads == nil {
		for _, c := range n.Content {
			p.record(c, start, end)
		}
		return
	}
	p.learn(n, heads)
	lead, col := min(start, heads[0].head), heads[0].col
	for i, h := range heads {
		h.lead = lead
		if i+1 < len(heads) {
			h.end = p.kept(h.value, p.above(heads[i+1].head, col, lowest(h.value)), heads[i+1].head)
			lead = h.end
		} else {
			h.end = p.kept(h.value, p.above(end, col-1, lowest(h.value)), end)
			b.footComments[n] = p.lines[h.end:end]
		}
		b.parts[n.Content[i*step]] = h
		for _, c := range n.Content[i*step : i*step+step] {
			p.record(c, h.head+1, h.end)
		}
	}
}

// heads are the first lines and the values of the blocks of a collection,
// nil for every other node, and how many nodes make a block.
func (p *File) heads(n *yaml.Node) ([]block, int) {
	if n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 || p.irregular {
		return nil, 0
	}
	var out []block
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			out = append(out, block{page: p, head: k.Line - 1, col: k.Column - 1, value: n.Content[i+1]})
		}
		return out, 2
	case yaml.SequenceNode:
		for _, item := range n.Content {
			head := item.Line - 1
			for head > n.Line-1 && !strings.HasPrefix(from(p.line(head), n.Column-1), "-") {
				head--
			}
			out = append(out, block{page: p, head: head, col: n.Column - 1, value: item})
		}
		return out, 1
	default:
		return nil, 0
	}
}

// above is the first of the lines right above a line that hold nothing but a
// comment that starts at most in a column, or nothing; it is below a limit.
func (p *File) above(line, col, limit int) int {
	for line-1 > limit && line > 0 {
		text := strings.TrimLeft(p.lines[line-1], " ")
		if blank := strings.TrimSpace(text) == ""; !blank && (text[0] != '#' || len(p.lines[line-1])-len(text) > col) {
			break
		}
		line--
	}
	return line
}

// kept adds the empty lines behind a value that belong to it: those behind a block
// text that keeps them.
func (p *File) kept(value *yaml.Node, end, limit int) int {
	for len(value.Content) > 0 {
		value = value.Content[len(value.Content)-1]
	}
	if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return end
	}
	indicator, _, _ := strings.Cut(from(p.line(value.Line-1), value.Column-1), "#")
	if !strings.Contains(indicator, "+") {
		return end
	}
	for end < min(limit, len(p.lines)-1) && strings.TrimSpace(p.lines[end]) == "" {
		end++
	}
	return end
}

// lowest is the last line in which a node or one below it starts.
func lowest(n *yaml.Node) int {
	line := n.Line - 1
	for _, c := range n.Content {
		line = max(line, lowest(c))
	}
	return line
}

// learn finds how the page indents.
func (p *File) learn(n *yaml.Node, heads []block) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, h := range heads {
		v := h.value
		if v.Style&yaml.FlowStyle != 0 || len(v.Content) == 0 || v.Line-1 == h.head {
			continue
		}
		if by := v.Column - 1 - h.col; v.Kind == yaml.SequenceNode && p.dash < 0 {
			p.dash = by
		} else if v.Kind == yaml.MappingNode && len(p.book.parts) == 0 && by > 0 {
			p.indent = by
		}
	}
}

func (p *File) line(i int) string {
	if i < 0 || i >= len(p.lines) {
		return ""
	}
	return p.lines[i]
}

// from is the text of a line from a column on, which counts characters.
func from(line string, col int) string {
	_, rest := cut(line, col)
	return rest
}

// cut divides a line before a column.
func cut(line string, col int) (string, string) {
	for i := range line {
		if col == 0 {
			return line[:i], line[i:]
		}
		col--
	}
	return line, ""
}

// Unchanged reports whether a node and all below it are as they were read.
func (b *FileSet) Unchanged(n *yaml.Node) bool {
	was, ok := b.was[n]
	if !ok || was.Kind != n.Kind || was.Tag != n.Tag || was.Value != n.Value || was.Style != n.Style || was.Alias != n.Alias || len(was.Content) != len(n.Content) {
		return false
	}
	for i, c := range n.Content {
		if was.Content[i] != c || !b.Unchanged(c) {
			return false
		}
	}
	return true
}

// Copy returns a node that holds the same nodes as n does now, and is written
// as n is: to be changed in part, and stand beside n.
func (b *FileSet) Copy(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = slices.Clone(n.Content)
	if was, ok := b.was[n]; ok {
		b.was[&c], b.pages[&c], b.footComments[&c] = was, b.pages[n], b.footComments[n]
	}
	if at, ok := b.parts[n]; ok { // an item of a sequence
		b.parts[&c] = at
	}
	return &c
}

// Keep puts the comments of nodes that are taken out above a key that stays.
func (b *FileSet) Keep(key *yaml.Node, gone ...*yaml.Node) {
	for _, n := range gone {
		for line := range strings.SplitSeq(n.HeadComment+"\n"+n.LineComment+"\n"+n.FootComment, "\n") {
			if line = strings.TrimSpace(line); line != "" && !slices.Contains(b.kept[key], line) {
				b.kept[key] = append(b.kept[key], line)
			}
		}
		b.Keep(key, n.Content...)
	}
}

// Add puts a document behind the one with the given root.
func (p *File) Add(behind, root *yaml.Node) {
	for _, l := range p.docs {
		if l.root == behind {
			l.added = append(l.added, root)
		}
	}
}

// JSON reports whether the page is a JSON file, which holds one document.
func (p *File) JSON() bool { return p.json }
