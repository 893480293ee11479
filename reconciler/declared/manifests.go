package declared

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// manifestWalker collects the objects of plain manifests.
type manifestWalker struct {
	renderer
	// objects are those of each file and kustomization, count of them how many there are.
	objects  [][]manifest.Object
	count    int
	problems []state.Problem
	files    int
}

func renderManifests(r renderer, folder string) ([]manifest.Object, []state.Problem, error) {
	w := &manifestWalker{renderer: r}
	if err := w.folder(folder, 0); err != nil {
		return nil, nil, err
	}
	return slices.Concat(w.objects...), w.problems, nil
}

func (w *manifestWalker) problem(file string, f finding.Finding) {
	w.problems = append(w.problems, state.NewProblem(state.Origin{File: file}, f))
}

func (w *manifestWalker) folder(folder string, depth int) error {
	limits := w.tree.Limits()
	if depth > limits.Depth {
		return manifest.LimitError("folder %s is nested deeper than %d", folder, limits.Depth)
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
			return manifest.LimitError("there are more than %d files", limits.Files)
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
	file, err := render.KustomizationFile(w.tree, folder)
	if w.tree.Err() != nil {
		return false, w.tree.Err()
	}
	if err == nil && file == "" {
		return false, nil
	}
	objects, problems, err := w.kustomization(folder)
	if err != nil {
		return false, err
	}
	return true, w.add(objects, problems)
}

func (w *manifestWalker) add(objects []manifest.Object, problems []state.Problem) error {
	w.objects, w.problems = append(w.objects, objects), append(w.problems, problems...)
	w.count += len(objects)
	if limit := w.tree.Limits().Objects; w.count > limit {
		return manifest.LimitError("more than %d objects are declared", limit)
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
		w.problems = append(w.problems, unreadable(name, err))
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
		w.problem(name, finding.New(codeSymbolicLinkInvalid, "this symbolic link cannot be followed: %v", finding.NewFact("reason", err)))
		return nil
	case info.IsDir():
		w.problem(name, finding.New(codeSymbolicLinkInvalid, "this symbolic link leads to a folder, which plain manifests do not follow; use a kustomization, or move the folder here"))
		return nil
	case manifest.IsManifest(name):
		return w.file(name)
	}
	return nil
}

func (w *manifestWalker) file(name string) error {
	objects, problems, err := w.build(ofFile+name, func(tree *manifest.Tree) ([]manifest.Object, []state.Problem, error) { return manifests(tree, name) })
	if err != nil {
		return err
	}
	return w.add(objects, problems)
}

// manifests are the objects of a file.
func manifests(tree *manifest.Tree, name string) ([]manifest.Object, []state.Problem, error) {
	content, err := tree.Read(name)
	if tree.Err() != nil {
		return nil, nil, tree.Err()
	}
	if err != nil {
		return nil, []state.Problem{unreadable(name, err)}, nil
	}
	docs, problems, err := tree.Parse(name, content)
	if err != nil {
		return nil, nil, err
	}
	var found []manifest.Object
	for _, d := range docs {
		objects, more := d.Objects()
		for _, o := range objects {
			if err := tree.CountObject(o); err != nil {
				return nil, nil, err
			}
		}
		found, problems = append(found, objects...), append(problems, more...)
	}
	return found, problems, nil
}

func unreadable(name string, err error) state.Problem {
	return state.NewProblem(state.Origin{File: name}, finding.New(finding.FileUnreadable, "this cannot be read: %v", finding.NewFact("reason", err)))
}
