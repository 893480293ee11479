package render

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render/fullbuild"
	"github.com/poolwright/poolwright/reconciler/declared/render/namereference"
	"github.com/poolwright/poolwright/reconciler/declared/render/treefs"
	"github.com/poolwright/poolwright/reconciler/state"
)

// What kustomize does for one object depends in a few ways only on the others: it compares each
// with all others, which takes most of its time, and it follows names from one to another. A
// large kustomization without anything else that goes from object to object is therefore
// rendered in groups of its resources, one after the other, and what comes of it is used
// only where it is proven that no name led from group to group (see package namereference). Everything
// else, and whatever fails, is rendered as a whole.
//
// groupObjects is how many objects a group has at least, but for the last: with fewer, reading
// the kustomizations above takes longer than comparing.
const groupObjects = 40

// renderGroup is, by kustomization, the part of it that is rendered together.
type renderGroup map[*kustomization]*groupPart

// groupPart is what remains of a kustomization in a group.
type groupPart struct {
	// resources are entries of it, patches those of its patches that name no target.
	resources, patches []*yaml.Node
	// generators reports whether what it generates is made in this group.
	generators bool
}

// groups splits a kustomization; nil where it is rendered as a whole.
func (s *survey) groups(k *kustomization) []renderGroup {
	if !s.separable(k) {
		return nil
	}
	found := s.resourceGroups(k)
	if len(found) < 2 {
		return nil
	}
	last := &found[len(found)-1]
	last.renderGroup[k].generators = true
	last.written = append(last.written, generated(k)...)
	if !s.assignPatches(k, found) {
		return nil
	}
	out := make([]renderGroup, len(found))
	for i, g := range found {
		out[i] = g.renderGroup
	}
	return out
}

// candidateGroup is a group, and the objects that are written in its files.
type candidateGroup struct {
	renderGroup
	written []candidate
}

func (s *survey) resourceGroups(k *kustomization) []candidateGroup {
	var out []candidateGroup
	var p *groupPart
	var written []candidate
	count := 0
	end := func() {
		if p != nil {
			out = append(out, candidateGroup{renderGroup{k: p}, written})
		}
		p, written, count = nil, nil, 0
	}
	for _, e := range entries(k.doc.Node, "resources") {
		name, err := s.tree.WithoutLinks(path.Join(k.folder, manifest.Text(e)))
		if err != nil {
			return nil
		}
		child, objects := s.inFolder(name), s.cost[name].objects+s.resources[name].objects
		if child != nil && objects > s.perGroup {
			if inner := s.groups(child); inner != nil {
				end()
				for _, g := range inner {
					g[k] = &groupPart{resources: []*yaml.Node{e}}
					out = append(out, candidateGroup{g, s.writtenIn(g, child)})
				}
				continue
			}
		}
		if p == nil {
			p = &groupPart{}
		}
		p.resources = append(p.resources, e)
		written = append(written, s.writtenBelow(name)...)
		if count += objects; count >= s.perGroup {
			end()
		}
	}
	end()
	return out
}

// inFolder is the kustomization of a folder; nil for a file.
func (s *survey) inFolder(name string) *kustomization {
	if s.folders == nil {
		s.folders = map[string]*kustomization{}
		for _, k := range s.kustomizations {
			s.folders[k.folder] = k
		}
	}
	return s.folders[name]
}

// writtenIn are the objects that are written in the files of a group.
func (s *survey) writtenIn(g renderGroup, k *kustomization) []candidate {
	var out []candidate
	if g[k].generators {
		out = generated(k)
	}
	for _, e := range g[k].resources {
		name, err := s.tree.WithoutLinks(path.Join(k.folder, manifest.Text(e)))
		if err != nil {
			continue
		}
		if child := s.inFolder(name); child != nil && g[child] != nil {
			out = append(out, s.writtenIn(g, child)...)
			continue
		}
		out = append(out, s.writtenBelow(name)...)
	}
	return out
}

