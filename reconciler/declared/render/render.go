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
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"

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
	if _, err := s.folder(folder, state.Origin{File: folder}, nil); err != nil {
		return Result{}, err
	}
	s.checkGrowth()
	if len(s.problems) > 0 || s.root == nil {
		return Result{Problems: s.problems}, nil
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

// withOrigins is the root kustomization with origin annotations turned on;
// own reports that it requests them itself and so keeps them.
func withOrigins(k *kustomization) (content []byte, own bool, err error) {
	if slices.Contains(k.spec.BuildMetadata, types.OriginAnnotations) {
		content, err = yaml.Marshal(k.doc.Node)
		return content, true, err
	}
	root := *k.doc.Node
	root.Content = slices.Clone(root.Content)
	value := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, option := range append(slices.Clone(k.spec.BuildMetadata), types.OriginAnnotations) {
		value.Content = append(value.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: option})
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "buildMetadata" {
			root.Content[i+1] = value
			value = nil
			break
		}
	}
	if value != nil {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "buildMetadata"}, value)
	}
	content, err = yaml.Marshal(&root)
	return content, false, err
}

// turn lets one build run at a time: kustomize keeps the OpenAPI schema in
// variables of its package.
var turn = make(chan struct{}, 1)

// build runs kustomize, which is what run does, and makes an error of a panic.
func build(run func() error) (err error) {
	turn <- struct{}{}
	defer func() { <-turn }()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("kustomize stopped unexpectedly (%v)\n%s", p, firstFrames(debug.Stack()))
		}
	}()
	return run()
}

// firstFrames keeps a stack trace readable in a status message.
func firstFrames(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	return strings.Join(lines[:min(len(lines), 12)], "\n")
}

// runKustomize gives the objects in kustomize's order.
func runKustomize(files *fileSystem, folder string, give func(map[string]any) error) error {
	jsonpatch.AccumulatedCopySizeLimit = maxCopied
	options := krusty.MakeDefaultOptions()
	options.PluginConfig = types.DisabledPluginConfig()
	// The file system is the restriction: it holds the repository and nothing
	// else, so that a patch may lie beside the base that it patches.
	options.LoadRestrictions = types.LoadRestrictionsNone
	m, err := krusty.MakeKustomizer(options).Run(files, path.Join("/", folder))
	if err != nil {
		return err
	}
	for _, r := range m.Resources() {
		b, err := r.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s: %w", r.CurId(), err)
		}
		var o map[string]any
		if err := utiljson.Unmarshal(b, &o); err != nil {
			return fmt.Errorf("%s: %w", r.CurId(), err)
		}
		if err := give(o); err != nil {
			return err
		}
	}
	return nil
}
