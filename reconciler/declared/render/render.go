// Package render turns a kustomization into objects, with kustomize as a
// library over a tree of files, and records the file and line of each.
//
// The tree is not trusted. Nothing in it starts a program, opens a connection or reads
// outside of it: Helm charts, generator plugins, plugins, remote bases and absolute
// paths are refused by name, with file and line, before kustomize starts; kustomize
// itself runs with plugins off, over a read-only file system that holds only the tree,
// with its panics caught. How long it takes nothing here bounds: kustomize cannot be
// stopped but by the end of its process, so that whoever renders what is not trusted
// does it in one of its own (cmd/internal/child). Start reading at Run.
package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Result is what a kustomization came to.
type Result struct {
	// Objects are in kustomize's order.
	Objects []manifest.Object
	// Problems are the user's mistakes. If there is one, Objects is empty:
	// kustomize renders all or nothing.
	Problems []state.Problem
}

// Run renders the kustomization in a folder of the tree. Its error is for what
// makes the tree unusable: a broken limit, a source that fails.
func Run(tree *manifest.Tree, folder string) (Result, error) {
	s := &survey{
		tree: tree, cost: map[string]cost{},
		documents: map[string][]manifest.Document{}, resources: map[string]cost{}, kustomizations: map[string]*kustomization{},
	}
	total, err := s.folder(folder, state.Origin{File: folder}, nil)
	if err != nil {
		return Result{}, err
	}
	s.checkGrowth()
	if len(s.problems) > 0 || s.root == nil {
		return Result{Problems: s.problems}, nil
	}
	if err := s.checkVars(total); err != nil {
		return Result{}, err
	}
	content, own, err := withOrigins(s.root)
	if err != nil {
		return Result{Problems: []state.Problem{{Origin: s.root.doc.Origin(), Message: err.Error()}}}, nil
	}
	files := &fileSystem{tree: tree, replaced: map[string][]byte{s.root.file: content}}
	var result Result
	err = build(func() error {
		return runKustomize(files, folder, func(value map[string]any) error {
			o := manifest.Object{Value: value, Origin: s.origin(folder, value), Via: s.root.file}
			if !own {
				stripOrigin(value)
			}
			result.Objects = append(result.Objects, o)
			if limit := tree.Limits().Objects; len(result.Objects) > limit {
				return manifest.Exceeded("%s renders to more than %d objects", s.root.file, limit)
			}
			return tree.Declares(o)
		})
	})
	switch {
	case tree.Err() != nil:
		return Result{}, tree.Err()
	case errors.Is(err, manifest.ErrLimit):
		return Result{}, err
	case tooMuchCopied(err):
		return Result{}, manifest.Exceeded("%s: a JSON patch copies more than %d KiB within one object", s.copying(), maxCopied>>10)
	case err != nil:
		return Result{Problems: []state.Problem{{Origin: state.Origin{File: s.root.file}, Message: "kustomize: " + s.message(err)}}}, nil
	}
	return result, nil
}

// File finds the kustomization file of a folder; empty when it has none.
func File(tree *manifest.Tree, folder string) (string, error) {
	found := ""
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(folder, name)
		info, err := tree.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case !info.Mode().IsRegular():
			continue
		case found != "":
			return "", fmt.Errorf("it holds both %s and %s; keep one", path.Base(found), name)
		}
		found = file
	}
	return found, nil
}
