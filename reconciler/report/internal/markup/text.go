package markup

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Value writes a value on one line: strings quoted, so that "true" is not true
// and nothing hides at an end; maps and lists in JSON's form with sorted keys.
func Value(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if v == sanitize.Masked {
			return sanitize.Masked
		}
		return strconv.Quote(v)
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(k)+": "+Value(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = Value(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "(no value)"
	}
	return string(b)
}

// Cut shortens s to width runes and states how much it left out.
func Cut(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s
	}
	end := 0
	for range width {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end] + "… (" + strconv.Itoa(n-width) + " more characters)"
}

// Clip shortens s to width runes, the last of which marks it.
func Clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}

// CountWithVerb writes a number, its noun and a verb.
func CountWithVerb(n int, noun, verb string) string {
	if n == 1 {
		verb += "s"
	}
	return plural.Count(n, noun) + " " + verb
}

// Names lists the first few names, and how many more there are.
func Names(names []string) string {
	return plural.FirstOf(names, fewNames, ", ")
}

// fewNames is how many names are shown where they are many.
const fewNames = 3
