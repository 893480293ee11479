package manifest

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// index keeps where the keys of large mappings are, and the items of lists of objects, of
// the documents of one file: each is read once, however many fields are searched for. It
// is safe for concurrent use.
type index struct {
	mu       sync.Mutex
	mappings map[*yaml.Node]mapping
	items    map[*yaml.Node][]Document
	// read counts the keys and items that were read.
	read int
}

// mapping is where the values of a mapping's own keys are, each after its key, and those
// that it merges.
type mapping struct {
	at     map[string]int
	merged []*yaml.Node
}

// indexed is how many keys a mapping has at least for being kept: fewer are read as fast.
const indexed = 16

// mapping reads a mapping, or returns it from the index.
func (x *index) mapping(n *yaml.Node) mapping {
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, ok := x.mappings[n]; ok {
		return known
	}
	m := mapping{at: make(map[string]int, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		x.read++
		if n.Content[i].Tag == "!!merge" {
			m.merged = append(m.merged, n.Content[i+1])
		} else if _, twice := m.at[n.Content[i].Value]; !twice {
			m.at[n.Content[i].Value] = i + 1
		}
	}
	if x.mappings == nil {
		x.mappings = map[*yaml.Node]mapping{}
	}
	x.mappings[n] = m
	return m
}

// itemsOf are the items of a list of objects, in the order of their lines.
func (x *index) itemsOf(d Document) []Document {
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, ok := x.items[d.Node]; ok {
		return known
	}
	var out []Document
	for _, item := range Items(Child(d.Node, "items")) {
		x.read++
		if item = follow(item); item != nil {
			out = append(out, Document{File: d.File, Line: item.Line, Node: item, index: x})
		}
	}
	slices.SortStableFunc(out, func(a, b Document) int { return cmp.Compare(a.Line, b.Line) })
	if x.items == nil {
		x.items = map[*yaml.Node][]Document{}
	}
	x.items[d.Node] = out
	return out
}

// child is Child for a document with an index, with the line of the key, or of the value
// where that is merged; nil where there is none.
func (x *index) child(n *yaml.Node, key string) (value *yaml.Node, line int) {
	n = follow(n)
	if x == nil || n == nil || n.Kind != yaml.MappingNode || len(n.Content) < 2*indexed {
		value = Child(n, key)
		if value == nil {
			return nil, 0
		}
		return value, keyLine(n, key, value.Line)
	}
	m := x.mapping(n)
	if i, own := m.at[key]; own {
		return n.Content[i], n.Content[i-1].Line
	}
	for _, of := range m.merged {
		from := []*yaml.Node{of}
		if of = follow(of); of != nil && of.Kind == yaml.SequenceNode {
			from = of.Content
		}
		for _, f := range from {
			if value, _ = x.child(f, key); value != nil {
				return value, value.Line
			}
		}
	}
	return nil, 0
}

// Around is the object that a line belongs to, in the documents of one file, which are in
// the order of their lines: a document, or an item of its list. It is false for a line
// before the first.
func Around(docs []Document, line int) (Document, bool) {
	after := sort.Search(len(docs), func(i int) bool { return docs[i].Line > line })
	if after == 0 {
		return Document{}, false
	}
	// Of several that begin in one line, the first.
	found := docs[sort.Search(after, func(i int) bool { return docs[i].Line >= docs[after-1].Line })]
	x := found.index
	if x == nil {
		x = &index{}
	}
	if item, ok := Around(x.itemsOf(found), line); ok {
		return item, true
	}
	return found, true
}

// Find returns the line of a field given by its path: keys, and indexes written
// as numbers. A key that holds dots may come in parts. Where the path ends
// early, it is the line of the deepest part that is there; found reports whether
// all of it was.
func (d Document) Find(fields []string) (line int, found bool) {
	n := follow(d.Node)
	line = d.Line
	for len(fields) > 0 {
		used := 0
		switch {
		case n == nil:
		case n.Kind == yaml.SequenceNode:
			if i, err := strconv.Atoi(fields[0]); err == nil && i >= 0 && i < len(n.Content) {
				n, used = n.Content[i], 1
				line = n.Line
			}
		case n.Kind == yaml.MappingNode:
			for used = len(fields); used > 0; used-- {
				if next, at := d.index.child(n, strings.Join(fields[:used], ".")); next != nil {
					line, n = at, next
					break
				}
			}
		}
		if used == 0 {
			return line, false
		}
		fields, n = fields[used:], follow(n)
	}
	return line, true
}

func keyLine(m *yaml.Node, key string, otherwise int) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i].Line
		}
	}
	return otherwise
}
