package declared

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// copies are the operations of a JSON patch that double an object n times.
func copies(n int) string {
	var ops strings.Builder
	for i := range n {
		fmt.Fprintf(&ops, "    - {op: copy, from: /spec, path: /spec/a%d}\n", i)
	}
	return ops.String()
}

// maps are n small objects.
func maps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: b}\n", i)
	}
	return b.String()
}

const mebibyte = 1 << 20

// vars is a kustomization that puts a value of a Secret into ConfigMaps.
const vars = "resources: [b.yaml, l.yaml]\nconfigurations: [c.yaml]\nvars:\n- {name: A, objref: {apiVersion: v1, kind: Secret, name: s}, fieldref: {fieldpath: stringData.a}}\n"

const varReference = "varReference: [{kind: ConfigMap, path: data}]\n"

// references is a ConfigMap with so many references to A.
func references(n int) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: " + strings.Repeat("$(A)", n) + "}\n"
}

func TestVarsOfShortValuesAreFilledIn(t *testing.T) {
	d, problems := problemsOf(tree("m/kustomization.yaml", vars, "m/c.yaml", varReference, "m/l.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: short-value}\n",
		"m/b.yaml", references(1000)), "m", Options{})
	for _, item := range d.Set.Items() {
		data, _ := item.Object["data"].(map[string]any)
		if item.Key.Kind == "ConfigMap" && data["a"] != strings.Repeat("short-value", 1000) {
			t.Errorf("%.200v", item.Object)
		}
	}
	if problems != "" || d.Set.Len() != 2 {
		t.Errorf("%d objects: %s", d.Set.Len(), problems)
	}
}

