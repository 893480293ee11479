// Package corpustest writes random kustomizations, which tests render in several ways. Names in them
// are few, so that references, equal names and prefixes meet. Start reading at Corpus.
package corpustest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/fstest"
)

// Corpus writes random kustomizations.
type Corpus struct {
	rand *rand.Rand
	// Files are what was written.
	Files   fstest.MapFS
	objects int
}

// New makes an empty one, repeatable by its seeds.
func New(seed, of uint64) *Corpus {
	return &Corpus{rand: rand.New(rand.NewPCG(seed, of)), Files: fstest.MapFS{}}
}

// Kustomization writes one into a folder, and others below; one that keeps names changes none.
func (c *Corpus) Kustomization(folder string, keepsNames bool) {
	c.kustomization(folder, 0, keepsNames)
}

// String shows all files.
func (c *Corpus) String() string {
	var b strings.Builder
	for name, f := range c.Files {
		fmt.Fprintf(&b, "# %s\n%s\n", name, f.Data)
	}
	return b.String()
}

func (c *Corpus) one(of ...string) string { return of[c.rand.IntN(len(of))] }

func (c *Corpus) in(n int) bool { return c.rand.IntN(n) == 0 }

func (c *Corpus) write(name, format string, args ...any) {
	c.Files[name] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, args...))}
}

// name is mostly a new one, and sometimes one that others have.
func (c *Corpus) name() string {
	if c.in(12) {
		return c.one("a", "b", "p-a", "a-s")
	}
	c.objects++
	return fmt.Sprintf("n%d", c.objects)
}

// reference is a name that may be anywhere.
func (c *Corpus) reference() string {
	if c.in(2) {
		return c.one("a", "b", "p-a", "a-s", "none")
	}
	return fmt.Sprintf("n%d", 1+c.rand.IntN(c.objects+3))
}

func (c *Corpus) kustomization(folder string, depth int, keepsNames bool) {
	var b strings.Builder
	b.WriteString("resources:\n")
	for i := range 1 + c.rand.IntN(6) {
		if depth < 3 && c.in(3) {
			name := fmt.Sprintf("d%d", i)
			fmt.Fprintf(&b, "- %s\n", name)
			c.kustomization(folder+"/"+name, depth+1, keepsNames)
			continue
		}
		name := fmt.Sprintf("f%d.yaml", i)
		fmt.Fprintf(&b, "- %s\n", name)
		c.write(folder+"/"+name, "%s", c.manifests())
	}
	c.transformations(&b, folder, keepsNames)
	if depth == 0 && c.in(8) {
		b.WriteString(c.one("sortOptions: {order: legacy}\n", "buildMetadata: [originAnnotations]\n", "buildMetadata: [managedByLabel, transformerAnnotations]\n"))
	}
	c.write(folder+"/kustomization.yaml", "%s", b.String())
}

// transformations writes few of them, so that most render.
func (c *Corpus) transformations(b *strings.Builder, folder string, keepsNames bool) {
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
	add(rare, "images:\n- {name: app, newTag: \"%d\"}\n", c.rand.IntN(9))
	add(rare*3, "components: [%scomp]\n", strings.Repeat("../", 1+strings.Count(folder, "/")))
	c.write("comp/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {component: \"yes\"}\n")
	if !keepsNames {
		add(rare, "namePrefix: %s\n", c.one("p-", "q", "m"))
		add(rare, "nameSuffix: %s\n", c.one("-s", "x"))
		add(rare, "configMapGenerator:\n- {name: %s, literals: [k=%d]}\n", c.one("a", "b", c.name()), c.rand.IntN(9))
		add(rare, "secretGenerator:\n- {name: %s, literals: [k=%d]}\n", c.one("a", "b", c.name()), c.rand.IntN(9))
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
	c.files(b, folder)
}

func (c *Corpus) patches(b *strings.Builder) {
	if !c.in(3) {
		return
	}
	b.WriteString("patches:\n")
	for range 1 + c.rand.IntN(2) {
		kind := c.one("ConfigMap", "Deployment", "ServiceAccount", "RoleBinding")
		version := map[string]string{"ConfigMap": "v1", "Deployment": "apps/v1", "ServiceAccount": "v1", "RoleBinding": "rbac.authorization.k8s.io/v1"}[kind]
		annotations := fmt.Sprintf("metadata: {name: %s, annotations: {patched: %s}}", c.reference(), c.reference())
		switch c.rand.IntN(12) {
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

func (c *Corpus) manifests() string {
	var objects []string
	for range 1 + c.rand.IntN(3) {
		objects = append(objects, c.object())
	}
	return strings.Join(objects, "---\n")
}

func (c *Corpus) object() string {
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
	switch c.rand.IntN(9) {
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
