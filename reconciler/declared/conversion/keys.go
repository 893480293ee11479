package conversion

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// rename gives labels and annotations their new names, in whatever object they
// are used: as keys of mappings (labels, annotations, nodeSelector, matchLabels)
// and where key or topologyKey names one (affinity, requirements, spread).
func (r *converter) rename() {
	for _, o := range r.objects {
		if !o.blocked {
			w := keyRenamer{converter: r, object: o, visited: map[*yaml.Node]bool{}}
			w.walkNode(o.node, "")
		}
	}
}

type keyRenamer struct {
	converter *converter
	object    *object
	visited   map[*yaml.Node]bool
}

// node reads a node below a key.
func (w *keyRenamer) walkNode(n *yaml.Node, key string) {
	if w.visited[n] {
		return
	}
	w.visited[n] = true
	switch n.Kind {
	case yaml.MappingNode:
		w.toleration(n, key)
		w.keys(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			w.walkNode(n.Content[i+1], n.Content[i].Value)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			w.walkNode(item, key)
		}
	case yaml.ScalarNode:
		w.scalar(n, key)
	default: // an alias shows a node that is read where it stands
	}
}

// keys renames those of a mapping.
func (w *keyRenamer) keys(n *yaml.Node) {
	for _, renamed := range w.converter.table.Keys {
		i := yamlnode.Index(n, renamed.Old)
		if i < 0 {
			continue
		}
		line := n.Content[i].Line
		j := yamlnode.Index(n, renamed.New)
		if j < 0 {
			w.converter.reportAt(w.object, Lossless, line, "%s is %s now", renamed.Old, renamed.New)
			n.Content[i].Value = renamed.New
			continue
		}
		if yamlnode.Text(n.Content[i+1]) == yamlnode.Text(n.Content[j+1]) {
			w.converter.reportAt(w.object, Lossless, line, "%s is dropped beside %s, its new name", renamed.Old, renamed.New)
		} else {
			w.converter.requireReview(w.object, line, "%s is dropped beside %s, its new name", renamed.Old, renamed.New)
		}
		yamlnode.RemoveEntry(n, renamed.Old)
	}
	for _, gone := range w.converter.table.RemovedLabels {
		if i := yamlnode.Index(n, gone); i >= 0 {
			w.converter.reportAt(w.object, Manual, n.Content[i].Line, "no node carries %s any more; choose nodes by another label", gone)
		}
	}
}

// toleration follows the taint of nodes that are about to go, which lost its
// value with its name.
func (w *keyRenamer) toleration(n *yaml.Node, key string) {
	const old, now = "karpenter.sh/disruption", "karpenter.sh/disrupted"
	k := yamlnode.Get(n, "key")
	if key != "tolerations" || yamlnode.Text(k) != old {
		return
	}
	w.converter.reportAt(w.object, Lossless, k.Line, "toleration of %s is one of %s now", old, now)
	k.Value = now
	yamlnode.RemoveEntry(n, "value")
	if yamlnode.Text(yamlnode.Get(n, "operator")) == "Equal" {
		yamlnode.Get(n, "operator").Value = "Exists"
	} else if yamlnode.Absent(yamlnode.Get(n, "operator")) {
		yamlnode.Set(n, "operator", yamlnode.Scalar("Exists"))
	}
}

// scalar renames what a selector names, and warns of other mentions.
func (w *keyRenamer) scalar(n *yaml.Node, key string) {
	for _, renamed := range w.converter.table.Keys {
		switch {
		case n.Value == renamed.Old && (key == "key" || key == "topologyKey"):
			w.converter.reportAt(w.object, Lossless, n.Line, "%s is %s now", renamed.Old, renamed.New)
			n.Value = renamed.New
		case strings.Contains(n.Value, renamed.Old) && !w.object.is("", "Secret") && !w.object.is("apiextensions.k8s.io", "CustomResourceDefinition") && !w.old(key):
			w.converter.reportAt(w.object, Manual, n.Line, "a text mentions %s, which is %s now; change it where it is read", renamed.Old, renamed.New)
		}
	}
	if key == "key" && slices.Contains(w.converter.table.RemovedLabels, n.Value) {
		w.converter.reportAt(w.object, Manual, n.Line, "no node carries %s any more; choose nodes by another label", n.Value)
	}
}

