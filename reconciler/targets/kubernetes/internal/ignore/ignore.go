// Package ignore finds the fields that a Sync ignores in the objects that it declares.
//
// It refuses to ignore what is a guard: the fields of Poolwright's own kinds, roles and their
// bindings, values of Secrets, and the metadata by which objects are owned. Start reading at
// Rules.Begin.
package ignore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Rules are those of spec.ignore of a Sync, parsed.
type Rules struct {
	rules []rule
	err   error
}

// rule is one entry.
type rule struct {
	paths    []pointer.Pointer
	patterns []attribute
	labels   labels.Selector
	notes    labels.Selector
}

// attribute is a regular expression for the whole of one attribute of an object.
type attribute struct {
	of      func(state.Item) string
	matches *regexp.Regexp
}

// New parses rules. What cannot be parsed is the error of Err.
func New(rules []v1alpha1.IgnoreRule) Rules {
	var out Rules
	for i, r := range rules {
		parsed, err := parse(r)
		if err != nil {
			return Rules{err: state.Fail(state.Stalled, "InvalidIgnoreRule", fmt.Errorf("reading spec.ignore[%d].%w", i, err))}
		}
		out.rules = append(out.rules, parsed)
	}
	return out
}

// Err is why the rules cannot be used, of the class Stalled, or nil.
func (r Rules) Err() error { return r.err }

func parse(r v1alpha1.IgnoreRule) (rule, error) {
	var out rule
	for i, text := range r.Paths {
		p, err := pointer.Parse(text)
		if err == nil {
			err = allowed(p)
		}
		if err != nil {
			return rule{}, fmt.Errorf("paths[%d]: %w", i, err)
		}
		out.paths = append(out.paths, p)
	}
	if r.Target == nil {
		return out, nil
	}
	var err error
	if out.patterns, err = patterns(*r.Target); err != nil {
		return rule{}, err
	}
	if out.labels, err = selector("labelSelector", r.Target.LabelSelector); err != nil {
		return rule{}, err
	}
	if out.notes, err = selector("annotationSelector", r.Target.AnnotationSelector); err != nil {
		return rule{}, err
	}
	return out, nil
}

func selector(name, text string) (labels.Selector, error) {
	out, err := labels.Parse(text)
	if err != nil {
		return nil, unparsed(name, text, "selector", err)
	}
	return out, nil
}

// unparsed is the error of a field of a target.
func unparsed(name, text, kind string, err error) error {
	return fmt.Errorf("target.%s: %q is no %s (%w): correct it, or leave the field out", name, text, kind, err)
}

func patterns(target v1alpha1.Selector) ([]attribute, error) {
	var out []attribute
	for _, field := range []struct {
		name, text string
		of         func(state.Item) string
	}{
		{"group", target.Group, func(i state.Item) string { return i.Key.Group }},
		{"version", target.Version, func(i state.Item) string { return i.Version }},
		{"kind", target.Kind, func(i state.Item) string { return i.Key.Kind }},
		{"namespace", target.Namespace, func(i state.Item) string { return i.Key.Namespace }},
		{"name", target.Name, func(i state.Item) string { return i.Key.Name }},
	} {
		if field.text == "" {
			continue
		}
		// As it is written first: what is added could complete one that is none, and would be in the error.
		_, err := regexp.Compile(field.text)
		if err != nil {
			return nil, unparsed(field.name, field.text, "RE2 expression", err)
		}
		matches, err := regexp.Compile("^(?:" + field.text + ")$")
		if err != nil {
			return nil, unparsed(field.name, field.text, "RE2 expression", err)
		}
		out = append(out, attribute{of: field.of, matches: matches})
	}
	return out, nil
}

// allowed is why a pointer is refused whatever it is used for, or nil.
func allowed(p pointer.Pointer) error {
	switch {
	case len(p) == 0:
		return fmt.Errorf("a whole object cannot be ignored: name a field, or take the object out of the repository after it has the annotation %s: disabled", v1alpha1.PruneAnnotation)
	case slices.Contains([]string{"apiVersion", "kind", "status"}, p[0]):
		return fmt.Errorf("%s cannot be ignored: it is not corrected; remove the path", p)
	case p[0] != "metadata":
		return nil
	case len(p) != 3 || p[1] != "labels" && p[1] != "annotations":
		return fmt.Errorf("%s cannot be ignored: name one label or annotation, such as /metadata/annotations/example.com~1name", p)
	case strings.Contains(p[2], v1alpha1.GroupVersion.Group):
		return fmt.Errorf("%s cannot be ignored: Poolwright finds its objects by it; remove the path", p)
	}
	return nil
}

// matches reports whether the rule is for an object, by what the repository declares of it.
func (r rule) matches(item state.Item) bool {
	for _, p := range r.patterns {
		if !p.matches.MatchString(p.of(item)) {
			return false
		}
	}
	metadata, _ := item.Object["metadata"].(map[string]any)
	return (r.labels == nil || r.labels.Matches(texts(metadata["labels"]))) && (r.notes == nil || r.notes.Matches(texts(metadata["annotations"])))
}

func texts(of any) labels.Set {
	m, _ := of.(map[string]any)
	out := labels.Set{}
	for k, v := range m {
		if text, ok := v.(string); ok {
			out[k] = text
		}
	}
	return out
}

