package declared

import (
	"io/fs"
	"path"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/state"
)

// manifestWalker collects the objects of plain manifests.
type manifestWalker struct {
	renderer
	found render.Result
	files int
}

func renderManifests(parts renderer, folder string) (render.Result, error) {
	w := &manifestWalker{renderer: parts}
	if err := w.folder(folder, 0); err != nil {
		return render.Result{}, err
	}
	return w.found, nil
}

func (w *manifestWalker) problem(file, message string) {
	w.found.Problems = append(w.found.Problems, state.Problem{Origin: state.Origin{File: file}, Message: message})
}

func (w *manifestWalker) folder(folder string, depth int) error {
	limits := w.tree.Limits()
	if depth > limits.Depth {
		return manifest.Exceeded("folder %s is nested deeper than %d", folder, limits.Depth)
	}
	if depth > 0 {
		if rendered, err := w.below(folder); rendered || err != nil {
			return err
		}
	}
	entries, err := w.tree.List(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.files++; w.files > limits.Files {
			return manifest.Exceeded("there are more than %d files", limits.Files)
		}
		name := path.Join(folder, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := w.entry(name, e, depth); err != nil {
			return err
		}
	}
	return nil
}

// below renders a folder below that has a kustomization of its own.
func (w *manifestWalker) below(folder string) (bool, error) {
	file, err := render.File(w.tree, folder)
	if w.tree.Err() != nil {
		return false, w.tree.Err()
	}
	if err == nil && file == "" {
		return false, nil
	}
	r, err := w.kustomization(folder)
	if err != nil {
		return false, err
	}
	return true, w.add(r)
}

func (w *manifestWalker) add(r render.Result) error {
	w.found.Objects = append(w.found.Objects, r.Objects...)
	w.found.Problems = append(w.found.Problems, r.Problems...)
	return w.count()
}

func (w *manifestWalker) count() error {
	if limit := w.tree.Limits().Objects; len(w.found.Objects) > limit {
		return manifest.Exceeded("more than %d objects are declared", limit)
	}
	return nil
}

func (w *manifestWalker) entry(name string, e fs.DirEntry, depth int) error {
	switch {
	case e.IsDir():
		return w.folder(name, depth+1)
	case e.Type()&fs.ModeSymlink != 0:
		return w.link(name)
	case manifest.IsManifest(name):
		return w.file(name)
	case e.Type().IsRegular():
		return nil
	}
	// A submodule or the like: what it would hold is unknown, so that its
	// objects must not be taken for removed.
	if _, err := w.tree.Read(name); err != nil {
		if w.tree.Err() != nil {
			return w.tree.Err()
		}
		w.found.Problems = append(w.found.Problems, unreadable(name, err))
	}
	return nil
}

// link reads through a symbolic link to a file. Links to folders are not
// followed: a folder would be declared twice, or without end.
func (w *manifestWalker) link(name string) error {
	info, err := w.tree.Stat(name)
	switch {
	case w.tree.Err() != nil:
		return w.tree.Err()
	case err != nil:
		w.problem(name, "this symbolic link cannot be followed: "+err.Error())
		return nil
	case info.IsDir():
		w.problem(name, "this symbolic link leads to a folder, which plain manifests do not follow; use a kustomization, or move the folder here")
		return nil
	case manifest.IsManifest(name):
		return w.file(name)
	}
	return nil
}

func (w *manifestWalker) file(name string) error {
	r, err := w.part(ofFile+name, func(tree *manifest.Tree) (render.Result, error) { return manifests(tree, name) })
	if err != nil {
		return err
	}
	return w.add(r)
}

// manifests are the objects of a file.
func manifests(tree *manifest.Tree, name string) (found render.Result, err error) {
	content, err := tree.Read(name)
	if tree.Err() != nil {
		return found, tree.Err()
	}
	if err != nil {
		found.Problems = append(found.Problems, unreadable(name, err))
		return found, nil
	}
	docs, problems, err := tree.Parse(name, content)
	if err != nil {
		return found, err
	}
	found.Problems = append(found.Problems, problems...)
	for _, d := range docs {
		objects, problems := d.Objects()
		for _, o := range objects {
			if err := tree.Declares(o); err != nil {
				return found, err
			}
		}
		found.Objects = append(found.Objects, objects...)
		found.Problems = append(found.Problems, problems...)
	}
	return found, nil
}

func unreadable(name string, err error) state.Problem {
	return state.Problem{Origin: state.Origin{File: name}, Message: "this cannot be read: " + err.Error()}
}