// TestWhatAKustomizationAddsIsBoundedByName is about kustomizations that are small and
// render to much. Each must be refused before it has taken memory and time, with the file
// and line of the entry.
func TestWhatAKustomizationAddsIsBoundedByName(t *testing.T) {
	long := strings.Repeat("x", mebibyte)
	jsonPatch := "resources: [b.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: |\n"
	var patches strings.Builder
	for range 300 {
		patches.WriteString("- {target: {kind: ConfigMap}, patch: '[{op: add, path: /a, value: b}]'}\n")
	}
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"12 copies of a JSON patch":             {[]string{"m/kustomization.yaml", jsonPatch + copies(12), "m/b.yaml", pool}, "m/kustomization.yaml:3: a JSON patch copies more than 128 KiB"},
		"20 copies":                             {[]string{"m/kustomization.yaml", jsonPatch + copies(20), "m/b.yaml", pool}, "m/kustomization.yaml:3: a JSON patch copies more than 128 KiB"},
		"copies in a file":                      {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n- {path: p.yaml, target: {kind: NodePool}}\n", "m/p.yaml", copies(20), "m/b.yaml", pool}, "m/kustomization.yaml:3: a JSON patch copies more"},
		"copies in a transformer":               {[]string{"m/kustomization.yaml", "resources: [b.yaml]\ntransformers:\n- |\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: x}\n  target: {kind: NodePool}\n  patch: |\n" + copies(20), "m/b.yaml", pool}, "m/kustomization.yaml:3: a JSON patch copies more"},
		"copies in many objects":                {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n" + strings.ReplaceAll(copies(12), "/spec", "/data"), "m/b.yaml", maps(500)}, "m/kustomization.yaml:3: patches: with the"},
		"a value for all objects":               {[]string{"m/kustomization.yaml", "resources: [b.yaml]\ncommonAnnotations: {a: " + long + "}\n", "m/b.yaml", maps(20)}, "m/kustomization.yaml:2: commonAnnotations: with the 163"},
		"a label for all objects":               {[]string{"m/kustomization.yaml", "resources: [b.yaml]\nlabels:\n- pairs: {a: " + long + "}\n", "m/b.yaml", maps(20)}, "m/kustomization.yaml:3: labels: with"},
		"a value in the base of many":           {[]string{"m/kustomization.yaml", "components: [../c]\nresources: [b.yaml]\n", "c/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {a: " + long + "}\n", "m/b.yaml", maps(20)}, "c/kustomization.yaml:3: commonAnnotations: with"},
		"a value by a transformer":              {[]string{"m/kustomization.yaml", "resources: [b.yaml]\ntransformers:\n- |\n  apiVersion: builtin\n  kind: AnnotationsTransformer\n  metadata: {name: x}\n  annotations: {a: " + long + "}\n  fieldSpecs: [{path: metadata/annotations, create: true}]\n", "m/b.yaml", maps(100)}, "m/kustomization.yaml:3: transformers: with"},
		"a large patch of many objects":         {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n- target: {kind: ConfigMap}\n  path: p.yaml\n", "m/p.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: " + long + "}\n", "m/b.yaml", maps(100)}, "m/kustomization.yaml:3: patches: with"},
		"a long value copied to many objects":   {[]string{"m/kustomization.yaml", "resources: [b.yaml, l.yaml]\nreplacements:\n- source: {kind: Secret, fieldPath: stringData.a}\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a]}]\n", "m/l.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: " + long + "}\n", "m/b.yaml", maps(100)}, "m/kustomization.yaml:3: replacements: with"},
		"a long value for many references":      {[]string{"m/kustomization.yaml", vars, "m/c.yaml", varReference, "m/l.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: " + long + "}\n", "m/b.yaml", references(100)}, "m/kustomization.yaml:4: vars: a value of 1025 KiB"},
		"a long value for generated references": {[]string{"m/kustomization.yaml", strings.Replace(vars, "b.yaml, ", "", 1) + "configMapGenerator: [{name: g, files: [f]}]\n", "m/c.yaml", varReference, "m/l.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: " + long + "}\n", "m/f", strings.Repeat("$(A)", 100)}, "m/kustomization.yaml:4: vars: a value of 1025 KiB"},
		"many patches of many objects":          {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n" + patches.String(), "m/b.yaml", maps(4000)}, "the entries for many objects are applied more than 1000000 times"},
		"a prefix that is longer than any name": {[]string{"m/kustomization.yaml", "resources: [b.yaml]\nnamePrefix: " + strings.Repeat("x", 1000) + "\n", "m/b.yaml", pool}, "m/kustomization.yaml:2: namePrefix: this is longer than a name may be"},
		"an image that is longer than any name": {[]string{"m/kustomization.yaml", "resources: [b.yaml]\nimages:\n- {name: a, newName: " + strings.Repeat("x", 1000) + "}\n", "m/b.yaml", pool}, "m/kustomization.yaml:3: images: this is longer than a name may be"},
		"a long text by aliases":                {[]string{"m/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: &x " + long + "\ny: [" + strings.Repeat("*x,", 5000) + "]\n"}, "m/a.yaml:5 holds more than 16384 KiB once its aliases are written out"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			fsys := tree(c.files...)
			if allocated := allocations(func() { _, got = problemsOf(fsys, "m", Options{}) }); allocated > 192<<20 {
				t.Errorf("allocated %d MiB", allocated>>20)
			}
			if !strings.Contains(got, c.want) || !strings.Contains(c.want, "than a name") && !strings.HasPrefix(got, "stalled LimitExceeded") {
				t.Errorf("got %.300s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhatPeopleWriteForManyObjectsIsRendered(t *testing.T) {
	var overlays []string
	for i := range 30 {
		overlays = append(overlays, fmt.Sprintf("o%d/kustomization.yaml", i), fmt.Sprintf("namePrefix: o%d-\nresources: [../base]\ncommonAnnotations: {team: infra}\n", i))
	}
	overlays = append(overlays, "base/kustomization.yaml", "resources: [b.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n    - {op: copy, from: /data/a, path: /data/b}\n    - {op: move, from: /data/a, path: /data/c}\n", "base/b.yaml", maps(20))
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("../o%d", i))
	}
	overlays = append(overlays, "m/kustomization.yaml", "resources: ["+strings.Join(names, ", ")+"]\nlabels:\n- {pairs: {team: infra}, includeSelectors: true}\nconfigurations: [c.yaml]\n",
		"m/c.yaml", "commonLabels:\n"+strings.Repeat("- {path: spec/x/metadata/labels, kind: Widget}\n", 20))
	for name, c := range map[string]struct {
		files   []string
		objects int
	}{
		"ten copies of single values": {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: |\n" +
			strings.ReplaceAll(copies(10), "from: /spec,", "from: /metadata/name,"), "m/b.yaml", pool}, 1},
		"a large config map and a replacement in many": {[]string{"m/kustomization.yaml", "resources: [b.yaml, l.yaml]\nreplacements:\n- source: {kind: Secret, fieldPath: metadata.name}\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a]}]\n",
			"m/l.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: " + strings.Repeat("x", mebibyte) + "}\n", "m/b.yaml", maps(200)}, 201},
		"a base with a patch in thirty overlays": {overlays, 600},
	} {
		t.Run(name, func(t *testing.T) {
			if d, got := problemsOf(tree(c.files...), "m", Options{}); got != "" || d.Set.Len() != c.objects {
				t.Errorf("%d objects, %.300s", d.Set.Len(), got)
			}
		})
	}
}

// TestWhatIsDeclaredIsBoundedInMemory is about trees that keep every other limit.
func TestWhatIsDeclaredIsBoundedInMemory(t *testing.T) {
	widget := func(name string, values int) string {
		return "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: " + name + "}\nspec: {x: [" + strings.TrimSuffix(strings.Repeat("{a: 0},", values), ",") + "]}\n"
	}
	limits := Options{Limits: manifest.Limits{Rendered: 4 << 20}}
	for name, fsys := range map[string]fstest.MapFS{
		"plain":     tree("m/a.yaml", widget("a", 3000), "m/b.yaml", widget("b", 12_000)),
		"kustomize": tree("m/kustomization.yaml", "resources: [a.yaml, b.yaml]\n", "m/a.yaml", widget("a", 3000), "m/b.yaml", widget("b", 12_000)),
	} {
		t.Run(name, func(t *testing.T) {
			const want = "m/b.yaml:1: the declared objects take more than 4 MiB of memory, and this one takes"
			if _, got := problemsOf(fsys, "m", limits); !strings.HasPrefix(got, "stalled LimitExceeded") || !strings.Contains(got, want) {
				t.Errorf("got %.300s\nwant %s", got, want)
			}
			if d, got := problemsOf(fsys, "m", Options{}); d.Set.Len() != 2 {
				t.Errorf("with the default: %s", got)
			}
		})
	}
}
