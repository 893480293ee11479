package fullbuild

import (
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

func document(t *testing.T, text string) manifest.Document {
	t.Helper()
	node := &yaml.Node{}
	if err := yaml.Unmarshal([]byte(text), node); err != nil {
		t.Fatal(err)
	}
	return manifest.Document{Node: node.Content[0]}
}

func TestAKustomizationIsBuiltAsAWholeWhereAFieldLeadsFromOneObjectToOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		spec types.Kustomization
		want bool
	}{
		"resources alone do not":                {types.Kustomization{Resources: []string{"a.yaml"}}, false},
		"the header does not":                   {types.Kustomization{TypeMeta: types.TypeMeta{Kind: types.KustomizationKind}}, false},
		"names and namespaces do not":           {types.Kustomization{NamePrefix: "a-", Namespace: "b"}, false},
		"a patch does not":                      {types.Kustomization{Patches: []types.Patch{{Path: "p.yaml"}}}, false},
		"a patch that may change names does":    {types.Kustomization{Patches: []types.Patch{{Path: "p.yaml", Options: &types.PatchArgs{AllowNameChange: true}}}}, true},
		"labels do not":                         {types.Kustomization{Labels: []types.Label{{Pairs: map[string]string{"a": "b"}}}}, false},
		"labels in any field do":                {types.Kustomization{Labels: []types.Label{{FieldSpecs: []types.FieldSpec{{Path: "metadata/name"}}}}}, true},
		"replacements do":                       {types.Kustomization{Replacements: []types.ReplacementField{{Path: "r.yaml"}}}, true},
		"variables do":                          {types.Kustomization{Vars: []types.Var{{Name: "A"}}}, true}, //nolint:staticcheck // deprecated fields stand in the files of users
		"a field that has no line here does it": {types.Kustomization{Transformers: []string{"t.yaml"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Required(tt.spec); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestAPatchOfAnIdentityRequiresTheWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		patch string
		want  bool
	}{
		"a strategic merge patch does not":        {"{kind: ConfigMap, metadata: {name: a}}", false},
		"a value does not":                        {"[{op: replace, path: /spec/replicas, value: 2}]", false},
		"a label does not":                        {"[{op: add, path: /metadata/labels/a, value: b}]", false},
		"the name does":                           {"[{op: replace, path: /metadata/name, value: b}]", true},
		"the namespace does":                      {"[{op: replace, path: /metadata/namespace, value: b}]", true},
		"the whole of the metadata does":          {"[{op: replace, path: /metadata, value: {}}]", true},
		"the kind does":                           {"[{op: replace, path: /kind, value: Secret}]", true},
		"the root does":                           {"[{op: replace, path: \"\", value: {}}]", true},
		"a name that is copied does":              {"[{op: copy, from: /metadata/name, path: /data/a}]", true},
		"an operation without a path does":        {"[{op: remove}]", true},
		"a source that is no text does":           {"[{op: copy, from: 1, path: /data/a}]", true},
		"the second of two operations counts too": {"[{op: remove, path: /data/a}, {op: remove, path: /metadata/name}]", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RequiredByPatch(document(t, tt.patch)); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhatControlsKustomizeIsDetected(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"an object does not":                     {"{kind: ConfigMap, metadata: {name: a}}", false},
		"the header of a kustomization does not": {"{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}", false},
		"an annotation does":                     {"{metadata: {annotations: {internal.config.kubernetes.io/previousNames: a}}}", true},
		"a value deep inside does":               {"{a: [{b: config.k8s.io/id}]}", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RequiredByDocuments([]manifest.Document{document(t, "{}"), document(t, tt.text)}); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if !PatchesAnnotations(document(t, "[{op: copy, from: /metadata/annotations/a, path: /data/a}]")) || PatchesAnnotations(document(t, "[{op: remove, path: /data/a}]")) {
		t.Error("a patch of annotations and one of data are not distinguished")
	}
}
