// Package unset leaves out findings about fields that hold a variable without a value, which
// nobody can check, and warns of such variables.
//
// Start reading at Variables.
package unset

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// Variables are the variables without a value here: any, or those of some SSM parameters.
type Variables struct {
	// NoneSet is true where no variable has a value.
	NoneSet bool
	// Parameters are those without a value.
	Parameters variables.Unknown
}

// Exist reports whether there are any.
func (u Variables) Exist() bool { return u.NoneSet || len(u.Parameters) > 0 }

// has reports whether a variable is one of them.
func (u Variables) has(variable string) bool {
	_, unread := u.Parameters[variable]
	return u.NoneSet || unread
}

// codeVariableWithoutValue is of a variable that has no value in a folder without any.
const codeVariableWithoutValue finding.Code = "VariableWithoutValue"

// warning is the warning about a variable.
func (u Variables) warning(variable string) finding.Finding {
	if !u.NoneSet {
		return u.Parameters.Warning(variable)
	}
	return finding.New(codeVariableWithoutValue,
		"${%s} has no value here, and fields that contain it are not validated; give it one with --substitute %s=VALUE, or name the Sync's manifest with --sync-file",
		finding.NewFact("variable", variable), variable)
}

// Warnings warns of the variables that have neither a value here nor a default, of each
// where it is first used: in what is declared, or in what could not be read as an object.
func (u Variables) Warnings(d declared.Declared) []state.Problem {
	first, documents := map[string]state.Origin{}, d.Documents()
	visit := func(object map[string]any, origin state.Origin) {
		if substitute.Disabled(object) {
			return
		}
		substitute.Walk(object, func(path []string, _ bool, text string) {
			for _, v := range substitute.Uses(text) {
				if v.Defaulted || !u.has(v.Name) {
					continue
				}
				at := lineOf(documents, origin, path)
				if was, known := first[v.Name]; !known || at.File < was.File || at.File == was.File && at.Line < was.Line {
					first[v.Name] = at
				}
			}
		})
	}
	for item := range d.Set.All() {
		visit(item.Object, item.Origin)
	}
	for _, p := range d.Problems {
		if doc, ok := documents(p.Origin); ok {
			value, _ := doc.Value()
			object, _ := value.(map[string]any)
			visit(object, p.Origin)
		}
	}
	var out []state.Problem
	for _, name := range slices.Sorted(maps.Keys(first)) {
		out = append(out, state.NewProblem(first[name], u.warning(name)))
	}
	return out
}

// lineOf is where a path of an object is written.
func lineOf(documents func(state.Origin) (manifest.Document, bool), at state.Origin, path []string) state.Origin {
	if doc, ok := documents(at); ok {
		if line, _ := doc.Find(path); line > 0 {
			at.Line = line
		}
	}
	return at
}
