package manifest

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/internal/yamlvalue"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Document is one YAML document of a file that parsed and passed the limits.
type Document struct {
	// File is slash-separated and relative to the root of the tree.
	File string
	// Line is where the document's content starts, counted from 1.
	Line int
	// Node is the content; its own lines count from the file's first.
	Node *yaml.Node

	text []byte
	size expandedSize
	// index is that of its file; nil where nothing is kept.
	index *index
}

// Bytes is the length of the document's text, aliases written out.
func (d Document) Bytes() int { return max(len(d.text), d.size.bytes) }

// Origin is the document's place.
func (d Document) Origin() state.Origin { return state.Origin{File: d.File, Line: d.Line} }

// At is the place of a node within the document.
func (d Document) At(n *yaml.Node) state.Origin {
	if n == nil || n.Line == 0 {
		return d.Origin()
	}
	return state.Origin{File: d.File, Line: n.Line}
}

// Value returns the content in canonical JSON form, read as kubectl reads it
// (YAML 1.1: yes and on are booleans).
func (d Document) Value() (any, error) {
	if !bytes.ContainsAny(d.text, "\\\t\r%!") {
		if v, ok := yamlvalue.Decode(d.Node); ok {
			return v, nil
		}
	}
	j, err := sigsyaml.YAMLToJSON(d.text)
	if err != nil {
		return nil, errors.New(lineless(err))
	}
	var v any
	if err := utiljson.Unmarshal(j, &v); err != nil {
		return nil, errors.New("it holds a value that JSON does not have")
	}
	return v, nil
}

func parse(file string, content []byte, limits Limits) ([]Document, []state.Problem, error) {
	var docs []Document
	var problems []state.Problem
	places := &index{}
	for _, part := range split(content) {
		node, err := parseOne(part)
		if err != nil {
			problems = append(problems, state.NewProblem(state.Origin{File: file, Line: faultLine(part, err)},
				finding.New(codeYAMLInvalid, "this is not valid YAML: %s", finding.NewFact("reason", lineless(err)))))
			continue
		}
		if node == nil {
			continue
		}
		shift(node, part.line-1, map[*yaml.Node]bool{})
		doc := Document{File: file, Line: node.Line, Node: node, text: part.text, index: places}
		size, found, err := inspect(doc, limits)
		if err != nil {
			return nil, nil, err
		}
		doc.size = size
		if problems = append(problems, found...); len(found) == 0 {
			docs = append(docs, doc)
		}
	}
	return docs, problems, nil
}

type section struct {
	text []byte
	line int // of its first line in the file, from 1
}

// split cuts at document separators, as kubectl does, so that one broken
// document does not hide the next.
func split(content []byte) []section {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var out []section
	start, startLine, line := 0, 1, 1
	for at := 0; at < len(content); line++ {
		end := len(content)
		if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if isSeparator(content[at:end]) && at > start {
			out = append(out, section{content[start:at], startLine})
			start, startLine = at, line
		}
		at = end
	}
	return append(out, section{content[start:], startLine})
}

func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')
}

// parseOne returns nil for a section without content.
func parseOne(s section) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(s.text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("a document ends and another starts without a line of ---")
		}
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	n := doc.Content[0]
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil, nil
	}
	return n, nil
}

func shift(n *yaml.Node, by int, shifted map[*yaml.Node]bool) {
	if shifted[n] {
		return
	}
	shifted[n] = true
	n.Line += by
	for _, c := range n.Content {
		shift(c, by, shifted)
	}
}

// inspector checks one document: nesting, size once aliases are written out,
// and duplicate keys.
type inspector struct {
	doc      Document
	limits   Limits
	problems []state.Problem
	size     map[*yaml.Node]expandedSize
}

// expandedSize is how many values, and bytes of text, a node holds with its aliases written
// out.
type expandedSize struct{ values, bytes int }

// aliased is how much longer than a file may be, one that writes out its aliases may be.
const aliased = 4

func inspect(doc Document, limits Limits) (expandedSize, []state.Problem, error) {
	in := &inspector{doc: doc, limits: limits, size: map[*yaml.Node]expandedSize{}}
	size, err := in.measure(doc.Node, 0)
	return size, in.problems, err
}

// measure returns how many nodes n is once written out. An anchored node is
// visited once and counted at each alias.
func (in *inspector) measure(n *yaml.Node, depth int) (expandedSize, error) {
	if depth > in.limits.Depth {
		return expandedSize{}, LimitError("%s nests deeper than %d levels", in.doc.At(n), in.limits.Depth)
	}
	if size, ok := in.size[n]; ok {
		if size.values == 0 {
			return size, LimitError("%s refers to itself", in.doc.At(n))
		}
		return size, nil
	}
	in.size[n] = expandedSize{}
	total := expandedSize{1, 1}
	children := n.Content
	if n.Kind == yaml.AliasNode {
		children = []*yaml.Node{n.Alias}
	} else {
		total.bytes += len(n.Value)
	}
	for _, c := range children {
		size, err := in.measure(c, depth+1)
		if err != nil {
			return total, err
		}
		total.values += size.values
		if total.values > in.limits.Nodes {
			return total, LimitError("%s holds more than %d values once its aliases are written out", in.doc.Origin(), in.limits.Nodes)
		}
		total.bytes += size.bytes
		if limit := aliased * in.limits.FileBytes; int64(total.bytes) > limit {
			return total, LimitError("%s holds more than %d KiB once its aliases are written out", in.doc.At(n), limit>>10)
		}
	}
	if n.Kind == yaml.MappingNode {
		in.keys(n)
	}
	in.size[n] = total
	return total, nil
}

func (in *inspector) keys(n *yaml.Node) {
	found := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			in.problems = append(in.problems, state.NewProblem(in.doc.At(k),
				finding.New(codeKeyNotScalar, "a key must be a plain scalar; quote it, or remove the braces of an unrendered template")))
			continue
		}
		if first, dup := found[k.Value]; dup && k.Value != "<<" {
			twice := state.NewProblem(in.doc.At(k), finding.New(finding.DuplicateKey, "key %q is given twice, first in line %d; remove one",
				finding.NewFact("key", k.Value), finding.NewFact("firstLine", first)))
			twice.DuplicateKey = k.Value
			in.problems = append(in.problems, twice)
			continue
		}
		found[k.Value] = k.Line
	}
}

// Child returns the value of a key of a mapping, with aliases and merge keys
// followed, or nil.
func Child(n *yaml.Node, key string) *yaml.Node {
	n = follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Tag != "!!merge" {
			return n.Content[i+1]
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		merged := follow(n.Content[i+1])
		if merged != nil && merged.Kind == yaml.SequenceNode {
			for _, m := range merged.Content {
				if v := Child(m, key); v != nil {
					return v
				}
			}
		} else if v := Child(merged, key); v != nil {
			return v
		}
	}
	return nil
}

// Items returns the elements of a sequence, or nil.
func Items(n *yaml.Node) []*yaml.Node {
	n = follow(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// Text returns the text of a scalar, or nothing.
func Text(n *yaml.Node) string {
	n = follow(n)
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func follow(n *yaml.Node) *yaml.Node {
	for range maxLinks {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}
