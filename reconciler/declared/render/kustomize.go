package render

import (
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/poolwright/poolwright/reconciler/declared/render/treefs"
)

// withOrigins is the root kustomization, or what is to be rendered of it, with origin annotations
// turned on.
func withOrigins(k *kustomization, of *yaml.Node) *yaml.Node {
	if ownOrigins(k) {
		return of
	}
	root := *of
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
	return &root
}

// ownOrigins reports that the root kustomization requests origin annotations itself, and so
// keeps them.
func ownOrigins(k *kustomization) bool {
	return slices.Contains(k.spec.BuildMetadata, types.OriginAnnotations)
}

// buildSlot lets one build run at a time: kustomize keeps the OpenAPI schema in
// variables of its package.
var buildSlot = make(chan struct{}, 1)

// build runs kustomize, which is what run does, and makes an error of a panic.
func build(run func() error) (err error) {
	buildSlot <- struct{}{}
	defer func() { <-buildSlot }()
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
func runKustomize(files *treefs.FileSystem, folder string, give func(map[string]any) error) error {
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
		o, err := valueOf(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.CurId(), err)
		}
		if err := give(o); err != nil {
			return err
		}
	}
	return nil
}

// aliased reports whether a part of a document stands for another one.
func aliased(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Value == "<<" || slices.ContainsFunc(n.Content, aliased)
}
