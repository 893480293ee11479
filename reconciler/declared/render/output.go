package render

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render/fullbuild"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// A few hundred bytes of a kustomization may render to any amount: what is written
// for many objects is added to each, and a JSON patch may copy what it has just
// copied. What comes out is therefore estimated before kustomize starts, from
// above, and whoever adds too much is named.
const (
	// maxCopied is how many bytes the copies of one JSON patch may add to an object,
	// and a power of two.
	maxCopied = 128 << 10
	// maxApplied is how often patches, replacements and values for many objects may
	// be applied to an object, all counted together.
	maxApplied = 1_000_000
	// dense is how much more a byte costs that a JSON patch copies: it may be one of many
	// short values, as text that is added once is not.
	dense = 4
	// maxName is longer than any name in Kubernetes, and than any of an image.
	maxName = 512
	// copiesOfLabels is in how many places of an object a label may be put.
	copiesOfLabels = 8
	// everyElement is how many elements a path with a wildcard is taken to have.
	everyElement = 100
)

// sizes is, by kind, how many objects there are, and how many bytes the largest has.
type sizes map[string]struct{ count, largest int }

func (z sizes) add(kind string, count, largest int) {
	was := z[kind]
	was.count += count
	was.largest = max(was.largest, largest)
	z[kind] = was
}

// growth is what an entry of a kustomization adds to objects.
type growth struct {
	at    state.Origin
	field string
	// kind matches those of the objects; nil for all.
	kind *regexp.Regexp
	// named is how many objects the entry names; 0 where it selects them.
	named int
	// bytes are added to each, in so many places, or as many as a source turns out to
	// have.
	bytes, fields int
	source        *replacement
	// copies is how many copies a JSON patch makes.
	copies int
}

// matching makes a pattern of kinds as kustomize does; nil, for all, where it is none.
func matching(kind string) *regexp.Regexp {
	if kind == "" {
		return nil
	}
	re, err := regexp.Compile("^(?:" + kind + ")$")
	if err != nil {
		return nil
	}
	return re
}

// patch notes what a patch adds: n is its entry, docs what it holds.
func (s *survey) patch(k *kustomization, field string, n *yaml.Node, docs []manifest.Document) {
	g := growth{at: k.doc.At(n), field: field, fields: 1}
	if target := manifest.Child(n, "target"); target != nil {
		g.kind = matching(manifest.Text(manifest.Child(target, "kind")))
	} else {
		g.named = len(docs)
	}
	for _, d := range docs {
		g.bytes += d.Bytes()
		g.copies += copiesIn(d)
		s.fullBuild = s.fullBuild || fullbuild.RequiredByPatch(d)
		s.annotationPatched = s.annotationPatched || fullbuild.PatchesAnnotations(d)
	}
	s.patchDocuments[n] = docs
	k.grows = append(k.grows, g)
}

// values notes what is added to all objects.
func (s *survey) values(k *kustomization) error {
	for _, field := range []string{"commonAnnotations", "commonLabels", "labels"} {
		places := copiesOfLabels
		n := manifest.Child(k.doc.Node, field)
		if n == nil {
			continue
		}
		for _, l := range manifest.Items(n) {
			places += len(manifest.Items(manifest.Child(l, "fields")))
		}
		k.grows = append(k.grows, growth{at: k.doc.At(n), field: field, bytes: textOf(n), fields: places + k.extraFields})
	}
	for _, field := range []string{"namePrefix", "nameSuffix", "namespace"} {
		s.name(k, field, manifest.Child(k.doc.Node, field))
	}
	for _, e := range entries(k.doc.Node, "images") {
		for _, field := range []string{"newName", "newTag", "digest", "tagSuffix"} {
			s.name(k, "images", manifest.Child(e, field))
		}
	}
	return nil
}

// name refuses a name that is longer than any may be.
func (s *survey) name(k *kustomization, field string, n *yaml.Node) {
	if len(manifest.Text(n)) > maxName {
		s.problem(k.doc.At(n), codeKustomizationInvalid, "%s: this is longer than a name may be", finding.NewFact("field", field))
	}
}

// textOf is how many bytes a node holds.
func textOf(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		return textOf(n.Alias)
	}
	total := len(n.Value) + 1
	for _, c := range n.Content {
		total += textOf(c)
	}
	return total
}

// apply estimates what the entries of a kustomization, and before them those of its
// components, make of the objects that it has.
func (s *survey) apply(k *kustomization, total *cost) error {
	for _, c := range k.components {
		if err := s.apply(c, total); err != nil {
			return err
		}
	}
	for _, g := range k.grows {
		if err := s.add(g, total); err != nil {
			return err
		}
	}
	return nil
}