// old reports a key under which kubectl keeps a copy of the object.
func (w *keyRenamer) old(key string) bool {
	return key == "kubectl.kubernetes.io/last-applied-configuration"
}

// reportManual reports what no conversion can do.
func (r *converter) reportManual() {
	for _, o := range r.objects {
		switch {
		case o.is("apiextensions.k8s.io", "CustomResourceDefinition"):
			r.definition(o)
		case o.is("", "ConfigMap") && o.name() == "karpenter-global-settings":
			r.report(o, Manual, "", "Karpenter no longer reads this ConfigMap; write what it sets to spec.engine of the Cluster, and remove it")
		case o.class() && !o.blocked:
			r.refused(o)
		}
	}
}

// definition warns of a CustomResourceDefinition of an API that is gone.
func (r *converter) definition(o *object) {
	switch o.name() {
	case "provisioners.karpenter.sh", "machines.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws":
		r.report(o, Manual, "", "this API is gone; remove the definition once no object of it is left in the cluster")
	case "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws":
		versions := yamlnode.Get(o.node, "spec.versions")
		if versions != nil && !slices.ContainsFunc(versions.Content, func(v *yaml.Node) bool { return yamlnode.Text(yamlnode.Get(v, "name")) == "v1" }) {
			r.report(o, Manual, "", "this definition has no v1; remove it: Poolwright installs the one of its Karpenter")
		}
	}
}

// lastAL2 is the last minor version of Kubernetes 1 for which AWS publishes
// images of Amazon Linux 2.
const lastAL2 = 32

// refused warns of AMIs that do not exist for the cluster's version.
func (r *converter) refused(o *object) {
	terms := yamlnode.Get(o.node, "spec.amiSelectorTerms")
	version := r.version(o)
	_, minor, _ := strings.Cut(version, ".")
	if m, err := strconv.Atoi(minor); err != nil || m <= lastAL2 || terms == nil || terms.Kind != yaml.SequenceNode {
		return
	}
	for _, t := range terms.Content {
		if alias := yamlnode.Get(t, "alias"); strings.HasPrefix(yamlnode.Text(alias), "al2@") {
			// One that a conversion made stands where its family was.
			r.reportAt(o, Manual, max(alias.Line, yamlnode.LineOf(o.node, "spec.amiSelectorTerms")), "%s", al2Advice(o, yamlnode.Text(alias), version))
		}
	}
}

// al2Advice mentions user data where there is any. It is the same for a class of an old
// API and for the one that a conversion makes of it, so that the commit of an convert
// brings no new warning.
func al2Advice(o *object, alias, version string) string {
	userData := ""
	if !yamlnode.Absent(yamlnode.Get(o.node, "spec.userData")) {
		userData = "; userData may stay a shell script on AL2023 where it does not call bootstrap.sh, and is TOML on Bottlerocket"
	}
	return "alias " + alias + " is refused at Kubernetes " + version + ": there are no images of Amazon Linux 2 from 1.33 on; choose al2023@latest or bottlerocket@latest" + userData
}

// version is the cluster's minor version, as far as it is known.
func (r *converter) version(o *object) string {
	if r.opts.KubernetesVersion != "" {
		return r.opts.KubernetesVersion
	}
	var clusters []*object
	for _, c := range r.objects {
		if c.is("poolwright.dev", "Cluster") {
			clusters = append(clusters, c)
		}
	}
	if c, one := r.nearest(o.file, clusters); one {
		return yamlnode.Text(yamlnode.Get(c.node, "spec.version"))
	}
	return ""
}
