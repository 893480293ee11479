package render

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/corpustest"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

var (
	corpusSeed = flag.Uint64("corpus.seed", 0, "which random kustomizations are compared; 0 is another one each time")
	corpusSize = flag.Int("corpus.size", 250, "how many random kustomizations are compared")
)

// TestGroupsRenderToWhatKustomizeMakesOfTheWhole compares random kustomizations, in groups of few
// objects, with what kustomize alone makes of them. Names are few, so that references, equal
// names and prefixes meet.
func TestGroupsRenderToWhatKustomizeMakesOfTheWhole(t *testing.T) {
	seed := *corpusSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-corpus.seed=%d", seed)
	grouped, rendered, moved := 0, 0, 0
	for i := range *corpusSize {
		c := corpustest.New(seed, uint64(i))
		c.Kustomization("root", i%2 == 0)
		want, wantProblems, wantErr := inGroupsOf(c.Files, 1<<30).run("root")
		parts := inGroupsOf(c.Files, 1+i%3)
		got, problems, err := parts.run("root")
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("case %d: got error %v, want %v\n%s", i, err, wantErr, c)
		}
		// Which of several errors kustomize reports differs from run to run.
		if len(wantProblems) == 1 && len(problems) == 1 && strings.HasPrefix(wantProblems[0].Message, "kustomize: ") {
			wantProblems = problems
		}
		if d := cmp.Diff(want, got) + cmp.Diff(wantProblems, problems); d != "" {
			t.Fatalf("case %d of -corpus.seed=%d: groups render to something else:\n%s\n%s", i, seed, d, c)
		}
		if len(want) > 0 {
			rendered++
		}
		if parts.grouped {
			grouped++
			if parts.changes().Moves() {
				moved++
			}
		}
	}
	t.Logf("%d of %d render, %d in groups, %d of them with names that change", rendered, *corpusSize, grouped, moved)
	if rendered < *corpusSize/4 || grouped < *corpusSize/40 || moved == 0 {
		t.Error("too few were compared")
	}
}

