package grammar

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// layerFile collects what a kustomization holds: lists by field, and fields that are written once.
type layerFile struct {
	lists, fields map[string][]string
}

func (k *layerFile) add(field string, items ...string) {
	k.lists[field] = append(k.lists[field], items...)
}

func (k *layerFile) set(name, value string) { k.fields[name] = []string{value} }

// begun is a kustomization with resources and without duplicates of fields.
func begun(resources ...string) *layerFile {
	k := &layerFile{lists: map[string][]string{}, fields: map[string][]string{}}
	k.add("resources", quotedAll(resources)...)
	return k
}

func quotedAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = quoted(t)
	}
	return out
}

// write writes the kustomization into a folder.
func (w *fileWriter) write(folder string, k *layerFile) {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		out.WriteString(name + ": " + k.fields[name][0] + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(k.lists)) {
		out.WriteString(name + ":\n")
		for _, item := range k.lists[name] {
			out.WriteString("- " + item + "\n")
		}
	}
	w.add(path.Join(folder, "kustomization.yaml"), out.String())
}

// layer writes a kustomization into a folder, and below it what it is made of.
func (w *fileWriter) layer(folder string, d Derivation, more ...string) {
	switch d.Rule {
	case "chain":
		w.chain(folder, d, more)
	case "diamond":
		w.diamond(folder, d, more)
	default:
		k := w.overlay(folder, d)
		k.add("resources", quotedAll(more)...)
		w.write(folder, k)
	}
}

// overlay is a kustomization of files, entries and layers. Each layer is used so often as its
// N[0] has it, with other prefixes, or as a component (N[1]).
func (w *fileWriter) overlay(folder string, d Derivation) *layerFile {
	k := begun()
	for _, of := range d.Of {
		switch r, _ := ruleNamed(of.Rule); r.symbol {
		case file:
			k.add("resources", quotedAll(w.file(folder, of))...)
		case entry:
			w.entry(folder, k, of)
		default:
			w.base(folder, k, of)
		}
	}
	return k
}

// base writes a layer that another uses.
func (w *fileWriter) base(folder string, k *layerFile, d Derivation) {
	name := w.next("l")
	below := path.Join(folder, name)
	if d.Rule == "overlay" && d.N[1] == 1 {
		part := w.overlay(below, d)
		part.set("kind", "Component")
		part.set("apiVersion", "kustomize.config.k8s.io/v1alpha1")
		w.write(below, part)
		k.add("components", quoted(name))
		return
	}
	w.layer(below, d)
	copies := 1
	if d.Rule == "overlay" {
		copies = d.N[0]
	}
	if copies == 1 {
		k.add("resources", quoted(name))
		return
	}
	for range copies {
		prefixed := begun("../" + name)
		prefix := w.next("c")
		prefixed.set("namePrefix", prefix+"-")
		w.write(path.Join(folder, prefix), prefixed)
		k.add("resources", quoted(prefix))
	}
}

// chain is so many kustomizations (N[0]) within each other, each with all entries.
func (w *fileWriter) chain(folder string, d Derivation, more []string) {
	for level := range d.N[0] {
		k := begun()
		for _, of := range d.Of {
			if r, _ := ruleNamed(of.Rule); r.symbol == entry {
				w.entry(folder, k, of)
			} else if level == d.N[0]-1 {
				k.add("resources", quotedAll(w.file(folder, of))...)
			}
		}
		k.add("resources", quotedAll(more)...)
		more = nil
		next := w.next("l")
		if level < d.N[0]-1 {
			k.add("resources", quoted("../"+next))
		}
		w.write(folder, k)
		folder = path.Join(path.Dir(folder), next)
	}
}

// diamond is so many levels (N[0]), each of which has the one below it so often (N[1]).
func (w *fileWriter) diamond(folder string, d Derivation, more []string) {
	below := w.next("l")
	k := begun(more...)
	for range d.N[1] {
		prefix := w.next("c")
		k.add("resources", quoted(prefix))
		side := begun("../" + below)
		side.set("namePrefix", prefix+"-")
		w.write(path.Join(folder, prefix), side)
	}
	var files []Derivation
	for _, of := range d.Of {
		if r, _ := ruleNamed(of.Rule); r.symbol == entry {
			w.entry(folder, k, of)
		} else {
			files = append(files, of)
		}
	}
	w.write(folder, k)
	inner := path.Join(folder, below)
	if d.N[0] > 1 {
		w.diamond(inner, Derivation{Rule: d.Rule, N: []int{d.N[0] - 1, d.N[1]}, Of: d.Of}, nil)
		return
	}
	last := begun()
	for _, of := range files {
		last.add("resources", quotedAll(w.file(inner, of))...)
	}
	w.write(inner, last)
}