// add estimates what an entry adds.
func (s *survey) add(g growth, total *cost) error {
	if g.source != nil {
		g.bytes = s.sourceBytes(*g.source)
	}
	before := total.bytes
	total.applied += len(total.sizes)
	if g.named > 0 {
		total.applied += g.named
		total.bytes += int64(g.bytes)
	} else {
		for kind, z := range total.sizes {
			if g.kind != nil && !g.kind.MatchString(kind) {
				continue
			}
			more := g.bytes * g.fields
			if g.copies > 0 {
				more += dense * min(z.largest<<min(g.copies, 20)-z.largest, maxCopied)
			}
			total.applied += z.count
			total.bytes += int64(z.count) * int64(more)
			z.largest += min(more, maxGrown)
			total.sizes[kind] = z
		}
	}
	if limit := s.tree.Limits().Rendered / 2; total.bytes > limit {
		return manifest.LimitError("%s: %s: with the %d KiB that this adds to the objects that it is for, more than %d MiB are added to all", g.at, g.field, (total.bytes-before)>>10, limit>>20)
	}
	if total.applied > maxApplied {
		return manifest.LimitError("%s: %s: with this, the entries for many objects are applied more than %d times; name fewer objects, or join entries", g.at, g.field, maxApplied)
	}
	return nil
}

// plus adds what a resource, base or component comes to.
func (c *cost) plus(more cost) {
	c.loads += more.loads
	c.objects += more.objects
	c.bytes += more.bytes
	c.applied += more.applied
	if c.sizes == nil {
		c.sizes = sizes{}
	}
	for kind, z := range more.sizes {
		c.sizes.add(kind, z.count, z.largest)
	}
}

// sourceBytes is how long a value is that a replacement copies: the longest of those
// that are written, or the largest object where none is.
func (s *survey) sourceBytes(r replacement) int {
	key := r.kind + " " + strings.Join(r.source, ".")
	if s.measured.bytes == nil || s.measured.files != len(s.documents) {
		s.measured.files, s.measured.bytes = len(s.documents), map[string]int{}
	}
	if n, known := s.measured.bytes[key]; known {
		return n
	}
	longest, largest := 0, s.generated.largest
	for _, docs := range s.documents {
		for _, d := range docs {
			largest = max(largest, d.Bytes())
			if kind := manifest.Text(manifest.Child(d.Node, "kind")); r.kind != "" && kind != r.kind {
				continue
			}
			for _, n := range nodesAt(d.Node, r.source) {
				longest = max(longest, textOf(n))
			}
		}
	}
	if longest == 0 {
		longest = largest
	}
	s.measured.bytes[key] = longest
	return longest
}

// fieldCount is how many fields of an object a list of paths names.
func fieldCount(paths []*yaml.Node) int {
	total := 0
	for _, p := range paths {
		total++
		if strings.ContainsAny(manifest.Text(p), "*[") {
			total += everyElement
		}
	}
	return max(total, 1)
}

// tooMuchCopied reports whether a JSON patch was stopped because of what it copies.
func tooMuchCopied(err error) bool {
	if _, ok := errors.AsType[*jsonpatch.AccumulatedCopySizeError](err); ok {
		return true
	}
	return err != nil && strings.Contains(err.Error(), jsonpatch.NewAccumulatedCopySizeError(maxCopied, 0).Error()[:len(copySizeText)])
}

// copySizeText is how that error begins; kustomize may pass on only its text.
const copySizeText = "Unable to complete the copy, the accumulated size increase of copy"

// copying is the patch that copies most.
func (s *survey) copying() state.Origin {
	at, most := state.Origin{File: s.root.file}, 0
	for _, k := range s.kustomizations {
		for _, g := range k.grows {
			if g.copies > most || g.copies == most && most > 0 && (g.at.File < at.File || g.at.File == at.File && g.at.Line < at.Line) {
				at, most = g.at, g.copies
			}
		}
	}
	return at
}

// builtinPatch notes what a patch adds that is written as a transformer.
func (s *survey) builtinPatch(k *kustomization, g growth, m map[string]any) {
	target, _ := m["target"].(map[string]any)
	kind, _ := target["kind"].(string)
	g.kind = matching(kind)
	for _, key := range []string{"patch", "jsonOp", "patches"} {
		text, _ := m[key].(string)
		docs, _, err := s.tree.Parse(k.file, []byte(text))
		if err != nil {
			return
		}
		for _, d := range docs {
			g.bytes += d.Bytes()
			g.copies += copiesIn(d)
		}
	}
	k.grows = append(k.grows, g)
}

// copiesIn is how many copies a JSON patch makes.
func copiesIn(d manifest.Document) int {
	n := 0
	for _, operation := range manifest.Items(d.Node) {
		if manifest.Text(manifest.Child(operation, "op")) == "copy" {
			n++
		}
	}
	return n
}

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
		return manifest.LimitError("%s: vars: a value of %d KiB in the place of up to %d references adds more than %d MiB to all objects; use replacements, or shorter values", at, (longest+1<<10-1)>>10, references, limit>>20)
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
