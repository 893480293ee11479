package render

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		c := &corpus{Rand: rand.New(rand.NewPCG(seed, uint64(i))), files: fstest.MapFS{}} //nolint:gosec // Repeatable by its seed.
		c.kustomization("root", 0, i%2 == 0)
		want, wantErr := inGroupsOf(c.files, 1<<30).run("root")
		parts := inGroupsOf(c.files, 1+i%3)
		got, err := parts.run("root")
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("case %d: got error %v, want %v\n%s", i, err, wantErr, c)
		}
		// Which of several errors kustomize reports differs from run to run.
		if len(want.Problems) == 1 && len(got.Problems) == 1 && strings.HasPrefix(want.Problems[0].Message, "kustomize: ") {
			want.Problems = got.Problems
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("case %d of -corpus.seed=%d: groups render to something else:\n%s\n%s", i, seed, d, c)
		}
		if len(want.Objects) > 0 {
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
			want, wantErr := inGroupsOf(files, 1<<30).run("root")
			parts := inGroupsOf(files, 1)
			got, err := parts.run("root")
			if err != nil || wantErr != nil {
				t.Fatal(err, wantErr)
			}
			if c.fails != (len(want.Problems) > 0) {
				t.Errorf("kustomize refuses it: %v", want.Problems)
			}
			if parts.grouped != c.grouped {
				t.Errorf("rendered in groups: %v, want %v", parts.grouped, c.grouped)
			}
			if d := cmp.Diff(want, got); d != "" {
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

// corpus writes random kustomizations.
type corpus struct {
	*rand.Rand
	files   fstest.MapFS
	objects int
}

func (c *corpus) String() string {
	var b strings.Builder
	for name, f := range c.files {
		fmt.Fprintf(&b, "# %s\n%s\n", name, f.Data)
	}
	return b.String()
}

func (c *corpus) one(of ...string) string { return of[c.IntN(len(of))] }

func (c *corpus) in(n int) bool { return c.IntN(n) == 0 }

func (c *corpus) write(name, format string, args ...any) {
	c.files[name] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, args...))}
}

// name is mostly a new one, and sometimes one that others have.
func (c *corpus) name() string {
	if c.in(12) {
		return c.one("a", "b", "p-a", "a-s")
	}
	c.objects++
	return fmt.Sprintf("n%d", c.objects)
}

// reference is a name that may be anywhere.
func (c *corpus) reference() string {
	if c.in(2) {
		return c.one("a", "b", "p-a", "a-s", "none")
	}
	return fmt.Sprintf("n%d", 1+c.IntN(c.objects+3))
}

func (c *corpus) kustomization(folder string, depth int, quiet bool) {
	var b strings.Builder
	b.WriteString("resources:\n")
	for i := range 1 + c.IntN(6) {
		if depth < 3 && c.in(3) {
			name := fmt.Sprintf("d%d", i)
			fmt.Fprintf(&b, "- %s\n", name)
			c.kustomization(folder+"/"+name, depth+1, quiet)
			continue
		}
		name := fmt.Sprintf("f%d.yaml", i)
		fmt.Fprintf(&b, "- %s\n", name)
		var objects []string
		for range 1 + c.IntN(3) {
			objects = append(objects, c.object())
		}
		c.write(folder+"/"+name, "%s", strings.Join(objects, "---\n"))
	}
	c.transformations(&b, folder, quiet)
	if depth == 0 && c.in(8) {
		b.WriteString(c.one("sortOptions: {order: legacy}\n", "buildMetadata: [originAnnotations]\n", "buildMetadata: [managedByLabel, transformerAnnotations]\n"))
	}
	c.write(folder+"/kustomization.yaml", "%s", b.String())
}

// transformations writes few of them, so that most render; quiet ones change no name.
func (c *corpus) transformations(b *strings.Builder, folder string, quiet bool) {
	rare := 6
	add := func(n int, format string, args ...any) {
		if c.in(n) {
			fmt.Fprintf(b, format, args...)
		}
	}
	add(rare, "namespace: %s\n", c.one("x", "z"))
	add(rare, "commonLabels: {team: %s}\n", c.reference())
	add(rare*6, "labels:\n- pairs: {name: %s}\n  fields: [{path: metadata, kind: %s}]\n", c.reference(), c.one("Secret", "Deployment"))
	add(rare, "commonAnnotations: {note: %s}\n", c.reference())
	add(rare, "images:\n- {name: app, newTag: \"%d\"}\n", c.IntN(9))
	add(rare*3, "components: [%scomp]\n", strings.Repeat("../", 1+strings.Count(folder, "/")))
	c.write("comp/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {component: \"yes\"}\n")
	if !quiet {
		add(rare, "namePrefix: %s\n", c.one("p-", "q", "m"))
		add(rare, "nameSuffix: %s\n", c.one("-s", "x"))
		add(rare, "configMapGenerator:\n- {name: %s, literals: [k=%d]}\n", c.one("a", "b", c.name()), c.IntN(9))
		add(rare, "secretGenerator:\n- {name: %s, literals: [k=%d]}\n", c.one("a", "b", c.name()), c.IntN(9))
		add(rare, "generatorOptions: {disableNameSuffixHash: %v}\n", c.in(2))
		add(rare*4, "replicas:\n- {name: %s, count: 3}\n", c.reference())
		add(rare*4, "vars:\n- {name: V, objref: {apiVersion: v1, kind: ConfigMap, name: %s}}\n", c.reference())
		add(rare*4, "transformers:\n- |\n  apiVersion: builtin\n  kind: PrefixTransformer\n  metadata: {name: x}\n  prefix: t-\n  fieldSpecs: [{path: metadata/name}]\n")
		add(rare*4, "replacements:\n- source: {kind: ConfigMap, name: %s}\n  targets: [{select: {kind: Deployment}, fieldPaths: [metadata.labels.app]}]\n", c.reference())
		if c.in(rare * 4) {
			c.write(folder+"/names.yaml", "nameReference:\n- kind: ConfigMap\n  fieldSpecs: [{kind: NodePool, path: spec/ref}]\n")
			b.WriteString("configurations: [names.yaml]\n")
		}
	}
	c.patches(b)
}

