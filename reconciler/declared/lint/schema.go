package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// kind is one custom resource, with the versions that are served.
type kind struct {
	versions map[string]*version
}

// version is one version's schema, compiled when first needed: rules take
// longer to compile than to check.
type version struct {
	schema   *apiextensionsv1.JSONSchemaProps
	compiled bool
	err      error
	tree     *structural.Structural
	values   validation.SchemaValidator
	rules    *cel.Validator
	// each are the same rules one by one, made when one of them refuses an object.
	each []*isolatedRule
}

func (c *schemaValidator) define(crd *apiextensionsv1.CustomResourceDefinition) {
	k := &kind{versions: map[string]*version{}}
	for _, v := range crd.Spec.Versions {
		if v.Served && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			k.versions[v.Name] = &version{schema: v.Schema.OpenAPIV3Schema}
		}
	}
	c.kinds[groupKind{crd.Spec.Group, crd.Spec.Names.Kind}] = k
}

// defineOwn adds what the repository itself defines. A given definition goes
// before one in the repository.
func (c *schemaValidator) defineOwn() {
	for item := range c.declared.Set.All() {
		if item.Key.Group != "apiextensions.k8s.io" || item.Key.Kind != "CustomResourceDefinition" || item.Version != "v1" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &crd); err != nil {
			c.report(item, "", codeDefinitionInvalid, "this is not a valid CustomResourceDefinition: %v", finding.NewFact("reason", err))
			continue
		}
		if _, given := c.kinds[groupKind{crd.Spec.Group, crd.Spec.Names.Kind}]; !given {
			c.define(&crd)
		}
	}
}

func (v *version) compile() error {
	if v.compiled {
		return v.err
	}
	v.compiled = true
	var internal apiextensions.JSONSchemaProps
	if v.err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.schema, &internal, nil); v.err != nil {
		return v.err
	}
	if v.tree, v.err = structural.NewStructural(&internal); v.err != nil {
		return v.err
	}
	if v.values, _, v.err = validation.NewSchemaValidator(&internal); v.err != nil {
		return v.err
	}
	v.rules = cel.NewValidator(v.tree, true, celconfig.PerCallLimit)
	return nil
}

// schema checks an item as the API server would on its creation.
func (c *schemaValidator) schema(item state.Item) {
	k, ok := c.kinds[groupKind{item.Key.Group, item.Key.Kind}]
	if !ok {
		return
	}
	v, ok := k.versions[item.Version]
	if !ok {
		served := slices.Sorted(maps.Keys(k.versions))
		c.report(item, "apiVersion", codeVersionNotServed, "version %q of %s is not served; use %s",
			finding.NewFact("version", item.Version), finding.NewFact("kind", item.Key.Kind), finding.As("served", served, strings.Join(served, " or ")))
		return
	}
	if err := v.compile(); err != nil {
		c.report(item, "", codeDefinitionInvalid, "the CustomResourceDefinition of this kind cannot be used: %v", finding.NewFact("reason", err))
		return
	}
	object := runtime.DeepCopyJSON(item.Object)
	delete(object, "status") // whoever wrote it there, the API server would ignore it
	misspelled := map[string]bool{}
	for _, path := range pruning.PruneWithOptions(object, v.tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		meant := fieldMeant(v.tree, path)
		misspelled[sibling(path, meant)] = true
		c.report(item, path, codeUnknownField, "unknown field%s", finding.As("suggestion", meant, suggested(meant)))
		c.findings[len(c.findings)-1].UnknownField = path
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, v.tree)
	defaulting.Default(object, v.tree)
	for _, err := range v.validate(object) {
		if err.Type == field.ErrorTypeRequired && misspelled[fieldOf(err.Error)] {
			continue // It is there, under the unknown name that is reported.
		}
		c.report(item, fieldOf(err.Error), codeOf(err.Error), "%s", finding.NewFact("reason", v.detail(err.Error)))
		last := &c.findings[len(c.findings)-1]
		last.Rule, last.RuleFields = err.rule, strings.Join(err.reads, " ")
	}
}

