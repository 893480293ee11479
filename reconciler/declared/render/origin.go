package render

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// originAnnotation is where kustomize writes the file that an object comes
// from.
const originAnnotation = "config.kubernetes.io/origin"

// origin reads an object's annotation and finds its line. An object whose
// annotation a patch removed is searched for in every file; one that is nowhere points
// to the root kustomization.
func (s *survey) origin(folder string, o manifest.Object) state.Origin {
	meta, _ := o.Object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[originAnnotation].(string)
	kind, _ := o.Object["kind"].(string)
	name, _ := meta["name"].(string)
	if file := o.Origin.File; file != "" {
		line, _ := s.line(file, kind, name)
		return state.Origin{File: file, Line: line}
	}
	var written struct {
		Path         string `json:"path"`
		ConfiguredIn string `json:"configuredIn"`
	}
	if sigsyaml.Unmarshal([]byte(text), &written) == nil {
		if file, err := s.tree.WithoutLinks(path.Join(folder, written.Path)); err == nil && written.Path != "" {
			line, _ := s.line(file, kind, name)
			return state.Origin{File: file, Line: line}
		}
		if file, err := s.tree.WithoutLinks(path.Join(folder, written.ConfiguredIn)); err == nil && written.ConfiguredIn != "" {
			// kustomize also writes this on objects whose annotation a patch
			// removed: only a generator's entry proves it right.
			if line := s.generatorLine(file, kind, name); line > 0 {
				return state.Origin{File: file, Line: line}
			}
		}
	}
	best, length := s.root.doc.Origin(), 0
	for _, file := range slices.Sorted(maps.Keys(s.documents)) {
		if line, n := s.line(file, kind, name); n > length {
			best, length = state.Origin{File: file, Line: line}, n
		}
	}
	return best
}

// line finds the document that an object was written in: the one of its kind
// and name or, as kustomize may have put something around the name, of its
// kind and the longest name within it. It also returns how long that name is; an equal
// name counts for more than any part.
func (s *survey) line(file, kind, name string) (line, length int) {
	docs := s.documents[file]
	for _, c := range s.candidates(file) {
		if c.kind != kind {
			continue
		}
		if c.name == name {
			return c.line, len(c.name) + 1
		}
		if strings.Contains(name, c.name) && len(c.name) > length {
			line, length = c.line, len(c.name)
		}
	}
	if line == 0 && len(docs) == 1 {
		line = docs[0].Line
	}
	return line, length
}

// candidates are those of all documents of a file.
func (s *survey) candidates(file string) []candidate {
	out, known := s.candidatesOf[file]
	if !known {
		for _, d := range s.documents[file] {
			out = append(out, candidates(d)...)
		}
		s.candidatesOf[file] = out
	}
	return out
}

// generatorLine finds the entry that generated a config map or secret.
func (s *survey) generatorLine(file, kind, name string) int {
	k := s.kustomizations[file]
	if k == nil {
		return 0
	}
	field := map[string]string{"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"}[kind]
	best, length := 0, -1
	for _, e := range entries(k.doc.Node, field) {
		if n := manifest.Text(manifest.Child(e, "name")); strings.Contains(name, n) && len(n) > length {
			best, length = e.Line, len(n)
		}
	}
	return best
}

type candidate struct {
	kind, name string
	line       int
}

func candidates(d manifest.Document) []candidate {
	var out []candidate
	nodes := manifest.Items(manifest.Child(d.Node, "items"))
	for _, n := range nodes {
		out = append(out, candidate{
			kind: manifest.Text(manifest.Child(n, "kind")),
			name: manifest.Text(manifest.Child(manifest.Child(n, "metadata"), "name")), line: n.Line,
		})
	}
	return append(out, documentCandidate(d))
}

func documentCandidate(d manifest.Document) candidate {
	return candidate{
		kind: manifest.Text(manifest.Child(d.Node, "kind")),
		name: manifest.Text(manifest.Child(manifest.Child(d.Node, "metadata"), "name")), line: d.Line,
	}
}

// stripOrigin takes the annotation off again, and annotations that hold
// nothing else.
func stripOrigin(o map[string]any) {
	meta, _ := o["metadata"].(map[string]any)
	annotations, ok := meta["annotations"].(map[string]any)
	if !ok {
		return
	}
	delete(annotations, originAnnotation)
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
}

// writtenObject is an object as it is written, and the file.
type writtenObject struct {
	candidate
	file string
}

// inOrder are the objects that are written in a group's files, in kustomize's order; false where
// that is not known, or annotations would be others without that of the origin. Kustomize reads and
// writes that annotation at each transformation, which takes a quarter of its time, and keeps the
// order of the files: from which one an object is, is known by counting.
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
		name, err := s.tree.WithoutLinks(path.Join(k.folder, manifest.Text(e)))
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
			if !keepsAnnotations(d) {
				return nil, false
			}
			out = append(out, writtenObject{documentCandidate(d), name})
		}
	}
	return out, true
}

// keepsAnnotations reports a document of one object whose annotations stay as they are when
// another is added and taken off again: none at all, or a map of texts.
func keepsAnnotations(d manifest.Document) bool {
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
func matches(found []manifest.Object, written []writtenObject) bool {
	if len(found) != len(written) {
		return false
	}
	for i, o := range found {
		kind, _ := o.Object["kind"].(string)
		metadata, _ := o.Object["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		if kind != written[i].kind || !strings.Contains(name, written[i].name) {
			return false
		}
	}
	return true
}