func (c *corpus) patches(b *strings.Builder) {
	if !c.in(3) {
		return
	}
	b.WriteString("patches:\n")
	for range 1 + c.IntN(2) {
		kind := c.one("ConfigMap", "Deployment", "ServiceAccount", "RoleBinding")
		version := map[string]string{"ConfigMap": "v1", "Deployment": "apps/v1", "ServiceAccount": "v1", "RoleBinding": "rbac.authorization.k8s.io/v1"}[kind]
		annotations := fmt.Sprintf("metadata: {name: %s, annotations: {patched: %s}}", c.reference(), c.reference())
		switch c.IntN(12) {
		case 0, 1, 2, 3:
			fmt.Fprintf(b, "- target: {kind: %s}\n  patch: |\n    apiVersion: %s\n    kind: %s\n    %s\n", kind, version, kind, annotations)
		case 4, 5, 6:
			fmt.Fprintf(b, "- target: {kind: %s, name: %s}\n  patch: |\n    - {op: add, path: /metadata/annotations, value: {x: %s}}\n", kind, c.one("a", "b", "n.*", "n1.*"), c.reference())
		case 7, 8:
			fmt.Fprintf(b, "- patch: |\n    apiVersion: %s\n    kind: %s\n    %s\n", version, kind, annotations)
		case 9:
			fmt.Fprintf(b, "- target: {kind: %s}\n  patch: |\n    - {op: replace, path: /metadata/name, value: %s}\n", kind, c.reference())
		case 10:
			fmt.Fprintf(b, "- target: {kind: %s, name: %s}\n  patch: |\n    apiVersion: %s\n    kind: %s\n    metadata: {name: x}\n    $patch: delete\n", kind, c.reference(), version, kind)
		case 11:
			fmt.Fprintf(b, "- target: {kind: %s, name: %s}\n  options: {allowNameChange: true}\n  patch: |\n    apiVersion: %s\n    kind: %s\n    %s\n", kind, c.reference(), version, kind, annotations)
		}
	}
}

func (c *corpus) object() string {
	meta := "metadata:\n  name: " + c.name() + "\n"
	if c.in(2) {
		meta += "  namespace: " + c.one("x", "z", "default") + "\n"
	}
	if c.in(80) {
		meta += "  annotations:\n    " + c.one(
			"config.kubernetes.io/local-config: \"true\"",
			"kustomize.config.k8s.io/needs-hash: enabled",
			"internal.config.kubernetes.io/previousNames: a\n    internal.config.kubernetes.io/previousNamespaces: x\n    internal.config.kubernetes.io/previousKinds: ConfigMap") + "\n"
	}
	switch c.IntN(9) {
	case 0, 1:
		return "apiVersion: v1\nkind: ConfigMap\n" + meta + "data: {k: " + c.reference() + "}\n"
	case 2:
		return "apiVersion: v1\nkind: Secret\n" + meta
	case 3:
		return "apiVersion: v1\nkind: ServiceAccount\n" + meta + "secrets: [{name: " + c.reference() + "}]\n"
	case 4:
		return "apiVersion: apps/v1\nkind: Deployment\n" + meta + "spec:\n  template:\n    spec:\n      serviceAccountName: " + c.reference() + "\n      containers:\n      - {name: c, image: \"app:1\", envFrom: [{configMapRef: {name: " + c.reference() + "}}, {secretRef: {name: " + c.reference() + "}}]}\n"
	case 5:
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: " + c.one("RoleBinding", "ClusterRoleBinding") + "\n" + meta + "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + c.reference() + "}\nsubjects:\n- {kind: ServiceAccount, name: " + c.reference() + c.one("", ", namespace: x", ", namespace: default") + "}\n"
	case 6:
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" + meta + "rules:\n- {apiGroups: [\"\"], resources: [configmaps], verbs: [get], resourceNames: [" + c.reference() + ", " + c.reference() + "]}\n"
	case 7:
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n" + meta + "webhooks:\n- name: w.x.y\n  clientConfig: {service: {name: " + c.reference() + ", namespace: " + c.one("x", "default") + "}}\n"
	}
	return "apiVersion: " + c.one("v1\nkind: Service\n", "karpenter.sh/v1\nkind: NodePool\n") + meta + "spec: {ref: " + c.reference() + "}\n"
}