// writtenBelow are the objects that are written in a file, or in those that the kustomization
// of a folder leads to.
func (s *survey) writtenBelow(name string) []candidate {
	var out []candidate
	for _, d := range s.documents[name] {
		out = append(out, candidates(d)...)
	}
	k := s.inFolder(name)
	if k == nil {
		return out
	}
	out = append(out, generated(k)...)
	for _, field := range []string{"resources", "bases", "components"} {
		for _, e := range entries(k.doc.Node, field) {
			if below, err := s.tree.WithoutLinks(path.Join(k.folder, manifest.Text(e))); err == nil {
				out = append(out, s.writtenBelow(below)...)
			}
		}
	}
	return out
}

// generated are the objects that a kustomization generates.
func generated(k *kustomization) []candidate {
	var out []candidate
	for _, g := range k.spec.ConfigMapGenerator {
		out = append(out, candidate{kind: "ConfigMap", name: g.Name})
	}
	for _, g := range k.spec.SecretGenerator {
		out = append(out, candidate{kind: "Secret", name: g.Name})
	}
	return out
}

// assignPatches gives each patch without a target to the one group that has its object; false
// where that is not known. Kustomize searches by the names that an object has, and had: each
// of them contains the one that is written.
func (s *survey) assignPatches(k *kustomization, groups []candidateGroup) bool {
	for i, e := range entries(k.doc.Node, "patches") {
		if i >= len(k.spec.Patches) || len(entries(k.doc.Node, "patches")) != len(k.spec.Patches) {
			return false
		}
		if k.spec.Patches[i].Target != nil {
			continue
		}
		docs := s.patchDocuments[e]
		if len(docs) != 1 {
			return false
		}
		kind := manifest.Text(manifest.Child(docs[0].Node, "kind"))
		name := manifest.Text(manifest.Child(manifest.Child(docs[0].Node, "metadata"), "name"))
		var owner renderGroup
		for _, g := range groups {
			if slices.ContainsFunc(g.written, func(c candidate) bool { return c.kind == kind && strings.Contains(name, c.name) }) {
				if owner != nil {
					return false
				}
				owner = g.renderGroup
			}
		}
		if owner == nil || kind == "" || name == "" {
			return false
		}
		owner[k].patches = append(owner[k].patches, e)
	}
	return true
}

// separable reports whether all that a kustomization does with its resources it does with each
// of them alone.
func (s *survey) separable(k *kustomization) bool {
	spec := k.spec
	for _, g := range spec.ConfigMapGenerator {
		if g.Behavior != "" {
			return false
		}
	}
	for _, g := range spec.SecretGenerator {
		if g.Behavior != "" {
			return false
		}
	}
	spec.Bases, spec.Components, spec.Replicas, spec.ImageTags = nil, nil, nil, nil //nolint:staticcheck // deprecated fields stand in the files of users
	spec.PatchesStrategicMerge, spec.PatchesJson6902 = nil, nil                     //nolint:staticcheck // deprecated fields stand in the files of users
	return reflect.DeepEqual(spec, k.spec) && spec.Kind != types.ComponentKind && !aliased(k.doc.Node)
}

// content is the kustomization as a group has it.
func (p *groupPart) content(k *kustomization) *yaml.Node {
	root := *k.doc.Node
	root.Content = nil
	for i := 0; i+1 < len(k.doc.Node.Content); i += 2 {
		key, value := k.doc.Node.Content[i], k.doc.Node.Content[i+1]
		list := *value
		switch key.Value {
		case "resources":
			list.Content, value = p.resources, &list
		case "patches":
			list.Content, value = nil, &list
			for at, e := range k.doc.Node.Content[i+1].Content {
				if k.spec.Patches[at].Target != nil || slices.Contains(p.patches, e) {
					list.Content = append(list.Content, e)
				}
			}
		case "configMapGenerator", "secretGenerator":
			if !p.generators {
				continue
			}
		}
		root.Content = append(root.Content, key, value)
	}
	return &root
}

// replacedFiles are the kustomizations of a group, by file. Origin annotations are turned on where
// the objects need them.
func (g renderGroup) replacedFiles(root *kustomization, origins bool) (map[string][]byte, error) {
	out := map[string][]byte{}
	for k, p := range g {
		node := p.content(k)
		if k == root && origins {
			node = withOrigins(k, node)
		}
		content, err := yaml.Marshal(node)
		if err != nil {
			return nil, err
		}
		out[k.file] = content
	}
	return out, nil
}