// TestWhatLeadsFromGroupToGroupIsRenderedAsAWhole has an example for each way that is known.
func TestWhatLeadsFromGroupToGroupIsRenderedAsAWhole(t *testing.T) {
	const (
		configMap      = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {l: %s}}\n"
		deployment     = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {volumes: [{name: v, configMap: {name: a}}]}}}\n"
		serviceAccount = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"
		binding        = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: r}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: a}]\n"
		noNamespace    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s, labels: {l: %s}}\n"
	)
	one, two := fmt.Sprintf(configMap, "one"), fmt.Sprintf(configMap, "two")
	for name, c := range map[string]struct {
		kustomization string
		files         []string
		// grouped is true where the groups give what the whole does.
		grouped bool
		// fails is true where kustomize refuses it.
		fails bool
	}{
		"nothing does":                          {"labels:\n- pairs: {x: v}\n", []string{one, deployment}, true, false},
		"a name that is referred to, and kept":  {"namespace: x\n", []string{one, deployment}, true, false},
		"a prefix":                              {"namePrefix: p-\n", []string{one, deployment}, false, false},
		"a suffix":                              {"nameSuffix: -s\n", []string{one, deployment}, false, false},
		"the hash of a generated object":        {"configMapGenerator:\n- {name: a, literals: [k=v]}\n", []string{serviceAccount, deployment}, false, false},
		"a JSON patch of a name":                {"patches:\n- {target: {kind: ConfigMap}, patch: '[{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"b\"}]'}\n", []string{one, deployment}, false, false},
		"a JSON patch of a name, badly written": {"patches:\n- {target: {kind: ConfigMap}, patch: '[{\"op\": \"replace\", \"path\": \"x/metadata/name\", \"value\": \"b\"}]'}\n", []string{one, deployment}, false, false},
		"a JSON patch of all metadata":          {"patches:\n- {target: {kind: ConfigMap}, patch: '[{\"op\": \"replace\", \"path\": \"/metadata\", \"value\": {\"name\": \"b\"}}]'}\n", []string{one, deployment}, false, false},
		"a patch that may change names":         {"patches:\n- {target: {kind: ConfigMap}, options: {allowNameChange: true}, patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}'}\n", []string{one, deployment}, false, false},
		"labels that are put into metadata":     {"namePrefix: p-\nlabels:\n- {pairs: {name: b}, fields: [{path: metadata, kind: ConfigMap}]}\n", []string{one, deployment}, false, false},
		"an annotation of former names": {"labels:\n- pairs: {x: v}\n", []string{
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  annotations: {internal.config.kubernetes.io/previousNames: a, internal.config.kubernetes.io/previousNamespaces: default, internal.config.kubernetes.io/previousKinds: ConfigMap}\n", deployment}, false, false},
		"an annotation that requests a hash": {"labels:\n- pairs: {x: v}\n", []string{
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {kustomize.config.k8s.io/needs-hash: enabled}}\n", deployment}, false, false},
		"the namespace of a subject":                       {"namespace: x\n", []string{serviceAccount, binding}, false, false},
		"an order":                                         {"sortOptions: {order: legacy}\n", []string{deployment, one}, false, false},
		"a replacement":                                    {"replacements:\n- {source: {kind: ConfigMap}, targets: [{select: {kind: Deployment}, fieldPaths: [metadata.name]}]}\n", []string{one, deployment}, false, false},
		"an object of two files":                           {"labels:\n- pairs: {x: v}\n", []string{one, two}, false, true},
		"an object of two namespaces that are one":         {"namespace: x\n", []string{fmt.Sprintf(noNamespace, "w", "one"), fmt.Sprintf(noNamespace, "z", "two")}, false, true},
		"an object of two files, one of them patched away": {"patches:\n- {target: {labelSelector: l=two}, patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, $patch: delete}'}\n", []string{one, two}, false, true},
		"a patch of one object":                            {"patches:\n- {patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}'}\n", []string{one, serviceAccount}, true, false},
		"a patch of one of two objects":                    {"patches:\n- {patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}'}\n", []string{one, strings.Replace(one, "{name: a", "{name: a, namespace: x", 1)}, false, false},
		"a patch of no object":                             {"patches:\n- {patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: none}, data: {k: v}}'}\n", []string{one, serviceAccount}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			resources := "resources:\n"
			for i, content := range c.files {
				// In folders of their own: what is written twice in one is refused before.
				files[fmt.Sprintf("d%d/kustomization.yaml", i)] = &fstest.MapFile{Data: []byte("resources: [f.yaml]\n")}
				files[fmt.Sprintf("d%d/f.yaml", i)] = &fstest.MapFile{Data: []byte(content)}
				resources += fmt.Sprintf("- ../d%d\n", i)
			}
			files["root/kustomization.yaml"] = &fstest.MapFile{Data: []byte(resources + c.kustomization)}
			want, wantProblems, wantErr := inGroupsOf(files, 1<<30).run("root")
			parts := inGroupsOf(files, 1)
			got, problems, err := parts.run("root")
			if err != nil || wantErr != nil {
				t.Fatal(err, wantErr)
			}
			if c.fails != (len(wantProblems) > 0) {
				t.Errorf("kustomize refuses it: %v", wantProblems)
			}
			if parts.grouped != c.grouped {
				t.Errorf("rendered in groups: %v, want %v", parts.grouped, c.grouped)
			}
			if d := cmp.Diff(want, got) + cmp.Diff(wantProblems, problems); d != "" {
				t.Error(d)
			}
		})
	}
}

func inGroupsOf(files fstest.MapFS, objects int) *survey {
	s := newSurvey(manifest.NewTree(files, manifest.Limits{}))
	s.perGroup = objects
	return s
}
