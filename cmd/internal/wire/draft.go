package wire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// draft are the variables without a value here: any, or those of some SSM parameters.
type draft struct {
	any    bool
	unread unread
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
		return of.unread.says(variable)
	}
	return fmt.Sprintf("${%s} has no value here, and fields that hold it are not judged; give it one with --substitute %s=VALUE, or name the Sync's manifest with --sync-file", variable, variable)
}

// says what a warning says of a variable.
func (u unread) says(variable string) string {
	return fmt.Sprintf("${%s} is the value of SSM parameter %s, which is not read here, and fields that hold it are not judged; give it one with --substitute %s=VALUE", variable, u[variable], variable)
}

// used is a variable as a text uses it.
type used struct {
	name      string
	defaulted bool
}

// variablesIn are the variables of a text, in order. What is escaped is none.
func variablesIn(text string) []used {
	// Group 1 is an escape, 2 the name, 3 what follows it.
	expression := regexp.MustCompile(`(\$\$)|\$\{([A-Za-z_][A-Za-z0-9_]*)([:=-]?[=-]?)`)
	var out []used
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			out = append(out, used{m[2], strings.ContainsAny(m[3], "=-")})
		}
	}
	return out
}

// valueless warns of the variables that have neither a value here nor a default, of each
// where it is first used: in what is declared, or in what could not be read as an object.
func (of draft) valueless(d declared.Declared) []state.Problem {
	first, documents := map[string]state.Origin{}, d.Documents()
	look := func(object map[string]any, origin state.Origin) {
		if unfilled(object) {
			return
		}
		texts(object, nil, func(path []string, text string) {
			for _, v := range variablesIn(text) {
				if v.defaulted || !of.has(v.name) {
					continue
				}
				at := lineOf(documents, origin, path)
				if was, known := first[v.name]; !known || at.File < was.File || at.File == was.File && at.Line < was.Line {
					first[v.name] = at
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

// unfilled reports whether an object asks for its text to stay as it is.
func unfilled(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if m, ok := metadata[field].(map[string]any); ok && m["kustomize.toolkit.fluxcd.io/substitute"] == "disabled" {
			return true
		}
	}
	return false
}

// texts visits all texts and keys of a value, in order.
func texts(v any, path []string, visit func(path []string, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clip(path), k)
			visit(at, k)
			texts(v[k], at, visit)
		}
	case []any:
		for i, e := range v {
			texts(e, append(slices.Clip(path), strconv.Itoa(i)), visit)
		}
	case string:
		visit(path, v)
	}
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
