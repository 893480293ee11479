package substitute

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// SubstituteKey is the label or annotation by which an object has its text stay as it is,
// where its value is "disabled". It is Flux's.
const SubstituteKey = "kustomize.toolkit.fluxcd.io/substitute"

const off = "disabled"

// Disabled reports whether an object has its text stay as it is.
func Disabled(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if m, ok := meta[field].(map[string]any); ok && m[SubstituteKey] == off {
			return true
		}
	}
	return false
}

// Use is a variable as a text uses it.
type Use struct {
	Name string
	// Defaulted means that the text names a default.
	Defaulted bool
}

// Uses are the variables that a text uses, in order, without regard to whether their
// expressions end. What is escaped, as in $${NAME}, is none.
func Uses(text string) []Use {
	var out []Use
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			return out
		}
		text = text[i+1:]
		if escaped, ok := strings.CutPrefix(text, "$"); ok {
			text = escaped
			continue
		}
		inside, ok := strings.CutPrefix(text, "{")
		inside = strings.TrimPrefix(inside, "#") // ${#NAME} is a value's length.
		if name := nameOf(inside); ok && name != "" {
			text = inside[len(name):]
			operator := strings.TrimPrefix(text, ":")
			out = append(out, Use{Name: name, Defaulted: strings.HasPrefix(operator, "=") || strings.HasPrefix(operator, "-")})
		}
	}
}

// nameOf is what a text starts with that Flux would take for a variable's name too.
func nameOf(text string) string {
	for i, c := range []byte(text) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return text[:i]
		}
	}
	return text
}

// Walk visits every key and every text of a value, in order, with its path. The path
// is only valid during the visit.
func Walk(v any, visit func(path []string, key bool, text string)) { walk(v, nil, visit) }

func walk(v any, path []string, visit func(path []string, key bool, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			path := append(path, k)
			visit(path, true, k)
			walk(v[k], path, visit)
		}
	case []any:
		for i, e := range v {
			walk(e, append(path, strconv.Itoa(i)), visit)
		}
	case string:
		visit(path, false, v)
	}
}
