package grammar

import (
	"fmt"
	"path"
	"strings"
)

// change writes an entry that changes objects.
func (w *fileWriter) change(k *layerFile, d Derivation) {
	n := func(i int) int { return d.N[i] }
	switch d.Rule {
	case "merge": // the target, how many fields, and how deep
		content := w.text(d.Of[0])
		fields := "{" + w.repeat(n(1), func(i int) string { return field(fmt.Sprint("m", i), quoted(content)) }) + "}"
		body := braced(field("apiVersion", quoted("v1")), field("kind", quoted("A")), field("metadata", `{"name": "a"}`),
			field("spec", strings.Repeat(`{"a": `, n(2))+fields+strings.Repeat("}", n(2))))
		k.add("patches", braced(selected(n(0)), field("patch", quoted(body))))
	case "operations": // the target, how many, and which
		k.add("patches", braced(selected(n(0)), field("patch", quoted("["+w.repeat(n(1), func(i int) string { return w.operation(n(2), i, d.Of[0]) })+"]"))))
	case "replacement":
		w.replacement(k, d)
	case "pattern": // how many patches, with patterns of which length
		for i := range n(0) {
			pattern := strings.Repeat(`(\pL|[a-z]{1,20})*`, n(1)) + fmt.Sprint(i)
			k.add("patches", braced(field("target", braced(field("kind", quoted(pattern)))), field("patch", quoted(`[{"op": "test", "path": "/kind", "value": "A"}]`))))
		}
	case "transformer":
		w.transformer(k, d)
	}
}

// operation is one of a JSON patch: add, copy, move, test, or one at the end of a list.
func (w *fileWriter) operation(which, i int, content Derivation) string {
	switch which {
	case 1:
		return braced(field("op", quoted("copy")), field("from", quoted("/metadata")), field("path", quoted(fmt.Sprint("/metadata/c", i))))
	case 2:
		return braced(field("op", quoted("add")), field("path", quoted(fmt.Sprint("/metadata/labels/m", i))), field("value", quoted("x"))) + ", " +
			braced(field("op", quoted("move")), field("from", quoted(fmt.Sprint("/metadata/labels/m", i))), field("path", quoted(fmt.Sprint("/metadata/labels/n", i))))
	case 3:
		return braced(field("op", quoted("test")), field("path", quoted("/metadata/labels/app")), field("value", quoted("a")))
	}
	return braced(field("op", quoted("add")), field("path", quoted(fmt.Sprint("/metadata/labels/v", i))), field("value", quoted(w.text(content))))
}

// replacement has so many (N[0]), of so many paths (N[1]), with a delimiter (N[2]), to fields
// that are made (N[3]), from one of several sources (N[4]).
func (w *fileWriter) replacement(k *layerFile, d Derivation) {
	source := []string{"metadata.name", "spec", "metadata.labels.app", "data", "spec.v0"}[d.N[4]]
	from, to := "", field("create", fmt.Sprint(d.N[3] == 1))
	if d.N[2] == 1 {
		from, to = `, "options": {"delimiter": "-", "index": 0}`, to+`, "delimiter": "-", "index": 99`
	}
	for i := range d.N[0] {
		paths := w.repeat(d.N[1], func(j int) string {
			return quoted([]string{"metadata.labels.app", fmt.Sprintf("spec.r%d.r%d", i, j)}[d.N[3]])
		})
		k.add("replacements", `{"source": {"kind": "NodePool", "name": "pool", "fieldPath": `+quoted(source)+from+
			`}, "targets": [{"select": {"kind": "Widget"}, "fieldPaths": [`+paths+`], "options": {`+to+`}}]}`)
	}
}

// vars are so many that all have one text of so many bytes.
func (w *fileWriter) vars(folder string, k *layerFile, n, size int) {
	name := w.next("var")
	if !w.add(path.Join(folder, name+".yaml"), manifest("example.com/v1", "Widget", name, field("source", quoted(w.repeated("x", size))))+"\n") {
		return
	}
	k.add("resources", quoted(name+".yaml"))
	k.add("vars", split(n, func(i int) string {
		return fmt.Sprintf(`{"name": "A%d", "objref": {"apiVersion": "example.com/v1", "kind": "Widget", "name": %q}, "fieldref": {"fieldpath": "source"}}`, i+1, name)
	})...)
}

// transformer is one that is built in (N[2]), so many of them (N[0]), of so many bytes (N[1]).
func (w *fileWriter) transformer(k *layerFile, d Derivation) {
	size := 0
	for i := range d.N[0] {
		name := w.next("t")
		content := strings.Repeat("x", d.N[1])
		body := []string{
			`{"apiVersion": "builtin", "kind": "AnnotationsTransformer", "metadata": {"name": "` + name + `"}, "annotations": {"` + name + `": "` + content + `"}, "fieldSpecs": [{"path": "metadata/annotations", "create": true}]}`,
			`{"apiVersion": "builtin", "kind": "LabelTransformer", "metadata": {"name": "` + name + `"}, "labels": {"` + name + `": "` + content + `"}, "fieldSpecs": [{"path": "metadata/labels", "create": true}]}`,
			`{"apiVersion": "builtin", "kind": "PrefixTransformer", "metadata": {"name": "` + name + `"}, "prefix": "` + content + `", "fieldSpecs": [{"path": "metadata/name"}]}`,
			`{"apiVersion": "builtin", "kind": "PatchTransformer", "metadata": {"name": "` + name + `"}, "target": {"kind": ".*"}, "patch": ` + quoted(`[{"op": "add", "path": "/metadata/annotations", "value": {"`+name+`": "`+content+`"}}]`) + `}`,
		}[d.N[2]]
		if size += len(body); size > w.sizes.FileBytes/2 && i > 0 {
			return
		}
		k.add("transformers", quoted(body))
	}
}