// render gives the objects of the root kustomization in kustomize's order, of whose origins the
// file alone is known; an empty one where its origin annotation has that.
func (s *survey) render(folder string, objects int, give func(manifest.Object) error) error {
	if found := s.inGroups(folder, objects); found != nil {
		for _, o := range slices.Concat(found...) {
			if err := give(o); err != nil {
				return err
			}
		}
		return nil
	}
	content, err := yaml.Marshal(withOrigins(s.root, s.root.doc.Node))
	if err != nil {
		return err
	}
	files := &treefs.FileSystem{Tree: s.tree, Replaced: map[string][]byte{s.root.file: content}}
	return build(func() error {
		return runKustomize(files, folder, func(value map[string]any) error { return give(manifest.Object{Item: state.Item{Object: value}}) })
	})
}

// inGroups renders the root kustomization in groups; nil where that is not known to give what
// kustomize makes of it as a whole.
func (s *survey) inGroups(folder string, objects int) [][]manifest.Object {
	if s.fullBuild || s.fieldsRequireFullBuild() || objects <= s.perGroup {
		return nil
	}
	groups := s.groups(s.root)
	if groups == nil {
		return nil
	}
	out := make([][]manifest.Object, len(groups))
	count := 0
	for i, g := range groups {
		var ok bool
		if out[i], ok = s.group(folder, g); !ok {
			return nil
		}
		count += len(out[i])
	}
	// An object that a patch removes could have been the same as another until then.
	if count != objects || s.changes().Found(valuesOf(out)) {
		return nil
	}
	s.grouped = true
	return out
}

func valuesOf(groups [][]manifest.Object) [][]map[string]any {
	out := make([][]map[string]any, len(groups))
	for i, g := range groups {
		for _, o := range g {
			out[i] = append(out[i], o.Object)
		}
	}
	return out
}

// group renders a group; false where kustomize refuses it, since its errors are those of the whole,
// where they are worded for that.
func (s *survey) group(folder string, g renderGroup) ([]manifest.Object, bool) {
	if written, ok := s.inOrder(g); ok {
		if found, ok := s.renderGroup(folder, g, false); ok && matches(found, written) {
			for i := range found {
				found[i].Origin.File = written[i].file
			}
			return found, true
		}
	}
	return s.renderGroup(folder, g, true)
}

func (s *survey) renderGroup(folder string, g renderGroup, origins bool) (out []manifest.Object, ok bool) {
	replaced, err := g.replacedFiles(s.root, origins)
	if err != nil {
		return nil, false
	}
	files := &treefs.FileSystem{Tree: s.tree, Replaced: replaced}
	err = build(func() error {
		return runKustomize(files, folder, func(value map[string]any) error {
			out = append(out, manifest.Object{Item: state.Item{Object: value}})
			return nil
		})
	})
	return out, err == nil
}

// fieldsRequireFullBuild reports whether the fields of any kustomization do.
func (s *survey) fieldsRequireFullBuild() bool {
	for _, k := range s.kustomizations {
		if fullbuild.Required(k.spec) {
			return true
		}
	}
	return false
}

// changes are what kustomizations do to names and namespaces.
func (s *survey) changes() namereference.Changes {
	var c namereference.Changes
	for _, k := range s.kustomizations {
		if k.spec.NamePrefix != "" {
			c.Prefixes = append(c.Prefixes, k.spec.NamePrefix)
		}
		if k.spec.NameSuffix != "" {
			c.Suffixes = append(c.Suffixes, k.spec.NameSuffix)
		}
		c.Hashes = c.Hashes || len(k.spec.ConfigMapGenerator)+len(k.spec.SecretGenerator) > 0
		patches := len(k.spec.Patches) + len(k.spec.PatchesJson6902) + len(k.spec.PatchesStrategicMerge) //nolint:staticcheck // deprecated fields stand in the files of users
		c.Recorded = c.Recorded || k.spec.Namespace != "" || patches > 0
	}
	return c
}
