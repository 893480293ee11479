package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text writes a value on one line: strings quoted, so that "true" is not true
// and nothing hides at an end; maps and lists in JSON's form with sorted keys.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if v == masked {
			return masked
		}
		return strconv.Quote(v)
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(k)+": "+text(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "(no value)"
	}
	return string(b)
}

// cut shortens s to width runes and states how much it left out.
func cut(s string, width int) string {
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