func (v *version) validate(object map[string]any) []fieldError {
	errs := validation.ValidateCustomResource(nil, object, v.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.tree, object)...)
	// Rules may rely on what the schema promises, so that they are evaluated only for
	// objects that keep it.
	if v.rules != nil && len(errs) == 0 {
		return v.ruleErrors(object)
	}
	var out []fieldError
	for _, err := range errs {
		out = append(out, fieldError{Error: err})
	}
	return out
}

func fieldOf(err *field.Error) string {
	if err.Field == "<nil>" {
		return ""
	}
	return err.Field
}

// omitted stands for a value in messages of the schema library.
const omitted = "<value omitted>"

// maxValueLength is the longest value that a message repeats.
const maxValueLength = 60

// detail is what is wrong with a field. Values are shown when they are short and cannot be
// user data, without what is a secret by its shape, such as a password in a URL.
func (v *version) detail(err *field.Error) string { return sanitize.Redact(v.explanation(err)) }

func (v *version) explanation(err *field.Error) string {
	text := strings.TrimPrefix(err.Detail, err.Field+" in body ")
	if err.Type == field.ErrorTypeRequired {
		if text == "" || text == err.Type.String() {
			return "this field is required"
		}
		return "this field is required: " + text
	}
	if was, isType := err.BadValue.(string); isType && strings.HasPrefix(text, "must be of type string") && slices.Contains([]string{"integer", "number", "boolean"}, was) {
		return "this must be text, and YAML reads it as a " + strings.Replace(was, "integer", "number", 1) + ": put it in quotes"
	}
	quoted := ""
	switch value := err.BadValue.(type) {
	case string, int64, float64, bool:
		if s := fmt.Sprintf("%#v", value); len(s) <= maxValueLength && value != omitted && !strings.HasSuffix(err.Field, "userData") {
			quoted = s + ": "
		}
	}
	if text == "" {
		text = strings.ToLower(err.Type.String())
	}
	return quoted + text + remedy(v.failedPattern(err))
}

// failedPattern is the pattern in the schema of a field that its value does not match; empty where there is none.
func (v *version) failedPattern(err *field.Error) string {
	value, isString := err.BadValue.(string)
	s := schemaAt(v.tree, segments(err.Field))
	if err.Type != field.ErrorTypeInvalid || !isString || s == nil || s.ValueValidation == nil {
		return ""
	}
	if matches, bad := regexp.MatchString(s.ValueValidation.Pattern, value); matches || bad != nil {
		return ""
	}
	return s.ValueValidation.Pattern
}

// fieldMeant is the name of the schema's field that was probably meant at the path of an
// unknown one; empty where none was.
func fieldMeant(s *structural.Structural, path string) string {
	parts := segments(path)
	if len(parts) == 0 {
		return ""
	}
	of := schemaAt(s, parts[:len(parts)-1])
	if of == nil {
		return ""
	}
	return manifest.ClosestName(parts[len(parts)-1], slices.Collect(maps.Keys(of.Properties)))
}

// schemaAt is the schema at a path; nil where there is none.
func schemaAt(s *structural.Structural, path []string) *structural.Structural {
	for _, p := range path {
		switch next, isField := property(s, p); {
		case isField:
			s = next
		case s.Items != nil:
			s = s.Items
		case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
			s = s.AdditionalProperties.Structural
		default:
			return nil
		}
	}
	return s
}

// sibling is the path of the field beside the one at a path; empty without a name.
func sibling(path, name string) string {
	if name == "" {
		return ""
	}
	return path[:strings.LastIndex(path, ".")+1] + name
}

// suggested ends a message about an unknown field with the one that was meant, if any.
func suggested(meant string) string {
	if meant == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", meant)
}

func property(s *structural.Structural, name string) (*structural.Structural, bool) {
	p, ok := s.Properties[name]
	return &p, ok
}
