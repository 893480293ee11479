package render

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// reference is how a reference to one of kustomize's vars begins, and shortestReference how many
// bytes one has.
const (
	reference         = "$("
	shortestReference = 4
)

// checkVars refuses vars whose values, put in the place of each reference, add more text than
// anything may: a value of a megabyte and a thousand references of four bytes are a gigabyte.
// Kustomize puts them in once, into all objects of the first kustomization.
func (s *survey) checkVars(total cost) error {
	longest, at := 0, s.root.doc.Origin()
	for _, k := range s.kustomizations {
		for _, v := range entries(k.doc.Node, "vars") {
			n := s.sourceBytes(replacement{
				kind:   manifest.Text(manifest.Child(manifest.Child(v, "objref"), "kind")),
				source: fieldParts(manifest.Text(manifest.Child(manifest.Child(v, "fieldref"), "fieldpath"))),
			})
			if o := k.doc.At(v); n > longest || n == longest && (o.File < at.File || o.File == at.File && o.Line < at.Line) {
				longest, at = n, o
			}
		}
	}
	if longest <= shortestReference {
		return nil
	}
	most := s.generated.references
	for _, docs := range s.documents {
		for _, d := range docs {
			most = max(most, referencesIn(d.Node))
		}
	}
	for _, k := range s.kustomizations {
		most = max(most, referencesIn(k.doc.Node))
	}
	if most == 0 {
		return nil
	}
	// What is added to objects may be references as well.
	references := int64(most)*int64(total.objects) + total.bytes/shortestReference
	if limit := s.tree.Limits().Rendered / 2; references > limit/int64(longest) {
		return manifest.Exceeded("%s: vars: a value of %d KiB in the place of up to %d references adds more than %d MiB to all objects; use replacements, or shorter values", at, (longest+1<<10-1)>>10, references, limit>>20)
	}
	return nil
}

// referencesIn is how many references to vars a node holds, aliases written out.
func referencesIn(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		return referencesIn(n.Alias)
	}
	total := strings.Count(n.Value, reference)
	for _, c := range n.Content {
		total += referencesIn(c)
	}
	return total
}
