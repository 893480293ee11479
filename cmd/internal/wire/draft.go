package wire

import (
	"fmt"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// draft are the variables without a value here: any, or those of some SSM parameters.
type draft struct {
	any    bool
	unread variables.Unknown
}

// some reports whether there are any.
func (of draft) some() bool { return of.any || len(of.unread) > 0 }

// has reports whether a variable is one of them.
func (of draft) has(variable string) bool {
	_, unread := of.unread[variable]
	return of.any || unread
}

// says what a warning says of a variable.
func (of draft) says(variable string) string {
	if !of.any {
		return of.unread.Warning(variable)
	}
	return fmt.Sprintf("${%s} has no value here, and fields that hold it are not judged; give it one with --substitute %s=VALUE, or name the Sync's manifest with --sync-file", variable, variable)
}

// valueless warns of the variables that have neither a value here nor a default, of each
// where it is first used: in what is declared, or in what could not be read as an object.
func (of draft) valueless(d declared.Declared) []state.Problem {
	first, documents := map[string]state.Origin{}, d.Documents()
	look := func(object map[string]any, origin state.Origin) {
		if substitute.Disabled(object) {
			return
		}
		substitute.Walk(object, func(path []string, _ bool, text string) {
			for _, v := range substitute.Uses(text) {
				if v.Defaulted || !of.has(v.Name) {
					continue
				}
				at := lineOf(documents, origin, path)
				if was, known := first[v.Name]; !known || at.File < was.File || at.File == was.File && at.Line < was.Line {
					first[v.Name] = at
				}
			}
		})
	}
	for _, item := range d.Set.Items() {
		look(item.Object, item.Origin)
	}
	for _, p := range d.Problems {
		if doc, ok := documents(p.Origin); ok {
			value, _ := doc.Value()
			object, _ := value.(map[string]any)
			look(object, p.Origin)
		}
	}
	var out []state.Problem
	for _, name := range slices.Sorted(maps.Keys(first)) {
		out = append(out, state.Problem{Origin: first[name], Message: of.says(name)})
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
