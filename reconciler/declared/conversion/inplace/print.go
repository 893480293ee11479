package inplace

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the page with its trees as they are now. Where nothing changed it
// is the content that was read; nil is a page that can only be written anew.
func (p *File) Print() []byte {
	changed := p.changed()
	if p.irregular && changed {
		return nil
	}
	var out []string
	at := 0
	for _, l := range p.docs {
		if !changed {
			break
		}
		out = append(out, p.lines[at:l.first]...)
		at = l.last
		out = append(out, p.document(l)...)
		for _, root := range l.added {
			out = p.join(out, root, at == len(p.lines))
		}
	}
	text := strings.Join(append(out, p.lines[at:]...), "\n")
	if p.bom {
		text = bom + text
	}
	return []byte(text)
}

// changed reports whether any of the page's trees is another than was read.
func (p *File) changed() bool {
	return slices.ContainsFunc(p.docs, func(l *leaf) bool { return len(l.added) > 0 || !p.book.Unchanged(l.root) })
}

// join puts a new document behind the lines so far. The empty text behind the last
// line break of a file is no line.
func (p *File) join(out []string, root *yaml.Node, last bool) []string {
	ended := last && len(out) > 0 && out[len(out)-1] == ""
	if ended {
		out = out[:len(out)-1]
	} else if last {
		out[len(out)-1] += p.eol
	}
	out = append(out, "---"+p.eol)
	if root.Style&yaml.FlowStyle != 0 {
		out = append(out, p.flow(root, 0)...)
		out[len(out)-1] += p.eol
	} else {
		out = append(out, p.block(root, 0)...)
	}
	if n := len(out) - 1; last && out[n] == "" {
		out = out[:n]
	}
	if ended {
		out = append(out, "")
	}
	return out
}

// document are the lines of a document.
func (p *File) document(l *leaf) []string {
	if p.book.Unchanged(l.root) {
		return p.lines[l.first:l.last]
	}
	if at, ok := p.inline(l.root); ok {
		out := append([]string{}, p.lines[l.first:at.line]...)
		lines := p.flow(l.root, 0)
		lines[0] = p.lines[at.line][:at.at] + lines[0]
		lines[len(lines)-1] += p.lines[at.toLine][at.toAt:]
		return append(append(out, lines...), p.lines[at.toLine+1:l.last]...)
	}
	out := append([]string{}, p.lines[l.first:l.root.Line-1]...)
	return append(out, p.block(l.root, l.root.Column-1)...)
}

// block are the lines of a mapping or sequence whose parts start at a column.
func (p *File) block(n *yaml.Node, col int) []string {
	var out []string
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, p.entry(n.Content[i], n.Content[i+1], col)...)
		}
	} else {
		for _, item := range n.Content {
			out = append(out, p.item(n, item, col)...)
		}
	}
	return append(out, p.book.footComments[n]...)
}

// entry are the lines of one entry of a mapping at a column.
func (p *File) entry(k, v *yaml.Node, col int) []string {
	var out []string
	for _, comment := range p.book.kept[k] {
		out = append(out, strings.Repeat(" ", col)+comment+p.eol)
	}
	return append(out, p.entryWithoutComments(k, v, col)...)
}

// entryWithoutComments is entry without the comments that were kept of others.
func (p *File) entryWithoutComments(k, v *yaml.Node, col int) []string {
	at, ok := p.book.parts[k]
	if !ok {
		return p.below(p.text(k), "", v, col, p.inner(v, block{}))
	}
	from := at.page
	own := from.own(at)
	if own == nil {
		return p.below(p.text(k), "", v, col, p.inner(v, block{}))
	}
	out := shifted(from.lines[at.lead:at.head], col-at.col)
	end, known := from.inline(ofOld(p.book, k))
	if !known {
		return append(out, p.below(p.text(k), "", v, col, p.inner(v, at))...)
	}
	head := p.text(k)
	if p.book.Unchanged(k) {
		head = own[0][at.col:][:end.toAt-end.at]
	}
	rest := from.lines[at.head][end.toAt:] // the colon, and what follows
	if at.value == v && p.book.Unchanged(v) {
		own[0] = strings.Repeat(" ", at.col) + head + rest
		return append(out, shifted(own, col-at.col)...)
	}
	old, inline := from.inline(ofOld(p.book, at.value))
	if !inline {
		_, after, _ := strings.Cut(rest, ":")
		out = append(out, p.below(head, comment(after), v, col, p.inner(v, at))...)
		if v != at.value {
			out = append(out, shifted(p.book.footComments[at.value], col-at.col)...)
		}
		return out
	}
	after := append([]string{from.lines[old.toLine][old.toAt:]}, from.lines[old.toLine+1:at.end]...)
	if lines, ok := p.behind(v, col); ok {
		if old.line == at.head {
			head += from.lines[at.head][end.toAt:old.at]
		} else {
			head += ": "
		}
		lines[0] = strings.Repeat(" ", col) + head + lines[0]
		lines[len(lines)-1] += after[0]
		return append(append(out, lines...), shifted(after[1:], col-at.col)...)
	}
	out = append(out, p.below(head, comment(after[0]), v, col, p.inner(v, at))...)
	return append(out, shifted(after[1:], col-at.col)...)
}

