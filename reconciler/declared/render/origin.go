package render

import (
	"path"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// originAnnotation is where kustomize writes the file that an object comes
// from.
const originAnnotation = "config.kubernetes.io/origin"

// origin reads an object's annotation and finds its line. Objects whose
// annotation a patch removed, and those that the root itself generates, point
// to the root kustomization.
func (s *survey) origin(folder string, o map[string]any) state.Origin {
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[originAnnotation].(string)
	var written struct {
		Path         string `json:"path"`
		ConfiguredIn string `json:"configuredIn"`
	}
	if sigsyaml.Unmarshal([]byte(text), &written) != nil {
		written.Path = ""
	}
	given := written.Path
	if given == "" {
		given = written.ConfiguredIn
	}
	if given == "" {
		return s.root.doc.Origin()
	}
	file, err := s.tree.Real(path.Join(folder, given))
	if err != nil {
		return s.root.doc.Origin()
	}
	kind, _ := o["kind"].(string)
	name, _ := meta["name"].(string)
	return state.Origin{File: file, Line: s.line(file, kind, name)}
}

// line finds the document that an object was written in: the one of its kind
// and name or, as kustomize may have put something around the name, of its
// kind and the longest name within it.
func (s *survey) line(file, kind, name string) int {
	docs := s.documents[file]
	best, length := 0, -1
	for _, d := range docs {
		for _, c := range candidates(d) {
			if c.kind != kind {
				continue
			}
			if c.name == name {
				return c.line
			}
			if strings.Contains(name, c.name) && len(c.name) > length {
				best, length = c.line, len(c.name)
			}
		}
	}
	if best == 0 && len(docs) == 1 {
		return docs[0].Line
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
	return append(out, candidate{
		kind: manifest.Text(manifest.Child(d.Node, "kind")),
		name: manifest.Text(manifest.Child(manifest.Child(d.Node, "metadata"), "name")), line: d.Line,
	})
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
