package lint_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A newer definition in the cluster excuses a field that the binary's does not have, and nothing
// else does.
func TestAFieldIsUnknownWhereTheClustersDefinitionHasItNeither(t *testing.T) {
	key := state.Key{Group: "example.com", Kind: "Pool", Name: "p"}
	number, text := apiextensionsv1.JSONSchemaProps{Type: "integer"}, apiextensionsv1.JSONSchemaProps{Type: "string"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	spec := func(s apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		return object(map[string]apiextensionsv1.JSONSchemaProps{"spec": s})
	}
	weight := spec(*object(map[string]apiextensionsv1.JSONSchemaProps{"weight": number}))
	preserves := true
	open := object(nil)
	open.XPreserveUnknownFields = &preserves
	free := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}
	closed := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}}
	keyed := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: object(map[string]apiextensionsv1.JSONSchemaProps{"size": number})}}
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: object(map[string]apiextensionsv1.JSONSchemaProps{"size": number})}}
	for name, c := range map[string]struct {
		version string
		served  bool
		schema  *apiextensionsv1.JSONSchemaProps
		field   string
		unknown bool
	}{
		"a field that it has":                                   {"v1", true, weight, "spec.weight", false},
		"a field that it does not have":                         {"v1", true, weight, "spec.wieght", true},
		"a field below one that it does not have":               {"v1", true, weight, "spek.weight", true},
		"a field below a number":                                {"v1", true, weight, "spec.weight.x", true},
		"a field that a version has which is not served":        {"v1", false, weight, "spec.weight", true},
		"a field that another version has":                      {"v2", true, weight, "spec.weight", true},
		"a version without a schema":                            {"v1", true, nil, "spec.weight", true},
		"a field where every field is taken":                    {"v1", true, spec(*open), "spec.a.b", false},
		"a field beside where every field is taken":             {"v1", true, spec(*open), "other", true},
		"a field of a map without a schema for its values":      {"v1", true, spec(free), "spec.any", false},
		"a field where no other is allowed":                     {"v1", true, spec(closed), "spec.any", true},
		"a field of a map's values":                             {"v1", true, spec(keyed), "spec.any.size", false},
		"a field that a map's values do not have":               {"v1", true, spec(keyed), "spec.any.siez", true},
		"a field of a list's elements":                          {"v1", true, spec(list), "spec[0].size", false},
		"a field that a list's elements do not have":            {"v1", true, spec(list), "spec[0].siez", true},
		"a field of text":                                       {"v1", true, spec(text), "spec.a", true},
		"a field whose name is that of another on another path": {"v1", true, weight, "weight", true},
	} {
		t.Run(name, func(t *testing.T) {
			version := apiextensionsv1.CustomResourceDefinitionVersion{Name: c.version, Served: c.served}
			if c.schema != nil {
				version.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: c.schema}
			}
			crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version}}}
			found := map[state.Key][]state.Problem{key: {{Message: "unknown field", UnknownField: c.field}}}
			got, err := lint.StillUnknown(found, state.NewSet(state.Item{Key: key, Version: "v1"}), func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return crd, nil })
			want := map[state.Key][]state.Problem{}
			if c.unknown {
				want = found
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What else is wrong with an object is reported only beside a field that is unknown: a newer
// definition may allow that too.
func TestOtherProblemsOfAnObjectStandAndFallWithItsUnknownFields(t *testing.T) {
	a, b, c := state.Key{Kind: "Pool", Name: "a"}, state.Key{Kind: "Pool", Name: "b"}, state.Key{Kind: "Pool", Name: "c"}
	unknown := func(field string) state.Problem { return state.Problem{Message: "unknown field", UnknownField: field} }
	other := state.Problem{Message: "this field is required"}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"weight": {}}}},
	}}}}
	found := map[state.Key][]state.Problem{
		a: {unknown("weight"), other},
		b: {unknown("weight"), other, unknown("wieght")},
		c: {unknown("wieght")}, // It is not among what is declared any more.
	}
	set := state.NewSet(state.Item{Key: a, Version: "v1"}, state.Item{Key: b, Version: "v1"})
	requested := []state.Key{}
	got, err := lint.StillUnknown(found, set, func(k state.Key) (*apiextensionsv1.CustomResourceDefinition, error) {
		if requested = append(requested, k); k == c {
			t.Errorf("asked for the definition of %s, which is not declared", k)
		}
		return crd, nil
	})
	if diff := cmp.Diff(map[state.Key][]state.Problem{b: {other, unknown("wieght")}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]state.Problem{unknown("weight"), other}, found[a]); diff != "" {
		t.Errorf("what was found has changed:\n%s", diff)
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = nil
	got, err = lint.StillUnknown(found, set, func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return crd, nil })
	if len(got) != 2 || err != nil {
		t.Errorf("with an empty schema %v, %v", got, err)
	}
	// Whether the cluster has none, or could not be asked, are two things.
	got, err = lint.StillUnknown(found, set, func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return nil, nil })
	if diff := cmp.Diff(map[state.Key][]state.Problem{a: found[a], b: found[b]}, got); diff != "" || err != nil {
		t.Errorf("without a definition: %v (-want +got):\n%s", err, diff)
	}
	down := errors.New("connection refused")
	if got, err := lint.StillUnknown(found, set, func(state.Key) (*apiextensionsv1.CustomResourceDefinition, error) { return nil, down }); !errors.Is(err, down) || got != nil {
		t.Errorf("where nothing could be read: %v, %v", got, err)
	}
}