// Declared is what is wrong with spec.ignore of a Sync that a repository declares, and false where
// nothing is, or for another object. Applied, it would keep the Sync from applying its correction.
func Declared(item state.Item) (state.Problem, bool) {
	if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Sync" {
		return state.Problem{}, false
	}
	var sync struct {
		Spec struct {
			Ignore []v1alpha1.IgnoreRule `json:"ignore"`
		} `json:"spec"`
	}
	text, err := json.Marshal(item.Object)
	if err == nil {
		err = json.Unmarshal(text, &sync)
	}
	if err != nil {
		return state.Problem{}, false // The API server refuses it, with the field.
	}
	if err = New(sync.Spec.Ignore).Err(); err == nil {
		return state.Problem{}, false
	}
	problem := state.NewProblem(item.Origin, finding.New(codeRuleRefused, "%s: %v", finding.NewFact("object", item.Key), finding.NewFact("reason", err)))
	problem.Object, problem.Field, problem.Detail = item.Key, "spec.ignore", err.Error()
	return problem, true
}

// Matching finds what is ignored in the objects of one revision.
type Matching struct {
	rules []rule
	used  []bool
}

// Begin returns a Matching that has matched no object yet.
func (r Rules) Begin() *Matching {
	return &Matching{rules: r.rules, used: make([]bool, len(r.rules))}
}

// Unused are the indices of the rules that matched no object.
func (m *Matching) Unused() []int {
	var out []int
	for i, used := range m.used {
		if !used {
			out = append(out, i)
		}
	}
	return out
}

// Apply is a declared object with what is ignored of it in Ignore: sorted pointers, none of them within
// another. What is refused is a Problem, and stays corrected.
func (m *Matching) Apply(item state.Item) (state.Item, []state.Problem) {
	var pointers []string
	var problems []state.Problem
	for i, r := range m.rules {
		if !r.matches(item) {
			continue
		}
		m.used[i] = true
		for j, p := range r.paths {
			why, always := guarded(item, p)
			if why != "" && !always && len(r.patterns) == 0 && !declares(item, p) {
				continue // It is for other objects, and would be for nothing here.
			}
			if why == "" {
				pointers = Add(pointers, p)
				continue
			}
			field := fmt.Sprintf("spec.ignore[%d].paths[%d]", i, j)
			detail := fmt.Sprintf("%s of the Sync is %s, which is not ignored here: %s", field, p, why)
			problem := state.NewProblem(item.Origin, finding.New(codeRuleRefused, "%s: %s", finding.NewFact("object", item.Key), detail).With(finding.NewFact("path", p.String()), finding.NewFact("rule", i)))
			problem.Object, problem.Field, problem.Detail = item.Key, field, detail
			problems = append(problems, problem)
		}
	}
	item.Ignore = pointers
	return item, problems
}

// Add is a list of pointers with one more, sorted and without those that are within another.
func Add(pointers []string, more pointer.Pointer) []string {
	var out []string
	for _, text := range pointers {
		p, err := pointer.Parse(text)
		if err != nil || more.Within(p) {
			return pointers
		}
		if !p.Within(more) {
			out = append(out, text)
		}
	}
	out = append(out, more.String())
	slices.Sort(out)
	return out
}

// codeRuleRefused: a rule names a field that is not ignored.
const codeRuleRefused finding.Code = "IgnoreRuleRefused"

// guarded is why a field of an object is not ignored, with the remedy; empty where it may be. It is so
// always where the path itself is refused, and not the object.
func guarded(item state.Item, p pointer.Pointer) (why string, always bool) {
	const narrow = "; have target of the rule select other objects"
	switch {
	case item.Key.Group == v1alpha1.GroupVersion.Group:
		return "Poolwright works by what the repository declares of its own kinds" + narrow, false
	case item.Key.Group == "rbac.authorization.k8s.io":
		return "what was added to a role or a binding by hand would stay" + narrow, false
	case kinds.IsSecret(item.Key) && (p[0] == "data" || p[0] == "stringData" || len(p) > 1 && p[1] == "annotations"):
		return "values of Secrets are not kept" + narrow, false
	case len(p) == 1 && p[0] == "spec" && kinds.OwnsWholeSpec(item.Key.Group, item.Key.Kind):
		return "what nodes are made from would not be what the repository declares; name a field of spec", true
	}
	return guardedElement(item, p), true
}

// declares reports whether the repository declares a field. Text of a Secret is its data.
func declares(item state.Item, p pointer.Pointer) bool {
	_, declared := p.Get(item.Object)
	if kinds.IsSecret(item.Key) && p[0] == "stringData" {
		_, data := append(pointer.Pointer{"data"}, p[1:]...).Get(item.Object)
		return declared || data
	}
	return declared
}

// guardedElement is why an element of a list, or a field of one, is not ignored.
func guardedElement(item state.Item, p pointer.Pointer) string {
	if !p.Listed(item.Object) {
		return ""
	}
	last := len(p) - 1
	above, _ := p[:last].Get(item.Object)
	if _, isList := above.([]any); isList {
		return "an element of a list cannot be ignored as a whole; name a field of it, or the list"
	}
	if list, _ := p[:last-1].Get(item.Object); isKey(list, p[last]) {
		return "it distinguishes the elements of a list; name another field"
	}
	return ""
}

// isKey reports whether elements of a list are distinguished by a field of that name.
func isKey(list any, name string) bool {
	_, isList := list.([]any)
	return isList && slices.Contains(pointer.ListKeys(), name)
}
