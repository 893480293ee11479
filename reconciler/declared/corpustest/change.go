package corpustest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// files writes, rarely, what a kustomization reads from other files, some of which several of them
// share.
func (c *Corpus) files(b *strings.Builder, folder string) {
	if !c.in(3) {
		return
	}
	up := strings.Repeat("../", 1+strings.Count(folder, "/"))
	switch c.rand.IntN(8) {
	case 0:
		c.write(folder+"/value.txt", "%s\n", c.reference())
		fmt.Fprintf(b, "configMapGenerator:\n- {name: %s, files: [value.txt]}\n", c.name())
	case 1:
		c.write(folder+"/values.env", "k=%s\n", c.reference())
		fmt.Fprintf(b, "secretGenerator:\n- {name: %s, envs: [values.env]}\n", c.name())
	case 2:
		c.write("shared/patch.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: any}\ndata: {patched: %s}\n", c.reference())
		fmt.Fprintf(b, "patches:\n- {path: %sshared/patch.yaml, target: {kind: ConfigMap}}\n", up)
	case 3:
		c.write("shared/replacement.yaml", "source: {kind: ConfigMap, name: a}\ntargets: [{select: {kind: Deployment}, fieldPaths: [metadata.labels.app]}]\n")
		fmt.Fprintf(b, "replacements: [{path: %sshared/replacement.yaml}]\n", up)
	case 4:
		c.write("shared/labels.yaml", "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: l}\nlabels: {shared: %s}\nfieldSpecs: [{path: metadata/labels, create: true}]\n", c.reference())
		fmt.Fprintf(b, "transformers: [%sshared/labels.yaml]\n", up)
	case 5:
		c.write("base/kustomization.yaml", "resources: [base.yaml]\nlabels: [{pairs: {base: %s}}]\n", c.reference())
		c.write("base/base.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b%d}\n", c.rand.IntN(9))
		fmt.Fprintf(b, "bases: [%sbase]\n", up)
	case 6:
		// The key is none that YAML 1.1 reads as a boolean: of such an object kustomize ends the process where it
		// has to print it in an error.
		c.write(folder+"/patch.yaml", "- {op: add, path: /metadata/annotations, value: {z: %s}}\n", c.reference())
		b.WriteString("patchesJson6902:\n- {path: patch.yaml, target: {version: v1, kind: ConfigMap, name: a}}\n")
	case 7:
		c.write(folder+"/merge.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {merged: %s}\n", c.reference(), c.reference())
		b.WriteString("patchesStrategicMerge: [merge.yaml]\n")
	}
}

// Folder writes a folder of plain manifests and kustomizations.
func (c *Corpus) Folder(folder string) {
	for i := range 3 + c.rand.IntN(3) {
		c.write(fmt.Sprintf("%s/m%d.yaml", folder, i), "%s", c.manifests())
		c.Kustomization(fmt.Sprintf("%s/k%d", folder, i), i%2 == 0)
	}
}

// Change changes one of the files below a folder, or what these lead to.
func (c *Corpus) Change(folder string) {
	name := c.one(slices.Sorted(maps.Keys(c.Files))...)
	switch {
	case path.Base(name) == "kustomization.yaml" && strings.HasPrefix(name, folder+"/"):
		resources, _, _ := strings.Cut(string(c.Files[name].Data), "\n- ")
		for _, line := range strings.Split(string(c.Files[name].Data), "\n")[1:] {
			if !strings.HasPrefix(line, "- f") && !strings.HasPrefix(line, "- d") {
				break
			}
			resources += "\n" + line
		}
		var b strings.Builder
		b.WriteString(resources + "\n")
		c.transformations(&b, path.Dir(name), c.in(2))
		c.write(name, "%s", b.String())
	case c.in(12):
		delete(c.Files, name)
	case c.in(12):
		c.write(fmt.Sprintf("%s/new%d.yaml", folder, c.rand.IntN(9)), "%s", c.manifests())
	case strings.HasPrefix(path.Base(name), "f") || strings.HasPrefix(path.Base(name), "m"):
		c.write(name, "%s", c.manifests())
	default:
		c.Files[name].Data = []byte(strings.Replace(string(c.Files[name].Data), c.one("a", "n"), c.one("b", "x"), 1))
	}
}
