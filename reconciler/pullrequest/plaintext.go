package pullrequest

import (
	"cmp"
	"strings"
	"unicode"
)

// The widths of what is shown of an error: in a comment, and in a status.
const (
	reasonWidth   = 1000
	headlineWidth = 300
)

// plainText is one line of text without anything that does not print.
func plainText(s string) string {
	line := strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }), " ")
	return cmp.Or(cut(line, headlineWidth), "no reason is given")
}

// cut is a text of at most so many characters.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
