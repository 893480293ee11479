package render

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A replacement that copies a whole map or list, or joins texts, may copy what
// an earlier one has grown: each such copy can double the size of an object,
// and thirty of them fill any memory. maxGrown is what the largest object may
// come to, in bytes, if all of them do.
const maxGrown = 256 << 20

// replacement is one copy that kustomize will make.
type replacement struct {
	at     state.Origin
	kind   string   // of the source; empty for any
	source []string // its field
	// targets are the fields that are written.
	targets [][]string
	joins   bool // the source becomes part of a text
	grows   bool
}

// replacements notes the copies that a list of replacements will make.
func (s *survey) replacements(k *kustomization, at state.Origin, list []*yaml.Node) {
	for _, e := range list {
		src := manifest.Child(e, "source")
		r := replacement{
			at: at, kind: manifest.Text(manifest.Child(src, "kind")),
			source: fieldParts(manifest.Text(manifest.Child(src, "fieldPath"))),
			joins:  joined(src),
		}
		for _, t := range manifest.Items(manifest.Child(e, "targets")) {
			r.joins = r.joins || joined(t)
			paths := manifest.Items(manifest.Child(t, "fieldPaths"))
			k.grows = append(k.grows, growth{
				at: at, field: "replacements", kind: matching(manifest.Text(manifest.Child(manifest.Child(t, "select"), "kind"))),
				fields: fieldCount(paths), source: &replacement{kind: r.kind, source: r.source},
			})
			if len(paths) == 0 {
				r.targets = append(r.targets, fieldParts(""))
			}
			for _, p := range paths {
				r.targets = append(r.targets, fieldParts(manifest.Text(p)))
			}
		}
		s.copies = append(s.copies, r)
	}
}

func joined(n *yaml.Node) bool {
	return manifest.Text(manifest.Child(manifest.Child(n, "options"), "delimiter")) != ""
}

// checkGrowth refuses copies that together could grow without measure.
func (s *survey) checkGrowth() {
	doublings, largest := 0, 1
	for _, docs := range s.documents {
		for _, d := range docs {
			largest = max(largest, d.Bytes())
		}
	}
	for _, r := range s.growing() {
		if doublings += len(r.targets); doublings > 30 || largest<<doublings > maxGrown {
			s.problem(r.at, codeReplacementsTooLarge, "replacements: too many of them copy whole maps or join texts, each of which can double the size of an object; copy single values")
			return
		}
	}
}

// growing are the copies of more than a single value: of a map or list, of what is
// unknown, and of whatever such a copy writes.
func (s *survey) growing() []replacement {
	for i, r := range s.copies {
		s.copies[i].grows = r.joins || !s.scalar(r)
	}
	for changed := true; changed; {
		changed = false
		for i, r := range s.copies {
			if !r.grows && s.fed(r) {
				s.copies[i].grows, changed = true, true
			}
		}
	}
	var out []replacement
	for _, r := range s.copies {
		if r.grows {
			out = append(out, r)
		}
	}
	return out
}

// fed reports whether a growing copy writes to, into or around r's source.
func (s *survey) fed(r replacement) bool {
	for _, other := range s.copies {
		if !other.grows {
			continue
		}
		for _, t := range other.targets {
			if overlap(t, r.source) {
				return true
			}
		}
	}
	return false
}

func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if strings.ContainsAny(a[i]+b[i], "*[") {
			return true
		}
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// scalar reports whether a copy's source is known to be a single value: in
// every object of its kind that has the field.
func (s *survey) scalar(r replacement) bool {
	if r.kind == "ConfigMap" || r.kind == "Secret" {
		return len(r.source) == 2
	}
	found := false
	for _, docs := range s.documents {
		for _, d := range docs {
			if kind := manifest.Text(manifest.Child(d.Node, "kind")); r.kind != "" && kind != r.kind && kind != "List" {
				continue
			}
			for _, n := range nodesAt(d.Node, r.source) {
				if found = true; n.Kind != yaml.ScalarNode {
					return false
				}
			}
		}
	}
	return found
}

// nodesAt finds the nodes of a field in a document.
func nodesAt(n *yaml.Node, parts []string) []*yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || len(parts) == 0 {
		if n == nil {
			return nil
		}
		return []*yaml.Node{n}
	}
	if n.Kind != yaml.SequenceNode {
		return nodesAt(manifest.Child(n, parts[0]), parts[1:])
	}
	var out []*yaml.Node
	for _, e := range n.Content {
		out = append(out, nodesAt(e, parts[1:])...)
	}
	return out
}

// fieldParts splits a field path as kustomize does: at dots that are neither in
// brackets nor behind a backslash.
func fieldParts(path string) []string {
	if path == "" {
		path = "metadata.name"
	}
	var parts []string
	var part strings.Builder
	depth, escaped := 0, false
	for _, c := range path {
		switch {
		case escaped:
			part.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '.' && depth == 0:
			parts = append(parts, part.String())
			part.Reset()
		default:
			if c == '[' {
				depth++
			} else if c == ']' && depth > 0 {
				depth--
			}
			part.WriteRune(c)
		}
	}
	return append(parts, part.String())
}