// selected is a target: any kind, one, any name, a label, or everything.
func selected(n int) string {
	return field("target", []string{`{kind: ".*"}`, `{kind: Widget}`, `{name: ".*"}`, `{labelSelector: "app=a"}`, `{kind: "(.*)+", name: "(o|[0-9])+"}`}[n])
}

// entry writes one entry of a kustomization, and files that it needs into its folder.
func (w *fileWriter) entry(folder string, k *layerFile, d Derivation) {
	n := func(i int) int { return d.N[i] }
	switch d.Rule {
	case "labels": // how many, how long, whether selectors have them, and in how many fields
		pairs := "{" + w.repeat(n(0), func(i int) string { return field(fmt.Sprint("l", i), quoted(strings.Repeat("x", n(1)))) }) + "}"
		fields := w.repeat(n(3), func(i int) string { return braced(field("path", quoted(fmt.Sprint("spec/a", i))), "create: true") })
		k.add("labels", braced(field("pairs", pairs), field("includeSelectors", fmt.Sprint(n(2) == 1)), field("includeTemplates", "true"), field("fields", "["+fields+"]")))
	case "annotations": // how many, how long
		k.set("commonAnnotations", "{"+w.repeat(n(0), func(i int) string { return field(fmt.Sprint("a", i), quoted(w.repeated("x", n(1)))) })+"}")
	case "affixes":
		k.set("namePrefix", strings.Repeat("p", n(0)))
		k.set("nameSuffix", strings.Repeat("s", n(1)))
	case "images":
		k.add("images", split(n(0), func(i int) string {
			return braced(field("name", quoted("i")), field("newName", quoted(fmt.Sprint("i", i))), field("newTag", quoted(strings.Repeat("t", n(1)))))
		})...)
	case "generator": // how many, literals of each, and whether of Secrets
		w.generator(k, d)
	case "configuration":
		w.configuration(folder, k, n(0))
	case "schema":
		w.schema(folder, k, n(0), n(1))
	case "order":
		k.set("sortOptions", braced(field("order", "legacy"), field("legacySortOptions", braced(field("orderFirst", "["+w.numbered("K", n(0))+"]"), field("orderLast", "["+w.numbered("L", n(0))+"]")))))
	case "vars":
		w.vars(folder, k, n(0), n(1))
	case "metadata":
		k.set("buildMetadata", "[originAnnotations, transformerAnnotations, managedByLabel]")
	default:
		w.change(k, d)
	}
}

// split are so many items.
func split(n int, of func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

func (w *fileWriter) generator(k *layerFile, d Derivation) {
	literal := w.text(d.Of[0])
	if d.N[2] == 0 {
		literal = literal[:min(len(literal), 1<<14)]
	}
	name := []string{"configMapGenerator", "secretGenerator"}[d.N[2]]
	begin := w.next("g")
	size := 0
	for i := range d.N[0] {
		one := braced(field("name", quoted(fmt.Sprint(begin, "-", i))), field("literals", "["+w.repeat(d.N[1], func(i int) string { return quoted(fmt.Sprint("k", i, "=", literal)) })+"]"))
		if size += len(one); size > w.sizes.FileBytes/2 && i > 0 {
			return
		}
		k.add(name, one)
	}
}

// configuration has kustomize search for names and variables in so many more fields.
func (w *fileWriter) configuration(folder string, k *layerFile, n int) {
	name := w.next("configuration") + ".yaml"
	specs := w.repeat(n, func(i int) string { return braced(field("path", quoted(fmt.Sprint("spec/v", i)))) })
	paths := w.repeat(n, func(i int) string {
		return braced(field("path", quoted(fmt.Sprint("spec/v", i))), field("kind", quoted("Widget")), field("create", "true"))
	})
	content := "nameReference: [{kind: ConfigMap, fieldSpecs: [" + paths + "]}]\nvarReference: [{path: data}, {path: spec}, " + specs + "]\ncommonLabels: [" + paths + "]\ncommonAnnotations: [" + paths + "]\n"
	if w.add(path.Join(folder, name), content) {
		k.add("configurations", quoted(name))
	}
}

// schema gives kustomize a schema of its own, or of one kind.
func (w *fileWriter) schema(folder string, k *layerFile, n, which int) {
	name := w.next("schema") + ".json"
	properties := w.repeat(n, func(i int) string { return field(fmt.Sprint("v", i), `{"type": "object", "$ref": "#/definitions/a"}`) })
	content := `{"definitions": {"a": {"type": "object", "properties": {` + properties + `}, "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}]}}}`
	if which == 1 {
		if w.add(path.Join(folder, name), content) {
			k.add("crds", quoted(name))
		}
		return
	}
	if w.add(path.Join(folder, name), content) {
		k.set("openapi", braced(field("path", quoted(name))))
	}
}
