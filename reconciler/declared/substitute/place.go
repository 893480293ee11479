package substitute

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// scanned is what a first pass over an object finds.
type scanned struct {
	// variable reports that it may hold an expression or an escaped one.
	variable bool
	// markPath is the path of text that has the form of a placeholder, or nil.
	markPath []string
}

// scan reads each text of an object once, and builds no path where there is
// nothing to report: most objects have no variable.
func scan(object map[string]any) scanned {
	var s scanned
	var reserved bool
	eachText(object, func(text string) {
		if i := strings.IndexByte(text, '$'); i >= 0 && !s.variable {
			s.variable = strings.Contains(text[i:], "${") || strings.Contains(text[i:], "$$")
		}
		reserved = reserved || len(text) >= headLen && strings.Contains(text, prefix)
	})
	if reserved {
		Walk(object, func(path []string, _ bool, text string) {
			if s.markPath == nil && strings.Contains(text, prefix) {
				s.markPath = slices.Clone(path)
			}
		})
	}
	return s
}

func eachText(v any, visit func(text string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			visit(k)
			eachText(e, visit)
		}
	case []any:
		for _, e := range v {
			eachText(e, visit)
		}
	case string:
		visit(v)
	}
}

// within reports whether two values differ only in fields that hold a variable
// before, and otherwise the path of the first other difference.
func within(before, after any, path []string) ([]string, bool) {
	switch before := before.(type) {
	case map[string]any:
		return withinMapping(before, after, path)
	case []any:
		return withinList(before, after, path)
	case string:
		return path, strings.Contains(before, "$") || before == after
	case bool, nil:
		return path, before == after
	}
	return path, true // numbers may be written in another form
}

func withinMapping(before map[string]any, after any, path []string) ([]string, bool) {
	now, ok := after.(map[string]any)
	if !ok || len(now) != len(before) {
		return path, false
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if strings.Contains(k, "$") {
			continue // what is under it now has another name
		}
		v, ok := now[k]
		if !ok {
			return append(path, k), false
		}
		if at, ok := within(before[k], v, append(path, k)); !ok {
			return at, false
		}
	}
	return path, true
}

func withinList(before []any, after any, path []string) ([]string, bool) {
	now, ok := after.([]any)
	if !ok || len(now) != len(before) {
		return path, false
	}
	for i := range before {
		if at, ok := within(before[i], now[i], append(path, strconv.Itoa(i))); !ok {
			return at, false
		}
	}
	return path, true
}

// fieldLocator finds the field that a part of an object's text belongs to.
type fieldLocator struct {
	text    string
	starts  []int    // of lines
	scalars []scalar // in the order of the text
}

// scalar is a key or a value where it stands in the text.
type scalar struct {
	path         []string
	line, column int
	node         *yaml.Node
}

func newFieldLocator(text string) *fieldLocator {
	p := &fieldLocator{text: text, starts: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			p.starts = append(p.starts, i+1)
		}
	}
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) == nil {
		p.collect(&root, nil)
	}
	return p
}

func (p *fieldLocator) collect(n *yaml.Node, path []string) {
	path = slices.Clip(path)
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			p.collect(c, path)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := append(path, n.Content[i].Value)
			p.scalars = append(p.scalars, scalar{path: key, line: n.Content[i].Line, column: n.Content[i].Column})
			p.collect(n.Content[i+1], key)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			p.collect(c, append(path, strconv.Itoa(i)))
		}
	case yaml.ScalarNode:
		p.scalars = append(p.scalars, scalar{path: path, line: n.Line, column: n.Column, node: n})
	case yaml.AliasNode:
		// No field is written here: what it shows is written at its anchor.
	}
}

// field is the place of something in an object: the path of its field and,
// within a text of several lines, which of them.
type field struct {
	path []string
	text string
	row  int
}

// at is the index of the scalar that an offset of the text lies in, or -1.
func (p *fieldLocator) at(offset int) int { return p.before(p.position(offset)) }

// position counts lines and letters from 1.
func (p *fieldLocator) position(offset int) (line, column int) {
	row, found := slices.BinarySearch(p.starts, offset)
	if !found {
		row--
	}
	return row + 1, 1 + utf8.RuneCountInString(p.text[p.starts[row]:offset])
}

// before is the last scalar that starts at a position or before it, or -1.
func (p *fieldLocator) before(line, column int) int {
	i, found := slices.BinarySearchFunc(p.scalars, [2]int{line, column}, func(s scalar, at [2]int) int {
		return cmp.Or(cmp.Compare(s.line, at[0]), cmp.Compare(s.column, at[1]))
	})
	if found {
		return i
	}
	return i - 1
}

// fieldAt is the field at an offset of the text.
func (p *fieldLocator) fieldAt(offset int) field {
	line, column := p.position(offset)
	return p.field(p.before(line, column), line)
}

// lastField is the last field that starts in a line of the text, or is still
// in it.
func lastField(text string, line int) field {
	p := newFieldLocator(text)
	return p.field(p.before(line, len(text)), line)
}

func (p *fieldLocator) field(index, line int) field {
	if index < 0 {
		return field{}
	}
	s := p.scalars[index]
	f := field{path: s.path}
	if s.node != nil && s.node.Style&yaml.LiteralStyle != 0 {
		f.text, f.row = s.node.Value, line-s.line
	}
	return f
}

// line is where a path of an object is written, as well as its document shows it.
func (a *applier) line(at state.Origin, path []string) state.Origin {
	if a.options.Documents == nil {
		return at
	}
	doc, ok := a.options.Documents(at)
	if !ok {
		return at
	}
	line, _ := doc.Find(path)
	return state.Origin{File: at.File, Line: line}
}

// named reports whether values left what makes the object this one, and returns what
// they emptied: without its namespace it would be moved to another, and deleted here.
func (a *applier) named(o manifest.Object, value map[string]any, r result) bool {
	before := len(a.problems)
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		if was := textAt(o.Object, path); was == "" {
			continue
		}
		if now := textAt(value, path); now == "" {
			a.problem(a.line(o.Origin, path), codeFieldEmptied, "with %s filled in, %s is empty; give the variable a value, or write the field without",
				finding.NewFact("variables", r.names()), finding.NewFact("field", strings.Join(path, ".")))
		}
	}
	return len(a.problems) == before
}

// textAt is what a path of an object leads to, as text; empty where there is nothing.
func textAt(object map[string]any, path []string) string {
	var at any = object
	for _, name := range path {
		m, _ := at.(map[string]any)
		at = m[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// fieldLine is line for a place in a text of several lines, such as a script,
// where the document has the same text.
func (a *applier) fieldLine(o manifest.Object, f field) state.Origin {
	at := a.line(o.Origin, f.path)
	if f.row == 0 || a.options.Documents == nil {
		return at
	}
	doc, ok := a.options.Documents(o.Origin)
	if !ok {
		return at
	}
	n := doc.Node
	for _, p := range f.path {
		i, err := strconv.Atoi(p)
		if items := manifest.Items(n); err == nil && i >= 0 && i < len(items) {
			n = items[i]
			continue
		}
		n = manifest.Child(n, p)
	}
	if n != nil && n.Kind == yaml.ScalarNode && n.Style&yaml.LiteralStyle != 0 && n.Value == f.text {
		at.Line = n.Line + f.row
	}
	return at
}
