package conversion

import (
	"fmt"
	"math"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/inplace"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/table"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
	"github.com/poolwright/poolwright/reconciler/state"
)

// object is one object as it is converted.
type object struct {
	file string
	line int
	node *yaml.Node
	objectPosition

	title            string // as it was read
	apiVersion, kind string // as they are
	rules            *table.KindRules
	patch, blocked   bool
	item             int // its index among those of Objects, -1 for a new one
}

// objectPosition is where an object's text is: on a page, nil for an object of Objects, in
// the document with a root, and in a list of items, if it is in one.
type objectPosition struct {
	page        *inplace.File
	root, items *yaml.Node
}

// name is the object's name.
func (o *object) name() string { return yamlnode.Text(yamlnode.Get(o.node, "metadata.name")) }

// group is its API group.
func (o *object) group() string {
	group, _, ok := strings.Cut(o.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// is reports whether it is of a kind, whatever the version. Patches are of none:
// they are only parts.
func (o *object) is(group, kind string) bool {
	return !o.patch && o.kind == kind && o.group() == group
}

const (
	coreGroup = "karpenter.sh"
	awsGroup  = "karpenter.k8s.aws"
)

func (o *object) pool() bool { return o.is(coreGroup, "NodePool") || o.is(coreGroup, "Provisioner") }
func (o *object) class() bool {
	return o.is(awsGroup, "EC2NodeClass") || o.is(awsGroup, "AWSNodeTemplate")
}

// converter is one conversion.
type converter struct {
	table   *table.Table
	opts    Options
	book    *inplace.FileSet
	objects []*object
	changes []Change
	// rendered is true for objects that were rendered together, and so belong
	// together, whatever files they come from.
	rendered bool
	// names are the first objects, as many as indexed, by their names, which no
	// convert changes.
	names   map[string][]*object
	indexed int
	// reviews are the warnings that are written into files, by file: nothing in an converted
	// manifest shows any more what they are about.
	reviews map[string][]string
	// copied is how many values the copies of classes hold.
	copied int
}

// called are the objects of a name, in their order.
func (r *converter) called(name string) []*object {
	for ; r.indexed < len(r.objects); r.indexed++ {
		o := r.objects[r.indexed]
		r.names[o.name()] = append(r.names[o.name()], o)
	}
	return r.names[name]
}

func newConverter(t *table.Table, opts Options) *converter {
	return &converter{table: t, opts: opts, book: inplace.NewFileSet(), names: map[string][]*object{}, reviews: map[string][]string{}}
}

// report reports a change at a field of an object.
func (r *converter) report(o *object, g Grade, field, format string, args ...any) {
	line := o.line
	if field != "" {
		line = max(o.line, yamlnode.LineOf(o.node, field))
	}
	r.reportAt(o, g, line, format, args...)
	r.changes[len(r.changes)-1].Field = field
}

func (r *converter) reportAt(o *object, g Grade, line int, format string, args ...any) {
	if line <= 0 {
		line = o.line
	}
	r.changes = append(r.changes, Change{Origin: state.Origin{File: o.file, Line: line}, Object: o.title, Grade: g, Text: fmt.Sprintf(format, args...)})
}

// requireReview reports what somebody has to review and a second conversion would not find.
func (r *converter) requireReview(o *object, line int, format string, args ...any) {
	r.reportAt(o, Manual, line, format, args...)
	r.reviews[o.file] = append(r.reviews[o.file], o.title+": "+fmt.Sprintf(format, args...))
}

// block leaves an object as it is, because of a field.
func (r *converter) block(o *object, field, format string, args ...any) {
	r.report(o, Manual, field, format, args...)
	r.changes[len(r.changes)-1].Blocks = true
	o.blocked = true
}

// identify reads what an object is.
func (r *converter) identify(o *object) {
	o.apiVersion, o.kind = yamlnode.Text(yamlnode.Get(o.node, "apiVersion")), yamlnode.Text(yamlnode.Get(o.node, "kind"))
	o.title = o.kind + "/"
	if ns := yamlnode.Text(yamlnode.Get(o.node, "metadata.namespace")); ns != "" {
		o.title += ns + "/"
	}
	o.title += o.name()
	o.rules = r.table.Rules(o.apiVersion, o.kind)
}

// those are the objects of some kind that are not blocked, in order.
func (r *converter) those(kind func(*object) bool) []*object {
	var out []*object
	for _, o := range r.objects {
		if kind(o) && !o.blocked {
			out = append(out, o)
		}
	}
	return out
}

// spellOut writes out the aliases of an object that is to be changed: a change in
// one place must not be one in another.
func (r *converter) spellOut(o *object) {
	if yamlnode.WriteOut(o.node) {
		r.report(o, Lossless, "", "YAML aliases are written out")
	}
}

// retitle gives an object its new API version and kind.
func (r *converter) retitle(o *object) {
	apiVersion, kind, _ := strings.Cut(o.rules.New, " ")
	r.report(o, Lossless, "apiVersion", "is now %s %s", apiVersion, kind)
	yamlnode.Get(o.node, "apiVersion").Value, yamlnode.Get(o.node, "kind").Value = apiVersion, kind
	o.apiVersion, o.kind = apiVersion, kind
}

// dropGenerated takes away what webhooks and controllers left in exported manifests.
func (r *converter) dropGenerated(o *object) {
	annotations := yamlnode.Get(o.node, "metadata.annotations")
	for _, key := range r.table.KeptAnnotations {
		if i := yamlnode.Index(annotations, key); i >= 0 {
			r.reportAt(o, Lossless, annotations.Content[i].Line, "annotation %s is dropped: Karpenter wrote it for itself", key)
			yamlnode.RemoveEntry(annotations, key)
		}
	}
	if annotations != nil && annotations.Kind == yaml.MappingNode && len(annotations.Content) == 0 {
		yamlnode.Remove(o.node, "metadata.annotations")
	}
}

// apply moves and renames by the table.
func (r *converter) apply(o *object) {
	for _, d := range o.rules.Drops {
		if yamlnode.Get(o.node, d.At) != nil {
			r.report(o, Lossless, d.At, "%s is dropped: %s", d.At, d.Reason)
			yamlnode.Remove(o.node, d.At)
		}
	}
	for _, m := range o.rules.Moves {
		r.move(o, m)
	}
	for _, v := range o.rules.Values {
		if n := yamlnode.Get(o.node, v.At); yamlnode.Text(n) == v.Old {
			r.report(o, Lossless, v.At, "%s: %s is called %s now", v.At, v.Old, v.New)
			n.Value = v.New
		}
	}
}

// move puts an entry where v1 has it. Its key takes the comments along.
func (r *converter) move(o *object, m table.Move) {
	n := yamlnode.Get(o.node, m.From)
	if n == nil {
		return
	}
	from, key := path2(m.From)
	to, newKey := path2(m.To)
	if yamlnode.Absent(n) {
		yamlnode.Remove(o.node, m.From)
		return
	}
	if !m.Unreported {
		r.report(o, Lossless, m.From, "%s is %s now", m.From, m.To)
	}
	k, v, i := yamlnode.RemoveEntry(yamlnode.Get(o.node, from), key)
	if m.Seconds {
		v = seconds(v)
	}
	k.Value = newKey
	root, rest, _ := strings.Cut(to, ".")
	yamlnode.Put(yamlnode.Ensure(yamlnode.Get(o.node, root), rest, i), -1, k, v)
}

// path2 divides a path into what is before its last key, and that.
func path2(p string) (string, string) {
	i := strings.LastIndex(p, ".")
	return p[:i], p[i+1:]
}

// seconds is a number of them as a duration.
func seconds(n *yaml.Node) *yaml.Node {
	return yamlnode.Scalar(strings.TrimSpace(yamlnode.Text(n)) + "s")
}

// defaults writes down what the old API took for granted.
func (r *converter) defaults(o *object) {
	had := map[string]bool{}
	for _, d := range o.rules.Defaults {
		parent, _ := path2(d.At)
		if _, declared := had[parent]; !declared {
			had[parent] = !yamlnode.Absent(yamlnode.Get(o.node, parent))
		}
		if d.WithParent && had[parent] || !yamlnode.Absent(yamlnode.Get(o.node, d.At)) {
			continue
		}
		root, rest, _ := strings.Cut(parent, ".")
		r.report(o, Default, d.At, "%s: %s, %s", d.At, d.Value.Value, d.Reason)
		_, key := path2(d.At)
		yamlnode.Set(yamlnode.Ensure(yamlnode.Get(o.node, root), rest, -1), key, yamlnode.CopyWithoutComments(&d.Value))
	}
}

// nearest is the object among some whose file is nearest to another, and whether
// there is exactly one: a repository may hold several clusters, each with a class
// of the same name.
func (r *converter) nearest(file string, among []*object) (*object, bool) {
	var found *object
	best, ties := -1, 0
	for _, o := range among {
		switch n := r.nearness(file, o.file); {
		case n > best:
			found, best, ties = o, n, 1
		case n == best:
			ties++
		}
	}
	return found, ties == 1
}

func (r *converter) nearness(a, b string) int {
	if a == b || r.rendered {
		return math.MaxInt
	}
	as, bs := strings.Split(path.Dir(a), "/"), strings.Split(path.Dir(b), "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return n
}

// together reports whether two files are taken for parts of one cluster.
func (r *converter) together(a, b string) bool { return r.rendered || path.Dir(a) == path.Dir(b) }

func isMapping(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }
