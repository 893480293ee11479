package conversion

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/canonical"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
	"github.com/poolwright/poolwright/reconciler/state"
)

// keptAnnotation is where Karpenter 1.0 kept a pool's kubelet settings.
const keptAnnotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"

// kubeletOf are a pool's kubelet settings, wherever its version has them.
func kubeletOf(o *object) *yaml.Node {
	for _, field := range []string{"spec.template.spec.kubelet", "spec.kubeletConfiguration", "spec.kubelet"} {
		if n := yamlnode.Get(o.node, field); n != nil {
			return n
		}
	}
	return keptKubelet(o)
}

// keptKubelet is the annotation of Karpenter 1.0.
func keptKubelet(o *object) *yaml.Node {
	annotations := yamlnode.Get(o.node, "metadata.annotations")
	if i := yamlnode.Index(annotations, keptAnnotation); i >= 0 {
		return annotations.Content[i+1]
	}
	return nil
}

// classOf is the class that a pool names, or the nearest of those with the name,
// and whether there is any.
func (r *converter) classOf(pool *object, name string) (*object, bool) {
	class, one := r.nearest(pool.file, r.named(name))
	return class, class != nil && one
}

// named are the classes of a name.
func (r *converter) named(name string) []*object {
	var out []*object
	for _, o := range r.called(name) {
		if o.class() {
			out = append(out, o)
		}
	}
	return out
}

// className is the name of a pool's class, before and after its convert.
func className(o *object) string {
	if n := yamlnode.Get(o.node, "spec.template.spec.nodeClassRef.name"); n != nil {
		return yamlnode.Text(n)
	}
	if n := yamlnode.Get(o.node, "spec.providerRef.name"); n != nil {
		return yamlnode.Text(n)
	}
	return o.name()
}

// checkKubelet blocks a pool whose kubelet settings have no class to go to.
func (r *converter) checkKubelet(o *object) {
	if kept := keptKubelet(o); kept != nil && !json.Valid([]byte(yamlnode.Text(kept))) {
		r.block(o, "metadata.annotations", "annotation %s holds no JSON; move what it means to spec.kubelet of the EC2NodeClass and remove it", keptAnnotation)
		return
	}
	if !yamlnode.Absent(yamlnode.Get(o.node, "spec.provider")) {
		return // its class is made of that
	}
	name := className(o)
	switch class, one := r.classOf(o, name); {
	case class == nil:
		r.block(o, "spec", "the pool's kubelet settings belong to EC2NodeClass %s, which is not here; convert both together, or write them to its spec.kubelet and remove them here", name)
	case !one:
		r.block(o, "spec", "the pool's kubelet settings belong to EC2NodeClass %s, of which there are several, none nearer than the others; convert one cluster's folder at a time", name)
	case class.blocked:
		r.block(o, "spec", "the pool's kubelet settings belong to EC2NodeClass %s, which could not be converted", name)
	}
}

// unfold turns what Karpenter 1.0 kept in an annotation into settings again.
func (r *converter) unfold(o *object) {
	kept := keptKubelet(o)
	if kept == nil {
		return
	}
	annotations := yamlnode.Get(o.node, "metadata.annotations")
	yamlnode.RemoveEntry(annotations, keptAnnotation)
	if len(annotations.Content) == 0 {
		yamlnode.Remove(o.node, "metadata.annotations")
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(yamlnode.Text(kept)), &n); err == nil && len(n.Content) == 1 && n.Content[0].Kind == yaml.MappingNode {
		template := yamlnode.Ensure(o.node, "spec.template.spec", -1)
		yamlnode.RemoveEntry(template, "kubelet")
		yamlnode.Set(template, "kubelet", unstyled(n.Content[0]))
	}
}

// unstyled is a node as YAML would be written by hand.
func unstyled(n *yaml.Node) *yaml.Node {
	c := yamlnode.CopyWithoutComments(n)
	c.Style = 0
	for i := range c.Content {
		c.Content[i] = unstyled(c.Content[i])
	}
	return c
}

// kubeletSettings is what one pool sets for its kubelets.
type kubeletSettings struct {
	pool     *object
	settings string // canonical; empty for none
}

// moveKubelets moves the kubelet settings of pools, to which they belonged, to their classes.
// Pools that share a class and disagree need a class each: it stays as it is for those that set
// nothing, or takes what the first of them by name sets, and copies with other names stand
// beside it for the others.
func (r *converter) moveKubelets(pools, classes []*object) {
	wants := map[*object][]kubeletSettings{}
	for _, o := range pools {
		r.respell(o)
		if class, one := r.classOf(o, className(o)); one && !class.blocked {
			wants[class] = append(wants[class], kubeletSettings{o, canonical.JSON(yamlnode.Get(o.node, "spec.template.spec.kubelet"))})
		}
	}
	for _, class := range classes {
		if any := slices.ContainsFunc(wants[class], func(w kubeletSettings) bool { return yamlnode.Get(w.pool.node, "spec.template.spec.kubelet") != nil }); any {
			r.spellOut(class)
			r.kubeletOf(class, wants[class])
		}
	}
}