// ofOld is a node as it was read.
func ofOld(b *FileSet, n *yaml.Node) *yaml.Node {
	if was, ok := b.was[n]; ok {
		return &was
	}
	return n
}

// below are the lines of an entry whose key line is written anew: the value stands
// behind the key where it can, and below it, by so many columns, otherwise.
func (p *File) below(head, comment string, v *yaml.Node, col, inner int) []string {
	indent := strings.Repeat(" ", col)
	if lines, ok := p.behind(v, col); ok {
		lines[0] = indent + head + ": " + lines[0]
		lines[len(lines)-1] += comment + p.eol
		return lines
	}
	if v.Kind == yaml.ScalarNode {
		lines := p.long(v, col+p.indent)
		lines[0] = indent + head + ": " + lines[0]
		return lines
	}
	return append([]string{indent + head + ":" + comment + p.eol}, p.block(v, col+inner)...)
}

// inner is by how much the parts of a collection stand right of its key, which had
// some value at some place.
func (p *File) inner(v *yaml.Node, at block) int {
	if was := p.book.was[v]; at.value == v && len(was.Content) > 0 {
		if first, ok := p.book.parts[was.Content[0]]; ok {
			return first.col - at.col
		}
	}
	if v.Kind == yaml.SequenceNode && p.dash >= 0 {
		return p.dash
	}
	return p.indent
}

// item are the lines of an item of a sequence whose dashes stand in a column.
func (p *File) item(in, n *yaml.Node, col int) []string {
	at, ok := p.book.parts[n]
	if !ok && p.flowing(in) {
		return p.dashed(p.flow(n, col), col, p.eol)
	}
	if !ok {
		if lines, inline := p.behind(n, col); inline {
			return p.dashed(lines, col, p.eol)
		}
		if n.Kind == yaml.ScalarNode {
			return p.dashed(p.long(n, col+p.indent), col, "")
		}
		return p.dashed(p.block(n, col+2), col, "")
	}
	from := at.page
	if p.book.Unchanged(n) && from.own(at) != nil {
		lines := append([]string{}, from.lines[at.lead:at.head]...)
		_, rest := cut(from.lines[at.head], at.col)
		lines = append(append(lines, strings.Repeat(" ", at.col)+rest), from.lines[at.head+1:at.end]...)
		return shifted(lines, col-at.col)
	}
	lead := shifted(from.lines[at.lead:at.head], col-at.col)
	if old, inline := from.inline(ofOld(p.book, n)); inline {
		lines := p.flow(n, col)
		lines[len(lines)-1] += from.lines[old.toLine][old.toAt:]
		lines = append(p.dashed(lines, col, ""), shifted(from.lines[old.toLine+1:at.end], col-at.col)...)
		return append(lead, lines...)
	}
	if lines, inline := p.behind(n, col); inline {
		return append(lead, p.dashed(lines, col, p.eol)...)
	}
	return append(lead, p.dashed(p.block(n, col+max(2, ofOld(p.book, n).Column-1-at.col)), col, "")...)
}

// flowing reports whether a sequence's items were written in one line each.
func (p *File) flowing(in *yaml.Node) bool {
	was := p.book.was[in]
	return len(was.Content) > 0 && was.Content[0].Kind == yaml.MappingNode && was.Content[0].Style&yaml.FlowStyle != 0
}

// dashed puts a dash before the first of an item's lines that has content.
func (p *File) dashed(lines []string, col int, eol string) []string {
	for i, l := range lines {
		text := strings.TrimLeft(l, " ")
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		inner := max(2, len(l)-len(text)-col)
		lines[i] = strings.Repeat(" ", col) + "-" + strings.Repeat(" ", inner-1) + text
		break
	}
	lines[len(lines)-1] += eol
	return lines
}

// Roots are the documents as they are now, in their order.
func (p *File) Roots() []*yaml.Node {
	var out []*yaml.Node
	for _, l := range p.docs {
		out = append(append(out, l.root), l.added...)
	}
	return out
}
