// Package declared reads what a repository declares: it renders a folder of
// it, fills in variables, checks every object and records the file and line of each.
// What is written for an old API of Karpenter is declared as what it means in v1.
//
// It is pure: files in, values out; no network, no program, no cluster. The
// files are not trusted. What is wrong in a user's file is a Problem and leaves the other
// objects usable; whatever makes the result incomplete without a Problem to
// show for it (a missing folder, a broken limit, a failing source) is an
// error, so that nobody takes a part for the whole. Start reading at Load.
package declared

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Declared is what a folder declares.
type Declared struct {
	// Set holds the objects that have no problem; all have the target
	// "cluster". Where Problems is not empty the Set may lack objects that the
	// repository means to keep: prune nothing.
	Set state.Set `json:"-"`
	// Problems are what is wrong in the files, in the order of file and line.
	Problems []state.Problem `json:"problems,omitempty"`
	// Converted are the changes by which objects of Karpenter's old APIs became
	// those of v1, by file and line; empty where none is declared. They hold
	// nothing back.
	Converted []conversion.Change `json:"-"`
	// BeforeDesired is called before targets are given the Set, for what they need beside it.
	// Nil where that is nothing.
	BeforeDesired func() `json:"-"`

	files  fs.FS
	limits manifest.Limits
	draft  bool
}

// item is an object as it is checked.
func (d *Declared) item(o manifest.Object) (state.Item, error) {
	if d.draft {
		return o.ItemWithVariables()
	}
	return o.Checked()
}

// Document reads again the document that an origin points into, for whoever
// needs the line of a single field; false when there is none.
func (d Declared) Document(at state.Origin) (manifest.Document, bool) { return d.Documents()(at) }

// Documents is Document for many objects: what it returns keeps the file that was
// requested last, and is not for concurrent use.
func (d Declared) Documents() func(at state.Origin) (manifest.Document, bool) {
	var file string
	var docs []manifest.Document
	return func(at state.Origin) (manifest.Document, bool) {
		if at.Line == 0 {
			return manifest.Document{}, false
		}
		if file != at.File {
			file, docs = at.File, d.parsed(at.File)
		}
		return manifest.Around(docs, at.Line)
	}
}

// parsed are the documents of a file, none where it cannot be read any more.
func (d Declared) parsed(file string) []manifest.Document {
	if d.files == nil {
		return nil
	}
	tree := manifest.NewTree(d.files, d.limits)
	content, err := tree.Read(file)
	if err != nil {
		return nil
	}
	docs, _, err := tree.Parse(file, content)
	if err != nil {
		return nil
	}
	return docs
}

// Options are how a folder is read. The zero value is the default.
type Options struct {
	// Limits bound what the folder may cost.
	manifest.Limits
	// Values are those of the Sync's variables, which are filled in after rendering,
	// and before anything is made of an object. A variable that has neither a value
	// nor a default is a Problem. Without any, text such as ${NAME} stays as it is, but is
	// a Problem in the kinds that nodes are made of.
	Values substitute.Values
	// UnresolvedVariables reports that variables have no values yet: names that hold one are not
	// checked. What comes of it may be read, and is not to be applied.
	UnresolvedVariables bool
	// Builds are what is kept of an earlier revision. Default nil: everything is rendered.
	Builds *buildcache.Builds
}

// Load reads the folder at the given path of a tree. A folder with a
// kustomization is rendered by kustomize, which may use files anywhere in the
// tree; any other is read as plain manifests: all YAML and JSON files in it
// and below, except in folders whose names start with a dot.
//
// An error is classified (state.Classify): PathNotFound, NoManifests and
// LimitExceeded are for the user to fix; a source that fails while being read is for
// another try.
//
// It may take as long and as much memory as the tree makes it: what is not trusted is
// loaded in a process of its own, by cmd/internal/child.
func Load(fsys fs.FS, folder string, options Options) (Declared, error) {
	tree := manifest.NewTree(fsys, options.Limits)
	folder, err := locate(tree, folder)
	if err != nil {
		return Declared{}, err
	}
	kustomization, err := render.KustomizationFile(tree, folder)
	if tree.Err() != nil {
		return Declared{}, fmt.Errorf("reading %s: %w", called(folder), tree.Err())
	}
	var objects []manifest.Object
	var problems []state.Problem
	builds := renderer{tree, fsys, options.Builds}
	if err != nil || kustomization != "" {
		objects, problems, err = builds.kustomization(folder)
	} else {
		objects, problems, err = renderManifests(builds, folder)
	}
	if err != nil {
		return Declared{}, fmt.Errorf("reading %s: %w", called(folder), err)
	}
	if len(objects) == 0 && len(problems) == 0 {
		return Declared{}, state.Failf(state.Stalled, "NoManifests",
			"%s declares no object; put manifests or a kustomization.yaml into it, or correct the path", called(folder))
	}
	d := Declared{Problems: problems, files: fsys, limits: options.Limits, draft: options.UnresolvedVariables}
	if len(options.Values.Names()) == 0 && !options.UnresolvedVariables {
		objects = d.refuseUnfilled(objects)
	}
	if objects, err = d.fill(objects, options.Values); err == nil {
		err = d.collect(objects)
	}
	if err != nil {
		return Declared{}, fmt.Errorf("reading %s: %w", called(folder), err)
	}
	return d, nil
}

// called names a folder in a message. The root is not called ".": whoever
// checks a folder on disk has typed another path for it.
func called(folder string) string {
	if folder == "." {
		return "the folder"
	}
	return fmt.Sprintf("folder %q", folder)
}

// locate finds the folder to read.
func locate(tree *manifest.Tree, folder string) (string, error) {
	clean := path.Clean(strings.TrimSpace(folder))
	if folder == "" {
		clean = "."
	}
	if path.IsAbs(clean) || !fs.ValidPath(clean) {
		return "", state.Failf(state.Stalled, "PathNotFound", "path %q must be relative to the repository's root and stay inside it", folder)
	}
	real, err := tree.WithoutLinks(clean)
	if err == nil {
		var info fs.FileInfo
		if info, err = tree.Stat(real); err == nil && !info.IsDir() {
			return "", state.Failf(state.Stalled, "PathNotFound", "path %q is a file; name its folder", folder)
		}
	}
	switch {
	case tree.Err() != nil:
		return "", fmt.Errorf("reading %s: %w", folder, tree.Err())
	case errors.Is(err, fs.ErrNotExist):
		return "", state.Failf(state.Stalled, "PathNotFound", "path %q is not in the repository", folder)
	case err != nil:
		return "", state.Fail(state.Stalled, "PathNotFound", fmt.Errorf("path %q cannot be used: %w", folder, err))
	}
	return real, nil
}
