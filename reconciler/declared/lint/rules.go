package lint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// fieldError is an error of a schema. Where it is of a CEL rule, reads are the names of the fields whose values the rule
// reads, sorted; itself is among them where that is the value of the field that the rule is at.
type fieldError struct {
	*field.Error
	rule  bool
	reads []string
}

// itself is how a rule names the field that it is at.
const itself = "self"

// isolatedRule is one CEL rule of a schema, in a schema that has no other.
type isolatedRule struct {
	tree      *structural.Structural
	validator *cel.Validator
	reads     []string
	parsed    bool
}

// ruleErrors are what the rules find in an object. An error has no trace of its rule but the message, so that each rule is
// evaluated alone where there are any. Without reads are those that no rule finds alone, such as that evaluation costs
// too much.
func (v *version) ruleErrors(object map[string]any) []fieldError {
	found, _ := v.rules.Validate(context.Background(), nil, v.tree, object, nil, celconfig.RuntimeCELCostBudget)
	if len(found) == 0 {
		return nil
	}
	if v.each == nil {
		v.each = isolated(v.tree, withoutRules(v.tree), func(s structural.Structural) *structural.Structural { return &s })
	}
	var out []fieldError
	for _, r := range v.each {
		if r.validator == nil {
			r.validator = cel.NewValidator(r.tree, true, celconfig.PerCallLimit)
		}
		errs, _ := r.validator.Validate(context.Background(), nil, r.tree, object, nil, celconfig.RuntimeCELCostBudget)
		for _, err := range errs {
			out = append(out, fieldError{Error: err, rule: r.parsed, reads: r.reads})
		}
	}
	if len(out) == len(found) {
		return out
	}
	out = nil
	for _, err := range found {
		out = append(out, fieldError{Error: err})
	}
	return out
}

// withoutRules is a copy of a schema without its rules.
func withoutRules(s *structural.Structural) *structural.Structural {
	out := s.DeepCopy()
	(&structural.Visitor{Structural: func(s *structural.Structural) bool {
		had := len(s.XValidations) > 0
		s.XValidations = nil
		return had
	}}).Visit(out)
	return out
}

// isolated are the rules of a schema, of which bare is a copy without rules. whole makes the schema of the root from that
// of this part.
func isolated(s, bare *structural.Structural, whole func(structural.Structural) *structural.Structural) []*isolatedRule {
	var out []*isolatedRule
	for _, r := range s.XValidations {
		one := *bare
		one.XValidations = apiextensionsv1.ValidationRules{r}
		reads, err := fieldsRead(r.Rule)
		out = append(out, &isolatedRule{tree: whole(one), reads: reads, parsed: err == nil})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		of, without := s.Properties[name], bare.Properties[name]
		out = append(out, isolated(&of, &without, func(part structural.Structural) *structural.Structural {
			parent := *bare
			parent.Properties = maps.Clone(bare.Properties)
			parent.Properties[name] = part
			return whole(parent)
		})...)
	}
	if s.Items != nil {
		out = append(out, isolated(s.Items, bare.Items, func(part structural.Structural) *structural.Structural {
			parent := *bare
			parent.Items = &part
			return whole(parent)
		})...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		out = append(out, isolated(s.AdditionalProperties.Structural, bare.AdditionalProperties.Structural, func(part structural.Structural) *structural.Structural {
			parent := *bare
			parent.AdditionalProperties = &structural.StructuralOrBool{Structural: &part}
			return whole(parent)
		})...)
	}
	return out
}

// fieldsRead are the names of the fields whose values a rule reads, sorted. Whether a field is there, and how many elements it
// has, is not its value.
func fieldsRead(text string) ([]string, error) {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return nil, fmt.Errorf("preparing to parse a rule: %w", err)
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("parsing a rule: %w", issues.Err())
	}
	names := map[string]bool{}
	for _, e := range celast.MatchDescendants(celast.NavigateAST(parsed.NativeRep()), isField) {
		if readsValue(e) {
			names[nameOf(e)] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// isField reports whether an expression names a field, an element of one, or a variable.
func isField(e celast.NavigableExpr) bool {
	switch e.Kind() {
	case celast.SelectKind:
		return !e.AsSelect().IsTestOnly()
	case celast.IdentKind:
		return !strings.HasPrefix(e.AsIdent(), "@") && !strings.HasPrefix(e.AsIdent(), "__") // What a macro adds up.
	case celast.CallKind:
		return e.AsCall().FunctionName() == operators.Index
	default:
		return false
	}
}

// readsValue reports whether what an expression names is used for its value, and not for a field or an element of it, or for
// how many there are.
func readsValue(e celast.NavigableExpr) bool {
	parent, ok := e.Parent()
	if !ok {
		return true
	}
	switch parent.Kind() {
	case celast.SelectKind:
		return false
	case celast.ComprehensionKind:
		return parent.AsComprehension().IterRange().ID() != e.ID()
	case celast.CallKind:
		call := parent.AsCall()
		if call.FunctionName() == operators.Index {
			return call.Args()[0].ID() != e.ID()
		}
		return call.FunctionName() != "size"
	default:
		return true
	}
}

// nameOf is the name of the field that an expression names, of a variable of a macro that of the field whose elements it
// stands for.
func nameOf(e celast.NavigableExpr) string {
	switch e.Kind() {
	case celast.SelectKind:
		return e.AsSelect().FieldName()
	case celast.CallKind:
		if e.AsCall().FunctionName() == operators.Index {
			return nameOf(e.Children()[0])
		}
	case celast.IdentKind:
		for at, ok := e.Parent(); ok; at, ok = at.Parent() {
			if at.Kind() != celast.ComprehensionKind {
				continue
			}
			if c := at.AsComprehension(); c.IterVar() == e.AsIdent() || c.HasIterVar2() && c.IterVar2() == e.AsIdent() {
				return nameOf(at.Children()[0])
			}
		}
	default:
	}
	return itself
}
