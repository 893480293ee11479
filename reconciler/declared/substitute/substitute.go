// Package substitute fills variables such as ${CLUSTER_NAME} into the objects
// of a repository, by the rules that Flux has for its post-build substitution,
// so that a repository written for Flux needs no change.
//
// What is kept of Flux: it happens after rendering, on the YAML text of each
// object, which is then read again, so that a number becomes a number, an empty
// value null and a value such as [a, b] a list; newlines are taken out of every
// value; $${x} stands for ${x}, and $$ for $; the label or annotation
// kustomize.toolkit.fluxcd.io/substitute: disabled leaves an object alone; and
// without any variable nothing is done unless Options.Always.
//
// What is not: a value from a Secret never enters the text. A placeholder stands in
// its place, which no other author can write, which changes when the value
// does, and which Reveal replaces just before the object is sent. Placeholders are
// allowed only in the entries of data and stringData of a Secret; anywhere else
// they are a Problem. For that reason a Secret's value is put in as it is, where
// Flux would read it as YAML. A placeholder under data stands for base64, as Flux requires it,
// is itself valid base64, and Reveal refuses what is none.
//
// It refuses: an expression that it cannot read, or that does not end in the
// field that it starts in; a value that reaches beyond its field, be it by a
// line break that YAML reads (a carriage return is one), by an open quote or by
// a merge key, so that no value adds, removes or hides keys beside it; a key
// that comes out twice; and text that grows without bounds. No value of a
// Secret is in any message, hash or printed form of what is here.
//
// The package is pure: who calls it brings the values. Start reading at Apply.
package substitute

import (
	"fmt"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Options are how Apply works. The zero value is how Flux worked before
// kustomize-controller 1.9: what has no value is empty.
type Options struct {
	// Strict makes a variable that has neither a value nor a default a Problem,
	// as Flux does today.
	Strict bool
	// Always fills in defaults even where no variable has a value.
	Always bool
	// Documents finds the document that an object was written in, so that
	// Problems name the line of a field. Without it they name the object's.
	Documents func(at state.Origin) (manifest.Document, bool)
	// Limits bound the text and the values that substitution comes to.
	Limits manifest.Limits
}

// Apply fills the values into the objects. Objects without variables come back
// as they are; those with a Problem are left out. Nothing is changed in place.
// The error is a broken limit, which only a new commit or other values help.
func Apply(objects []manifest.Object, values Values, options Options) ([]manifest.Object, []state.Problem, error) {
	a := &applier{
		values: values, options: options, tree: manifest.NewTree(nil, options.Limits),
		known: map[string]*filled{}, effort: maxEffort,
	}
	out := make([]manifest.Object, 0, len(objects))
	for _, o := range objects {
		o, ok, err := a.object(o)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			out = append(out, o)
		}
	}
	return out, a.problems, nil
}

// applier holds what one Apply has come to so far.
type applier struct {
	values   Values
	options  Options
	tree     *manifest.Tree
	known    map[string]*filled // by expression
	effort   int                // left to spend
	bytes    int64              // of text written
	problems []state.Problem
}

func (a *applier) problem(at state.Origin, code finding.Code, format string, args ...any) {
	a.problems = append(a.problems, state.NewProblem(at, finding.New(code, format, args...)))
}

// object returns the object with its variables filled in; false after a Problem.
func (a *applier) object(o manifest.Object) (manifest.Object, bool, error) {
	found := scan(o.Object)
	if found.markPath != nil {
		a.problem(a.line(o.Origin, found.markPath), codePlaceholderReserved, reserved)
		return o, false, nil
	}
	none := a.values.language == nil || len(a.values.variables) == 0 && !a.options.Always
	if none || !found.variable || Disabled(o.Object) {
		return o, true, nil
	}
	text, err := sigsyaml.Marshal(o.Object)
	if err != nil {
		a.problem(o.Origin, codeSubstitutionImpossible, "this holds characters that YAML cannot write as they are, so that no variables can be filled in; remove them, or put the annotation %s: %s on the object", SubstituteKey, off)
		return o, false, nil
	}
	r, err := a.expand(string(text))
	if err != nil {
		return o, false, fmt.Errorf("filling variables into the object of %s: %w", o.Origin, err)
	}
	if len(r.errs) > 0 {
		p := newFieldLocator(string(text))
		for _, f := range r.errs {
			a.problem(a.fieldLine(o, p.fieldAt(f.offset)), codeVariableInvalid, "%s", finding.NewFact("reason", f.message))
		}
		return o, false, nil
	}
	return a.reread(o, string(text), r)
}

