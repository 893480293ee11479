// Package sanitize makes text that is not ours safe where it reaches a person: what Git, AWS, a
// forge, the API server or a library wrote may hold a password, what a terminal obeys, or what
// could pass for a sentence of ours.
//
// It refuses to shorten anything, and to handle a format: Markdown and JSON are escaped by
// who writes them. Start reading at Text.
package sanitize

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Masked stands where a secret was.
const Masked = "(masked)"

// Text is one line of text without secrets that are known by their shape, and without what does
// not print, see Redact and Escape. To do it twice changes nothing.
func Text(s string) string {
	// What is escaped may have broken a secret in two, and what is not escaped may hide one.
	return Redact(Escape(Redact(s)))
}

// Escape writes whatever could move a terminal's cursor, change its colours, hide or reorder text
// as a Go escape sequence, newlines too.
func Escape(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			out.WriteString(`\x` + strconv.FormatInt(int64(s[0])+0x100, 16)[1:])
		case unprintable(r):
			q := strconv.QuoteRuneToASCII(r)
			out.WriteString(q[1 : len(q)-1])
		default:
			out.WriteString(s[:size])
		}
		s = s[size:]
	}
	return out.String()
}

// unprintable reports runes that must not reach a terminal as they are: controls, format
// characters (bidirectional overrides, joiners), and every space but the plain one.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Name is the name of an object, a file or a field in a sentence: as it is where it has no
// character but letters and digits of ASCII, those of addresses and of paths of files and fields,
// and the … of what is left out; else in double quotes with Go's escapes, so that it cannot be
// taken for a part of the sentence. The empty name stays empty.
func Name(s string) string {
	if strings.IndexFunc(s, sentential) < 0 {
		return s
	}
	return strconv.Quote(s)
}

// sentential reports characters that only a sentence or a command needs.
func sentential(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._/:@+=~[]-…", r)
}
