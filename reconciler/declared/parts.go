package declared

import (
	"encoding/json"
	"io/fs"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/part"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/state"
)

// renderer renders the parts of a tree that are not kept.
type renderer struct {
	tree  *manifest.Tree
	fs    fs.FS
	parts *part.Parts
}

// renderedPart is the content of a part.
type renderedPart struct {
	Objects []manifest.Object `json:"objects"`
	manifest.Usage
}

// Names of parts begin with what they are made from.
const (
	ofKustomization = "kustomization:"
	ofFile          = "file:"
)

// kustomization is [render.Run] of a folder.
func (r renderer) kustomization(folder string) (render.Result, error) {
	return r.part(ofKustomization+folder, func(tree *manifest.Tree) (render.Result, error) { return render.Run(tree, folder) })
}

// part is what a part of the tree comes to: what was kept of it, or what do makes of it. Only what
// has no problem is kept, since the line of a problem need not be that of a read.
func (r renderer) part(name string, do func(*manifest.Tree) (render.Result, error)) (render.Result, error) {
	if r.parts == nil {
		return do(r.tree)
	}
	if content, ok := r.parts.Find(name); ok {
		return r.decode(content)
	}
	recorder := part.Record(r.fs)
	tree := r.tree.Part(recorder.FS())
	found, err := do(tree)
	if err != nil || len(found.Problems) > 0 {
		return found, err
	}
	content, err := encodePart(found, tree.Usage())
	if err != nil {
		return found, nil // It cannot be kept, which only costs time.
	}
	r.parts.Make(part.Part{Name: name, Reads: recorder.Reads(), Content: content})
	return found, nil
}

func encodePart(of render.Result, usage manifest.Usage) ([]byte, error) {
	out := renderedPart{Objects: slices.Clone(of.Objects), Usage: usage}
	for i, o := range out.Objects {
		out.Objects[i].Value, _ = state.Fractional(o.Value).(map[string]any)
	}
	return json.Marshal(out)
}

// decode counts what it decodes, as if it had been read.
func (r renderer) decode(content []byte) (render.Result, error) {
	var found renderedPart
	if err := utiljson.Unmarshal(content, &found); err != nil {
		return render.Result{}, err
	}
	if err := r.tree.Count(found.Usage); err != nil {
		return render.Result{}, err
	}
	if limit := r.tree.Limits().Objects; len(found.Objects) > limit {
		return render.Result{}, manifest.Exceeded("more than %d objects are declared", limit)
	}
	for _, o := range found.Objects {
		if err := r.tree.Declares(o); err != nil {
			return render.Result{}, err
		}
	}
	return render.Result{Objects: found.Objects}, nil
}
