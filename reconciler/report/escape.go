package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible makes one harmless line of any string: whatever could move a
// terminal's cursor, change its colours, hide or reorder text is written as a
// Go escape sequence, newlines too.
func visible(s string) string {
	if strings.IndexFunc(s, unsafe) < 0 && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			out.WriteString(`\x` + strconv.FormatInt(int64(s[0])+0x100, 16)[1:])
		case unsafe(r):
			q := strconv.QuoteRuneToASCII(r)
			out.WriteString(q[1 : len(q)-1])
		default:
			out.WriteString(s[:size])
		}
		s = s[size:]
	}
	return out.String()
}

// unsafe reports runes that are not to reach a terminal as they are: controls,
// format characters (bidirectional overrides, joiners), and every space but
// the plain one.
func unsafe(r rune) bool { return !unicode.IsPrint(r) }

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

// cut shortens s to width runes and says how much it left out.
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
