package conversion

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/table"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
	"github.com/poolwright/poolwright/reconciler/state"
)

// isKustomization reports whether a file is one by its name.
func isKustomization(name string) bool {
	switch path.Base(name) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}

// kustomization finds patches of old kinds. Those that are files of their own are
// recorded, to be converted as what they are: parts of objects.
func (f *files) kustomization(p *page) {
	for _, d := range p.docs {
		for _, field := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
			patches := yamlnode.Get(d.Node, field)
			if patches == nil || patches.Kind != yaml.SequenceNode {
				continue
			}
			for _, n := range patches.Content {
				f.collectPatch(p, n)
			}
		}
	}
}

// collectPatch reads one patch of a kustomization.
func (f *files) collectPatch(p *page, n *yaml.Node) {
	file, inline := yamlnode.Text(yamlnode.Get(n, "path")), yamlnode.Get(n, "patch")
	if n.Kind == yaml.ScalarNode && !strings.Contains(n.Value, "\n") {
		file = n.Value
	} else if n.Kind == yaml.ScalarNode {
		inline = n
	}
	if file != "" {
		f.patches[path.Join(path.Dir(p.name), file)] = true
	}
	target := yamlnode.Get(n, "target")
	warn := func(n *yaml.Node, what string) {
		f.run.changes = append(f.run.changes, Change{
			Origin: state.Origin{File: p.name, Line: n.Line}, Grade: Manual, Blocks: true, Text: what + "; write it for NodePool or EC2NodeClass of v1, with the fields where v1 has them",
		})
	}
	switch kind, version := yamlnode.Text(yamlnode.Get(target, "kind")), yamlnode.Text(yamlnode.Get(target, "version")); {
	case kind == "Provisioner", kind == "AWSNodeTemplate",
		(kind == "NodePool" || kind == "EC2NodeClass") && version != "" && version != "v1":
		warn(target, strings.TrimSpace("a patch is aimed at "+kind+" "+version))
	case inline != nil && f.old([]byte(inline.Value)):
		warn(inline, "a patch within the kustomization is one of an old API of Karpenter")
	case inline != nil && (kind == "NodePool" || kind == "EC2NodeClass") && f.namesMovedField(inline.Value):
		warn(inline, "a patch within the kustomization names a field that v1 has elsewhere")
	}
}

// namesMovedField reports whether a JSON patch names a field that moved.
func (f *files) namesMovedField(text string) bool {
	return slices.ContainsFunc(f.run.table.Kinds, func(k table.KindRules) bool {
		return slices.ContainsFunc(k.Moves, func(m table.Move) bool {
			return strings.Contains(m.From, "disruption") && strings.Contains(text, "/"+strings.ReplaceAll(m.From, ".", "/"))
		})
	}) || strings.Contains(text, "/spec/template/spec/kubelet") || strings.Contains(text, "/spec/amiFamily")
}

// convertPatch converts a file that is merged into an object of an old API. What it
// does not set, the object sets: no default is written into it, and nothing that
// depends on the rest of the object is touched.
func (r *converter) convertPatch(o *object) {
	unsure := []string{"spec.template.spec.kubelet", "spec.amiFamily", "spec.amiSelectorTerms", "spec.subnetSelectorTerms", "spec.securityGroupSelectorTerms"}
	alpha := strings.Contains(o.rules.Old, "alpha")
	for _, field := range unsure {
		if yamlnode.Get(o.node, field) != nil {
			r.block(o, field, "a patch of %s depends on the object that it is merged into; write it for v1 by hand", field)
			return
		}
	}
	if alpha {
		r.block(o, "", "a patch of %s depends on the object that it is merged into; write it for %s by hand", o.rules.Old, o.rules.New)
		return
	}
	if r.shape(o); o.blocked {
		return
	}
	r.retitle(o)
	r.apply(o)
	if disruption := yamlnode.Get(o.node, "spec.disruption"); disruption != nil && yamlnode.Absent(disruption) {
		yamlnode.Remove(o.node, "spec.disruption")
	}
	if ref := yamlnode.Get(o.node, "spec.template.spec.nodeClassRef"); !yamlnode.Absent(ref) && yamlnode.Index(ref, "apiVersion") >= 0 {
		r.nodeClassRef(o)
	}
	if spec := yamlnode.Get(o.node, "spec"); spec != nil && yamlnode.Absent(spec) {
		yamlnode.Remove(o.node, "spec")
	}
}
