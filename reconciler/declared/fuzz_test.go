package declared

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// fuzzLimits keep one hostile input cheap.
func fuzzLimits() Options {
	return Options{Limits: manifest.Limits{FileBytes: 64 << 10, TotalBytes: 256 << 10, Objects: 200, Nodes: 5000}}
}

// holds fails when what was loaded breaks a promise of Load.
func holds(t *testing.T, d Declared, err error) {
	t.Helper()
	if err != nil {
		if d.Set.Len() > 0 || len(d.Problems) > 0 {
			t.Error("an error came with a result")
		}
		if class, reason, _ := state.Classify(err); class != state.Stalled {
			t.Errorf("class %s, reason %s: %v", class, reason, err)
		}
		return
	}
	if d.Set.Len() == 0 && len(d.Problems) == 0 {
		t.Error("nothing was declared, and nothing is wrong with that")
	}
	for _, p := range d.Problems {
		if p.Origin.File == "" || p.Message == "" {
			t.Errorf("a problem without a place or a text: %+v", p)
		}
	}
	for _, i := range d.Set.Items() {
		if i.Key.Kind == "" || i.Key.Name == "" || i.Version == "" || i.Origin.File == "" {
			t.Errorf("an incomplete item: %+v", i)
		}
		if err := canonical(i.Object); err != nil {
			t.Errorf("%s: %v", i.Key, err)
		}
		if _, err := json.Marshal(i.Object); err != nil {
			t.Errorf("%s: %v", i.Key, err)
		}
	}
}

func canonical(v any) error {
	switch v := v.(type) {
	case nil, string, bool, int64, float64:
		return nil
	case map[string]any:
		for _, e := range v {
			if err := canonical(e); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for _, e := range v {
			if err := canonical(e); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%T is not canonical", v)
}

func FuzzPlainManifests(f *testing.F) {
	for _, s := range []string{
		pool, pool + "---\n" + pool, "a: &a [*a]", "a: &a {b: *a}\n", "{{ x }}", "- a\n- b", "kind: List\napiVersion: v1\nitems: [1, {}]\n",
		"a: 1e400", "a: .nan", "a: 0x1F", "a: 1_000", "? [a]\n: b", "<<: {a: b}\nc: d", "a: !!binary AAAA", "a: 2020-01-01", "a: !!python/x y",
		"--- a\n--- b\n", "...\n---\n", "\xef\xbb\xbfa: b", "a: |\n  ---\n  b", "%YAML 1.1\n---\na: b", "a: \"\\ud800\"", "a: b\x00c",
		"apiVersion: v1\nkind: X\nmetadata: {name: x, labels: [a], annotations: {a: 1}, namespace: 7}\n",
	} {
		f.Add(s)
	}
	f.Add(oldClass + "---\n" + oldNodePool + "---\n" + oldPod)
	f.Add("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: gpu}\nspec: {provider: {instanceProfile: p, subnetSelector: {a: b}, securityGroupSelector: {a: \"b,c\"}}}\n")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := tree("x/a.yaml", content)
		d, err := Load(fsys, "x", fuzzLimits())
		holds(t, d, err)
		again, _ := Load(fsys, "x", fuzzLimits())
		if !reflect.DeepEqual(d.Problems, again.Problems) || !reflect.DeepEqual(d.Set, again.Set) {
			t.Error("a second load gives something else")
		}
	})
}

func FuzzKustomization(f *testing.F) {
	for _, s := range []string{
		"resources: [a.yaml]", "resources: [a.yaml, ../b]\nnamePrefix: x-\n", "resources: [a.yaml]\npatches:\n- path: p.yaml\n",
		"resources: [a.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: |\n    - {op: add, path: /spec/x, value: 1}\n",
		"resources: [a.yaml]\nreplacements:\n- source: {kind: NodePool}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.x.[a=b].c], options: {create: true}}]\n",
		"resources: [a.yaml]\nvars: [{name: X, objref: {kind: NodePool, name: gpu, apiVersion: karpenter.sh/v1}}]\n",
		"configMapGenerator: [{name: a, literals: [a=b], files: [p.yaml]}]\ngeneratorOptions: {labels: {a: b}}\n",
		"components: [../b]\nlabels: [{pairs: {a: b}, includeSelectors: true, fields: [{path: spec/x, create: true}]}]\n",
		"resources: [a.yaml]\ntransformers:\n- |\n  apiVersion: builtin\n  kind: NamespaceTransformer\n  metadata: {name: x, namespace: y}\n",
		"resources: [a.yaml]\nopenapi: {path: p.yaml}\ncrds: [p.yaml]\nconfigurations: [p.yaml]\n", "resources: [a.yaml]\nreplicas: [{name: gpu, count: 3}]\nimages: [{name: x, newTag: y}]\n",
		"sortOptions: {order: fifo}\nbuildMetadata: [managedByLabel, originAnnotations, transformerAnnotations]\nresources: [a.yaml]\n",
	} {
		f.Add(s, pool, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {weight: 3}\n")
	}
	f.Fuzz(func(t *testing.T, kustomization, resource, patch string) {
		d, err := Load(tree("x/kustomization.yaml", kustomization, "x/a.yaml", resource, "x/p.yaml", patch,
			"b/kustomization.yaml", "resources: [c.yaml]", "b/c.yaml", pool), "x", fuzzLimits())
		holds(t, d, err)
	})
}
