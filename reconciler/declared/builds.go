package declared

import (
	"encoding/json"
	"io/fs"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/state"
)

// renderer renders the builds of a tree that are not kept.
type renderer struct {
	tree   *manifest.Tree
	fs     fs.FS
	builds *buildcache.Builds
}

// renderedBuild is the content of a build.
type renderedBuild struct {
	Objects []manifest.Object `json:"objects"`
	manifest.Usage
}

// renderFunc renders a build of a tree: its objects, or the user's problems.
type renderFunc func(*manifest.Tree) ([]manifest.Object, []state.Problem, error)

// Names of builds begin with what they are made from.
const (
	ofKustomization = "kustomization:"
	ofFile          = "file:"
)

// kustomization is [render.Run] of a folder.
func (r renderer) kustomization(folder string) ([]manifest.Object, []state.Problem, error) {
	return r.build(ofKustomization+folder, func(tree *manifest.Tree) ([]manifest.Object, []state.Problem, error) { return render.Run(tree, folder) })
}

// build is what a build of the tree comes to: what was kept of it, or what do makes of it. Only what
// has no problem is kept, since the line of a problem need not be that of a read.
func (r renderer) build(name string, do renderFunc) ([]manifest.Object, []state.Problem, error) {
	if r.builds == nil {
		return do(r.tree)
	}
	if content, ok := r.builds.Find(name); ok {
		objects, err := r.decode(content)
		return objects, nil, err
	}
	recorder := buildcache.Record(r.fs)
	tree := r.tree.Part(recorder.FS())
	objects, problems, err := do(tree)
	if err != nil || len(problems) > 0 {
		return objects, problems, err
	}
	content, err := encodeBuild(objects, tree.Usage())
	if err != nil {
		return objects, nil, nil // It cannot be kept, which only costs time.
	}
	r.builds.Make(buildcache.Build{Name: name, Reads: recorder.Reads(), Content: content})
	return objects, nil, nil
}

func encodeBuild(objects []manifest.Object, usage manifest.Usage) ([]byte, error) {
	out := renderedBuild{Objects: slices.Clone(objects), Usage: usage}
	for i, o := range out.Objects {
		out.Objects[i].Object, _ = state.Fractional(o.Object).(map[string]any)
	}
	return json.Marshal(out)
}

// decode counts what it decodes, as if it had been read.
func (r renderer) decode(content []byte) ([]manifest.Object, error) {
	var found renderedBuild
	if err := manifest.Unmarshal(content, &found); err != nil {
		return nil, err
	}
	if err := r.tree.Count(found.Usage); err != nil {
		return nil, err
	}
	if limit := r.tree.Limits().Objects; len(found.Objects) > limit {
		return nil, manifest.LimitError("more than %d objects are declared", limit)
	}
	for _, o := range found.Objects {
		if err := r.tree.CountObject(o); err != nil {
			return nil, err
		}
	}
	return found.Objects, nil
}
