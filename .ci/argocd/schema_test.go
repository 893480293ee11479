package argocd

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// schema checks objects as the API server does.
type schema struct {
	tree   *structural.Structural
	values validation.SchemaValidator
	rules  *cel.Validator
}

// sync is the schema of Sync.
func sync(t *testing.T) schema {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := read(filepath.Join("..", "..", "config", "crd", "poolwright.dev_syncs.yaml"), &crd); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	tree, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return schema{tree, values, cel.NewValidator(tree, true, celconfig.PerCallLimit)}
}

// problems are why the API server refuses an update, and the fields that it drops.
func (s schema) problems(after, before map[string]any) []string {
	var out []string
	pruned := runtime.DeepCopyJSON(after)
	for _, path := range pruning.PruneWithOptions(pruned, s.tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		out = append(out, "unknown field "+path)
	}
	for _, err := range validation.ValidateCustomResourceUpdate(nil, after, before, s.values) {
		out = append(out, err.Error())
	}
	refused, _ := s.rules.Validate(context.Background(), nil, s.tree, after, before, celconfig.RuntimeCELCostBudget)
	for _, err := range refused {
		out = append(out, fmt.Sprint(err))
	}
	return out
}

func TestAnActionThatBreaksTheSchemaIsRefused(t *testing.T) {
	s := sync(t)
	for name, change := range map[string]func(map[string]any){
		"a field that a Sync does not have":  func(o map[string]any) { o["spec"].(map[string]any)["paused"] = true },
		"a type of another kind":             func(o map[string]any) { o["spec"].(map[string]any)["suspend"] = "true" },
		"an array in the place of an object": func(o map[string]any) { o["spec"].(map[string]any)["guard"] = []any{} },
		"a name that is reserved":            func(o map[string]any) { o["metadata"].(map[string]any)["name"] = "poolwright-installation" },
	} {
		before := named(t, "a revision is applied")
		after := runtime.DeepCopyJSON(before)
		if problems := s.problems(after, before); len(problems) > 0 {
			t.Fatalf("the unchanged Sync: %v", problems)
		}
		change(after)
		if len(s.problems(after, before)) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}
