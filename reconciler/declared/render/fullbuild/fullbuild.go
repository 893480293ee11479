// Package fullbuild decides which kustomizations have to be built as a whole, and which can be built in groups of
// objects that do not lead to each other.
//
// It refuses to assume that a field which it does not have leads nowhere. Start reading at Required.
package fullbuild

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// Required reports whether a kustomization may lead from one object to any other, so that
// it is rendered as a whole: by fields that do, and by all that are not known here.
func Required(spec types.Kustomization) bool {
	for _, p := range slices.Concat(spec.Patches, spec.PatchesJson6902) { //nolint:staticcheck // deprecated fields stand in the files of users
		if p.Options != nil {
			return true
		}
	}
	for _, l := range spec.Labels {
		// They may be put into any field, metadata.name included.
		if len(l.FieldSpecs) > 0 {
			return true
		}
	}
	spec.TypeMeta, spec.MetaData, spec.BuildMetadata, spec.GeneratorOptions = types.TypeMeta{}, nil, nil, nil
	spec.Resources, spec.Bases, spec.Components = nil, nil, nil //nolint:staticcheck // deprecated fields stand in the files of users
	spec.NamePrefix, spec.NameSuffix, spec.Namespace = "", "", ""
	spec.Labels, spec.CommonLabels, spec.CommonAnnotations = nil, nil, nil         //nolint:staticcheck // deprecated fields stand in the files of users
	spec.Patches, spec.PatchesStrategicMerge, spec.PatchesJson6902 = nil, nil, nil //nolint:staticcheck // deprecated fields stand in the files of users
	spec.Images, spec.ImageTags, spec.Replicas = nil, nil, nil                     //nolint:staticcheck // deprecated fields stand in the files of users
	spec.ConfigMapGenerator, spec.SecretGenerator = nil, nil
	return !reflect.ValueOf(spec).IsZero()
}

// RequiredByPatch reports whether a patch may give an object another identity, by which
// others could refer to it.
func RequiredByPatch(d manifest.Document) bool {
	v, err := d.Value()
	if err != nil {
		return true
	}
	operations, _ := v.([]any)
	for _, o := range operations {
		operation, _ := o.(map[string]any)
		if path, ok := operation["path"].(string); !ok || identity(path) {
			return true
		}
		if from, ok := operation["from"].(string); operation["from"] != nil && (!ok || identity(from)) {
			return true
		}
	}
	return false
}

// PatchesAnnotations reports a JSON patch that names annotations.
func PatchesAnnotations(d manifest.Document) bool {
	for _, operation := range manifest.Items(d.Node) {
		for _, field := range []string{"path", "from"} {
			if strings.Contains(manifest.Text(manifest.Child(operation, field)), "annotations") {
				return true
			}
		}
	}
	return false
}

// identity reports whether what a pointer of a JSON patch names may hold an object's identity.
func identity(pointer string) bool {
	// What is before the first slash is not read.
	parts := strings.Split(pointer, "/")[1:]
	if len(parts) == 0 {
		return true
	}
	switch parts[0] {
	case "", "apiVersion", "kind":
		return true
	case "metadata":
		return len(parts) == 1 || parts[1] == "name" || parts[1] == "namespace"
	}
	return false
}

// RequiredByDocuments reports documents by whose annotations kustomize is controlled, such as that of an
// object's former names.
func RequiredByDocuments(docs []manifest.Document) bool {
	return slices.ContainsFunc(docs, func(d manifest.Document) bool { return internal(d.Node) })
}

func internal(n *yaml.Node) bool {
	for _, mark := range []string{"config.kubernetes.io", "config.k8s.io"} {
		if strings.Contains(n.Value, mark) && !strings.HasPrefix(n.Value, "kustomize.config.k8s.io/v1") {
			return true
		}
	}
	return slices.ContainsFunc(n.Content, internal)
}
