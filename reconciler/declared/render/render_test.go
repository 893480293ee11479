package render

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

func TestABuildThatPanicsIsAnErrorAndTheNextOneRuns(t *testing.T) {
	for range 2 {
		err := build(func() error { panic("boom") })
		if err == nil || !strings.Contains(err.Error(), "boom") {
			t.Fatalf("got %v", err)
		}
	}
}

func TestMessagesOfKustomizeHoldNoSecrets(t *testing.T) {
	const secret = "hunter2-s3cret"
	for name, files := range map[string]map[string]string{
		"a literal without a value": {"kustomization.yaml": "secretGenerator:\n- name: x\n  literals: [" + secret + "]\n"},
		"a generator with a fault":  {"kustomization.yaml": "secretGenerator:\n- name: x\n  behavior: merge\n  literals: [password=" + secret + "]\n"},
		"a patch that is none":      {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- patch: |\n    password " + secret + "\n"},
		"a patch without a target":  {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- patch: |\n    - {op: replace, path: /stringData/password, value: " + secret + "}\n"},
		"a patch and a path":        {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- path: s.yaml\n  patch: \"" + secret + "\"\n"},
		"a patch of nothing":        {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: Secret\n    metadata: {name: other}\n    stringData: {password: " + secret + "}\n"},
		"an index out of bounds":    {"kustomization.yaml": "resources: [s.yaml]\nreplacements:\n- source: {kind: Secret, fieldPath: stringData.password, options: {delimiter: x, index: 9}}\n  targets: [{select: {kind: Secret}, fieldPaths: [stringData.other], options: {create: true}}]\n"},
		"an env file of bytes":      {"kustomization.yaml": "secretGenerator:\n- name: x\n  envs: [e]\n", "e": secret + "\xff=\n"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{"s.yaml": {Data: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: " + secret + "}\n")}}
			for name, content := range files {
				fsys[name] = &fstest.MapFile{Data: []byte(content)}
			}
			objects, problems, err := Run(manifest.NewTree(fsys, manifest.Limits{}), ".")
			if err != nil || len(problems) == 0 {
				t.Fatalf("%d objects, %v: not a problem", len(objects), err)
			}
			for _, p := range problems {
				if strings.Contains(p.String(), secret) || strings.Contains(p.String(), "104 117") || strings.Contains(p.String(), "0x") {
					t.Errorf("the secret is in: %s", p)
				}
				t.Log(p)
			}
		})
	}
}

func TestAReplacementIsMeasuredWhereNoFileHoldsAnObject(t *testing.T) {
	kustomization := "configMapGenerator:\n- {name: x, literals: [a=b]}\nreplacements:\n- source: {kind: ConfigMap, fieldPath: data.a}\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.b], options: {create: true}}]\n"
	objects, problems, err := Run(manifest.NewTree(fstest.MapFS{"kustomization.yaml": {Data: []byte(kustomization)}}, manifest.Limits{}), ".")
	if err != nil || len(problems) > 0 || len(objects) != 1 {
		t.Errorf("%d objects, %v, %v", len(objects), problems, err)
	}
}
