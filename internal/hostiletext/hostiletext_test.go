package hostiletext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// One text at least is of each kind that a program which passes text on would be attacked with.
func TestTheTextsHaveEveryKindOfAttack(t *testing.T) {
	kinds := map[string]func(string) bool{
		"markup":               func(s string) bool { return strings.Contains(s, "<script>") },
		"a control character":  func(s string) bool { return strings.ContainsRune(s, '\x1b') },
		"a bidirectional mark": func(s string) bool { return strings.ContainsRune(s, '\u202e') },
		"invalid UTF-8":        func(s string) bool { return !utf8.ValidString(s) },
		"more than a page":     func(s string) bool { return len(s) > 50_000 },
		"nothing but spaces": func(s string) bool {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
		},
		"an end of a line": func(s string) bool { return strings.ContainsRune(s, '\u2028') },
		"nothing":          func(s string) bool { return s == "" },
	}
	for kind, is := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, s := range All() {
				if is(s) {
					return
				}
			}
			t.Errorf("no text has %s", kind)
		})
	}
}
