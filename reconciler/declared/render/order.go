package render

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// Kustomize records the origin of each object in an annotation, which it reads and writes again at
// each transformation, a quarter of its time. It also keeps the order in which objects are written, so
// that a group of nothing but files needs no annotations: which object is from which file is known
// by counting. Where kinds or names do not fit to that order the group is rendered with them.

// writtenObject is an object as it is written, and the file.
type writtenObject struct {
	candidate
	file string
}

// inOrder are the objects that are written in a group's files, in kustomize's order; false where
// that is not known, or annotations would be another without that of the origin.
func (s *survey) inOrder(g renderGroup) ([]writtenObject, bool) {
	for k, p := range g {
		if len(k.spec.BuildMetadata) > 0 || p.generators && len(k.spec.ConfigMapGenerator)+len(k.spec.SecretGenerator) > 0 {
			return nil, false
		}
	}
	if s.annotationPatched {
		return nil, false
	}
	return s.inOrderBelow(g, s.root)
}

func (s *survey) inOrderBelow(g renderGroup, k *kustomization) (out []writtenObject, ok bool) {
	for _, e := range g[k].resources {
		name, err := s.tree.Real(path.Join(k.folder, manifest.Text(e)))
		if err != nil {
			return nil, false
		}
		child := s.inFolder(name)
		switch {
		case child != nil && g[child] == nil:
			return nil, false
		case child != nil:
			below, ok := s.inOrderBelow(g, child)
			if !ok {
				return nil, false
			}
			out = append(out, below...)
			continue
		}
		for _, d := range s.documents[name] {
			if !plainAnnotations(d) {
				return nil, false
			}
			out = append(out, writtenObject{documentCandidate(d), name})
		}
	}
	return out, true
}

// plainAnnotations reports a document of one object whose annotations stay as they are when
// another is added and taken off again: none at all, or a map of texts.
func plainAnnotations(d manifest.Document) bool {
	if d.Node.Kind != yaml.MappingNode || strings.HasSuffix(manifest.Text(manifest.Child(d.Node, "kind")), "List") {
		return false
	}
	metadata := manifest.Child(d.Node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode || aliased(metadata) {
		return false
	}
	annotations := manifest.Child(metadata, "annotations")
	if annotations == nil {
		return true
	}
	return annotations.Kind == yaml.MappingNode && len(annotations.Content) > 0 &&
		!slices.ContainsFunc(annotations.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" })
}

// matches reports whether rendered objects are those that were written, in that order.
func matches(found []rendered, written []writtenObject) bool {
	if len(found) != len(written) {
		return false
	}
	for i, o := range found {
		kind, _ := o.value["kind"].(string)
		metadata, _ := o.value["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		if kind != written[i].kind || !strings.Contains(name, written[i].name) {
			return false
		}
	}
	return true
}