// reread makes an object of text that was filled in.
func (a *applier) reread(o manifest.Object, before string, r result) (manifest.Object, bool, error) {
	docs, problems, err := a.tree.Parse(o.Origin.File, []byte(r.text))
	if err != nil {
		return o, false, err
	}
	for _, p := range problems {
		a.unreadable(o, before, r, p)
	}
	if len(problems) > 0 {
		return o, false, nil
	}
	var value map[string]any
	if len(docs) == 1 {
		v, err := docs[0].Value()
		if value, _ = v.(map[string]any); err != nil || value == nil {
			a.problem(o.Origin, codeSubstitutionInvalid, "with %s filled in, this is no Kubernetes object any more; check the values' quotes", finding.NewFact("variables", r.names()))
			return o, false, nil
		}
	}
	if value == nil {
		a.problem(o.Origin, codeSubstitutionInvalid, "with %s filled in, this is not one Kubernetes object any more; check the values' quotes", finding.NewFact("variables", r.names()))
		return o, false, nil
	}
	if path, ok := within(o.Object, value, nil); !ok {
		a.problem(a.line(o.Origin, path), codeSubstitutionInvalid, "with %s filled in, a value reaches beyond its own field, up to here; check the values' quotes and brackets", finding.NewFact("variables", r.names()))
		return o, false, nil
	}
	if !a.placeholdersValid(o, value) || !a.named(o, value, r) {
		return o, false, nil
	}
	o.Object = value
	return o, true, nil
}

// unreadable reports text that is no longer valid. The reason may quote a
// value, which in a Secret is nobody's business.
func (a *applier) unreadable(o manifest.Object, before string, r result, p state.Problem) {
	at := o.Origin
	if strings.Count(before, "\n") == strings.Count(r.text, "\n") {
		at = a.fieldLine(o, lastField(before, p.Origin.Line))
	}
	switch {
	case maybeSecret(o.Object):
		a.problem(at, codeSubstitutionInvalid, "with %s filled in, this Secret is not valid YAML; quote the value, as in ${quote}${NAME}${quote} with the variable quote set to '\"'", finding.NewFact("variables", r.names()))
	case p.DuplicateKey != "":
		a.problem(at, codeSubstitutionInvalid, "with %s filled in, key %q is given twice; give the variables different values, or remove one of the keys", finding.NewFact("variables", r.names()), finding.NewFact("key", p.DuplicateKey))
	default:
		a.problem(at, codeSubstitutionInvalid, "with %s filled in, %s; where a value is plain text, quote it, as in ${quote}${NAME}${quote} with the variable quote set to '\"'", finding.NewFact("variables", r.names()), finding.NewFact("reason", p.Message))
	}
}

// maybeSecret is true unless the kind is another for certain.
func maybeSecret(object map[string]any) bool {
	kind, ok := object["kind"].(string)
	return !ok || kind == "Secret" || strings.Contains(kind, "$")
}

// placeholdersValid reports whether every placeholder is one that was made here and stands where
// it may, and each that is not. Parts of a forged one may have come together
// only now.
func (a *applier) placeholdersValid(o manifest.Object, value map[string]any) bool {
	before := len(a.problems)
	Walk(value, func(path []string, key bool, text string) {
		if !strings.Contains(text, prefix) {
			return
		}
		allowed := !key && inSecretData(value, path)
		for _, m := range placeholders(text) {
			f := a.known[m.expression]
			switch {
			case f == nil || f.text != text[m.from:m.to]:
				a.problem(a.line(o.Origin, path), codePlaceholderReserved, reserved)
			case !allowed:
				a.misplaced(a.line(o.Origin, path), f.secrets)
			}
		}
	})
	return len(a.problems) == before
}

const reserved = "this contains a placeholder of a Secret's value, which may not be written; remove it"

func (a *applier) misplaced(at state.Origin, names []string) {
	for _, name := range names {
		one, _ := a.values.get(name)
		a.problem(at, codeSecretOutsideSecret, "the value of ${%s} comes from %s, and may stand only in an entry of data or stringData of a Secret; "+
			"if it is no secret, set it in spec.substitute of the Sync or in a ConfigMap, and otherwise let the field refer to a Secret",
			finding.NewFact("variable", name), finding.NewFact("source", one.from))
	}
}

// inSecretData reports whether a path is that of an entry of a Secret's data.
func inSecretData(object map[string]any, path []string) bool {
	return object["apiVersion"] == "v1" && object["kind"] == "Secret" &&
		len(path) == 2 && (path[0] == "data" || path[0] == "stringData")
}
