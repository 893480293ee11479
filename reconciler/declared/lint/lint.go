// Package lint checks what a repository declares without a cluster: against
// the schemas of its custom resources, as the API server would, and for what
// an API server would take and a person should not commit.
//
// It is pure and refuses nothing: every finding is a Problem with the file and,
// where it can be found, the line of the field. Start reading at Check.
package lint

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Diagnostic is a finding about an object, with its position.
type Diagnostic struct {
	Key    state.Key
	Origin state.Origin
	// Severity is finding.Error for what cannot work, finding.Warning for what works, and otherwise, or at a higher
	// price, than its author may assume.
	Severity finding.Severity
	// Code and Facts are Text as data.
	Code  finding.Code
	Facts finding.Facts
	// Text is what is wrong and what to do about it. It names Field, and not the object.
	Text string
	// Field, UnknownField, Detail, Rule and RuleFields are as state.Problem has them.
	Field, UnknownField, Detail string
	Rule                        bool
	RuleFields                  string
}

// Problem is the finding as a Problem, which names the object.
func (f Diagnostic) Problem() state.Problem {
	return state.Problem{
		Origin: f.Origin, Code: f.Code, Facts: f.Facts, Message: f.Key.String() + ": " + f.Text,
		Object: f.Key, Field: f.Field, Detail: f.Detail, UnknownField: f.UnknownField,
		Rule: f.Rule, RuleFields: f.RuleFields,
	}
}

// Check returns everything that is wrong with d: the problems of loading it, and what
// Find finds.
func Check(d declared.Declared, crds []*apiextensionsv1.CustomResourceDefinition) []state.Problem {
	problems := slices.Clone(d.Problems)
	for _, f := range Find(d, crds) {
		problems = append(problems, f.Problem())
	}
	return Sorted(problems)
}

// Find returns what is wrong with the objects of d. Those of a kind that one of the given
// CustomResourceDefinitions defines, or one that d itself declares, are checked against
// its schema; those of other kinds are not.
func Find(d declared.Declared, crds []*apiextensionsv1.CustomResourceDefinition) []Diagnostic {
	c := newSchemaValidator(d, crds)
	for _, item := range written(d) {
		c.secret(item)
		c.annotations(item)
		c.refused(item)
	}
	return c.findings
}

// Refused returns what an API server with these definitions would not take, by
// object: the findings of Check without its advice, such as about secrets in
// Git, and without the problems of loading.
func Refused(d declared.Declared, crds []*apiextensionsv1.CustomResourceDefinition) map[state.Key][]state.Problem {
	c := newSchemaValidator(d, crds)
	out := map[state.Key][]state.Problem{}
	for _, item := range written(d) {
		c.findings = nil
		c.refused(item)
		var problems []state.Problem
		for _, f := range c.findings {
			problems = append(problems, f.Problem())
		}
		if len(problems) > 0 {
			out[item.Key] = Sorted(problems)
		}
	}
	return out
}

// written are the objects in the order in which they are written, so that each file is
// read once for the lines of what is found in it.
func written(d declared.Declared) []state.Item {
	items := d.Set.Items()
	order := make([]*state.Item, len(items)) // An Item is too large to be moved about.
	for i := range items {
		order[i] = &items[i]
	}
	slices.SortStableFunc(order, func(a, b *state.Item) int {
		return cmp.Or(strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line))
	})
	out := make([]state.Item, len(items))
	for i, item := range order {
		out[i] = *item
	}
	return out
}

// Sorted returns findings in the order of file and line, each once.
func Sorted(problems []state.Problem) []state.Problem {
	out := slices.Clone(problems)
	slices.SortStableFunc(out, func(a, b state.Problem) int {
		return cmp.Or(
			strings.Compare(a.Origin.File, b.Origin.File),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			strings.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(out)
}

type schemaValidator struct {
	declared declared.Declared
	// documents are declared's, to find the lines of fields.
	documents func(state.Origin) (manifest.Document, bool)
	kinds     map[groupKind]*kind
	findings  []Diagnostic
}

func newSchemaValidator(d declared.Declared, crds []*apiextensionsv1.CustomResourceDefinition) *schemaValidator {
	c := &schemaValidator{declared: d, documents: d.Documents(), kinds: map[groupKind]*kind{}}
	for _, crd := range crds {
		c.define(crd)
	}
	c.defineOwn()
	return c
}

// refused finds what an API server refuses of an object.
func (c *schemaValidator) refused(item state.Item) {
	c.texts(item)
	if !c.machine(item) {
		c.schema(item)
		c.kubelet(item)
	}
}

type groupKind struct{ group, kind string }

// report adds a finding about a field of an item; an empty path is the item.
func (c *schemaValidator) report(item state.Item, path string, code finding.Code, format string, args ...any) {
	found := finding.New(code, format, args...)
	text := found.Text
	if path != "" {
		text = sanitize.Name(path) + ": " + text
	}
	c.findings = append(c.findings, Diagnostic{
		Severity: finding.Error,
		Key:      item.Key, Origin: Position(c.documents, item, path), Code: code, Facts: found.Facts, Text: text, Field: path, Detail: found.Text,
	})
}

// Position is the place of a field of an item, of its deepest part that is written
// where it is not. The path is as in spec.list[0].map[a.b/c].field; an empty one
// is the item. Documents are those of the item's Declared.
func Position(documents func(state.Origin) (manifest.Document, bool), item state.Item, path string) state.Origin {
	at := item.Origin
	if path == "" {
		return at
	}
	if doc, ok := documents(at); ok {
		if line, _ := doc.Find(segments(path)); line > 0 {
			at.Line = line
		}
	}
	return at
}

// segments splits a path such as spec.list[0].map[a.b/c].field.
func segments(path string) []string {
	var out []string
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		if rest, ok := strings.CutPrefix(path, "["); ok {
			inner, after, _ := strings.Cut(rest, "]")
			out = append(out, strings.Trim(inner, `"'`))
			path = after
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		out = append(out, path[:end])
		path = path[end:]
	}
	return out
}

// Field is the value at a path of an object, in the form that findings name it in, and
// whether it is there.
func Field(object map[string]any, path string) (any, bool) {
	value, rest := any(object), segments(path)
	for len(rest) > 0 {
		used := 0
		switch v := value.(type) {
		case map[string]any:
			// Keys may have dots in them.
			for n := len(rest); n > 0 && used == 0; n-- {
				if next, ok := v[strings.Join(rest[:n], ".")]; ok {
					value, used = next, n
				}
			}
		case []any:
			if i, err := strconv.Atoi(rest[0]); err == nil && i >= 0 && i < len(v) {
				value, used = v[i], 1
			}
		}
		if used == 0 {
			return nil, false
		}
		rest = rest[used:]
	}
	return value, true
}

// secret finds secrets that anyone who may read the repository can read. Their
// values are in no message.
func (c *schemaValidator) secret(item state.Item) {
	if item.Key.Group != "" || item.Key.Kind != "Secret" {
		return
	}
	if _, encrypted := item.Object["sops"]; encrypted {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		m, _ := item.Object[field].(map[string]any)
		if slices.ContainsFunc(slices.Collect(maps.Values(m)), inGit) {
			c.report(item, field, codeSecretInGit, "this secret is in Git for everyone who may read the repository; keep it in a secret store, and rotate it")
			return
		}
	}
}

// inGit reports whether a Secret's value is in the repository: not where a variable gives
// it, or a part of it.
func inGit(value any) bool {
	text, _ := value.(string)
	return !strings.Contains(text, "${") && substitute.MaskText(text) == text
}
