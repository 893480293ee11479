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

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Run renders the kustomization in a folder of the tree: its objects in kustomize's order, or
// the user's problems. If there is one, there are no objects: kustomize renders all or nothing.
// Its error is for what makes the tree unusable: a broken limit, a source that fails.
func Run(tree *manifest.Tree, folder string) ([]manifest.Object, []state.Problem, error) {
	s := newSurvey(tree)
	return s.run(folder)
}

func newSurvey(tree *manifest.Tree) *survey {
	return &survey{
		tree: tree, cost: map[string]cost{},
		documents: map[string][]manifest.Document{}, declared: map[string][]declaredObject{}, resources: map[string]cost{},
		kustomizations: map[string]*kustomization{}, candidatesOf: map[string][]candidate{},
		separation: separation{patchDocuments: map[*yaml.Node][]manifest.Document{}, perGroup: groupObjects},
	}
}

func (s *survey) run(folder string) ([]manifest.Object, []state.Problem, error) {
	tree := s.tree
	total, err := s.folder(folder, state.Origin{File: folder}, nil)
	if err != nil {
		return nil, nil, err
	}
	s.checkGrowth()
	if len(s.problems) > 0 || s.root == nil {
		return nil, s.problems, nil
	}
	if err := s.checkVars(total); err != nil {
		return nil, nil, err
	}
	objects := make([]manifest.Object, 0, total.objects)
	own := ownOrigins(s.root)
	err = s.render(folder, total.objects, func(o manifest.Object) error {
		o.Origin, o.Kustomization = s.origin(folder, o), s.root.file
		if !own {
			stripOrigin(o.Object)
		}
		objects = append(objects, o)
		if limit := tree.Limits().Objects; len(objects) > limit {
			return manifest.LimitError("%s renders to more than %d objects", s.root.file, limit)
		}
		return tree.CountObject(o)
	})
	switch {
	case tree.Err() != nil:
		return nil, nil, tree.Err()
	case errors.Is(err, manifest.ErrLimit):
		return nil, nil, err
	case tooMuchCopied(err):
		return nil, nil, manifest.LimitError("%s: a JSON patch copies more than %d KiB within one object", s.copying(), maxCopied>>10)
	case err != nil:
		return nil, []state.Problem{
			state.NewProblem(state.Origin{File: s.root.file}, finding.New(codeKustomizeFailed, "kustomize: %s", finding.NewFact("reason", s.message(err)))),
		}, nil
	}
	return objects, nil, nil
}