// respell drops the one kubelet setting that is gone, and quotes quantities: a pool
// could write numbers, and a class takes texts alone.
func (r *converter) respell(o *object) {
	kubelet := yamlnode.Get(o.node, "spec.template.spec.kubelet")
	for _, field := range []string{"systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod"} {
		m := yamlnode.Get(kubelet, field)
		if m == nil || m.Kind != yaml.MappingNode {
			continue
		}
		for i := 1; i < len(m.Content); i += 2 {
			if n := m.Content[i]; n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") {
				n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
			}
		}
	}
	if k, _, _ := yamlnode.RemoveEntry(kubelet, "containerRuntime"); k != nil {
		r.reportAt(o, Lossless, k.Line, "kubelet containerRuntime is dropped: containerd is the only one")
	}
	if kubelet != nil && yamlnode.Absent(kubelet) {
		yamlnode.Remove(o.node, "spec.template.spec.kubelet")
	}
}

// kubeletOf gives the pools of one class what they set.
func (r *converter) kubeletOf(class *object, wants []kubeletSettings) {
	// By name, so that the loop, which has no order of files, decides the same.
	slices.SortStableFunc(wants, func(a, b kubeletSettings) int { return strings.Compare(a.pool.name(), b.pool.name()) })
	base := canonical.JSON(yamlnode.Get(class.node, "spec.kubelet"))
	for i := range wants {
		if wants[i].settings == "" {
			wants[i].settings = base // a pool that sets nothing takes what the class has
		}
	}
	stays := base
	if base == "" && !slices.ContainsFunc(wants, func(w kubeletSettings) bool { return w.settings == "" }) {
		stays = wants[0].settings
	}
	made := map[string]*object{stays: class}
	original := yamlnode.Get(class.node, "spec.kubelet")
	for _, w := range wants {
		template := yamlnode.Get(w.pool.node, "spec.template.spec")
		if yamlnode.Index(template, "kubelet") < 0 {
			continue
		}
		line := yamlnode.LineOf(template, "kubelet")
		target := made[w.settings]
		if target == nil {
			if target = r.split(class, w, original); target == nil {
				continue
			}
			made[w.settings] = target
		}
		k, v, _ := yamlnode.RemoveEntry(template, "kubelet")
		if target == class {
			r.reportAt(w.pool, Lossless, line, "kubelet settings are spec.kubelet of EC2NodeClass %s now", class.name())
		} else {
			r.reportAt(w.pool, Lossless, line, "kubelet settings are spec.kubelet of EC2NodeClass %s now, a copy of %s for the pools with these settings", target.name(), class.name())
			yamlnode.Get(template, "nodeClassRef.name").Value = target.name()
		}
		spec := yamlnode.Get(target.node, "spec")
		if i := yamlnode.Index(spec, "kubelet"); i < 0 {
			yamlnode.Put(spec, -1, k, v)
		} else {
			r.book.Keep(spec.Content[i], k, v)
		}
	}
}

// maxCopied is how many values the copies of classes may hold together, so that a
// small repository does not become one that no memory holds.
const maxCopied = 500_000

// values counts a node and all within it.
func values(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += values(c)
	}
	return count
}

// split makes a copy of a class for kubelet settings that it does not have, or
// finds the one that an earlier convert made.
func (r *converter) split(class *object, w kubeletSettings, original *yaml.Node) *object {
	name := class.name() + "-" + state.Hash(w.settings)[:8]
	if there, _ := r.nearest(class.file, r.named(name)); there != nil && r.together(there.file, class.file) {
		if canonical.JSON(yamlnode.Get(there.node, "spec.kubelet")) == w.settings {
			return there
		}
		r.block(w.pool, "", "its kubelet settings need a copy of EC2NodeClass %s, and there is another %s already; rename that", class.name(), name)
		return nil
	}
	if class.page != nil && class.page.JSON() && class.items == nil {
		r.block(w.pool, "", "its kubelet settings need a copy of EC2NodeClass %s, for which there is no room in the JSON file %s; turn it into YAML first", class.name(), class.file)
		return nil
	}
	if r.copied += values(class.node); r.copied > maxCopied {
		r.block(w.pool, "", "its kubelet settings need one more copy of EC2NodeClass %s, and the copies hold more than %d values already; let pools share their kubelet settings", class.name(), maxCopied)
		return nil
	}
	r.report(class, Lossless, "metadata.name", "pools that share the class have other kubelet settings; its copy %s is for those", name)
	node := r.book.Copy(class.node)
	for _, key := range []string{"metadata", "spec"} {
		yamlnode.Set(node, key, r.book.Copy(yamlnode.Get(node, key)))
	}
	yamlnode.Set(yamlnode.Get(node, "metadata"), "name", yamlnode.Scalar(name))
	spec := yamlnode.Get(node, "spec")
	if original != nil || yamlnode.Index(spec, "kubelet") >= 0 {
		yamlnode.RemoveEntry(spec, "kubelet")
	}
	copied := r.beside(class, node)
	r.identify(copied)
	copied.rules = nil
	return copied
}
