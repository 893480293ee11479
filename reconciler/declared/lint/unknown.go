package lint

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Definition is the CustomResourceDefinition of an object's kind as a cluster has it; nil where
// it has none.
type Definition func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error)

// StillUnknown are the problems of those objects of a set that have a field which neither the
// schema has by which they were found nor the cluster's: a newer definition may be there. Its
// error is that of live.
func StillUnknown(found map[state.Key][]state.Problem, set state.Set, live Definition) (map[state.Key][]state.Problem, error) {
	out := map[state.Key][]state.Problem{}
	for key, of := range found {
		item, there := set.Get(key)
		if !there {
			continue
		}
		crd, err := live(key)
		if err != nil {
			return nil, err
		}
		left := slices.DeleteFunc(slices.Clone(of), func(p state.Problem) bool {
			return p.UnknownField != "" && crd != nil && hasFieldIn(crd, item.Version, p.UnknownField)
		})
		if slices.ContainsFunc(left, func(p state.Problem) bool { return p.UnknownField != "" }) {
			out[key] = left
		}
	}
	return out, nil
}

// hasFieldIn reports whether a definition's schema has a field, or takes fields that it does not
// name, at a path as in state.Problem.UnknownField. It has none in a version that is not served.
func hasFieldIn(crd *apiextensionsv1.CustomResourceDefinition, version, path string) bool {
	for _, v := range crd.Spec.Versions {
		if v.Name == version && v.Served && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return hasField(v.Schema.OpenAPIV3Schema, segments(path))
		}
	}
	return false
}

func hasField(s *apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		return true
	}
	if next, ok := s.Properties[path[0]]; ok {
		return hasField(&next, path[1:])
	}
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return hasField(s.Items.Schema, path[1:])
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return hasField(s.AdditionalProperties.Schema, path[1:])
	}
	return s.AdditionalProperties != nil && s.AdditionalProperties.Allows
}
