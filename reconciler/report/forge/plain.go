package forge

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PlainText makes one line without markup of a text, such as a pull request's title, to
// stand in Markdown outside of code. It reads as it was written, cut to width runes,
// but nothing in it is markup: no HTML, link, image, emphasis, heading, table or code;
// nobody is mentioned, no issue or commit is referred to, and no address becomes a
// link. Control and invisible characters become spaces.
//
// For text in code, report's own Markdown has spans and fences.
func PlainText(s string, width int) string {
	var line strings.Builder
	n := 0
	for _, text := range strings.FieldsFunc(s, hidden) {
		if n > 0 {
			text = " " + text
		}
		for _, r := range text {
			if n++; n > width {
				return escape(line.String()) + "…"
			}
			line.WriteRune(r)
		}
	}
	return escape(line.String())
}

// hidden reports white space, what shows nothing, and what cannot be decoded.
func hidden(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError
}

// breaker is a character without width. Behind a character that starts a
// mention, a reference or an address it keeps forges from finding one.
const breaker = "\u200b"

// escape writes every ASCII character that Markdown has syntax for as its HTML entity,
// which Markdown takes for the letter and never for markup. Forges search for mentions,
// references and addresses in what Markdown has made of a text, entities decoded, so
// those get the breaker as well.
func escape(s string) string {
	var b strings.Builder
	after := '\x00'
	for _, r := range s {
		switch {
		case r == '@' || r == '#' || r == '!' || r == ':':
			b.WriteString(entity(r) + breaker)
		case r == '.' && unicode.IsLetter(after):
			b.WriteString(entity(r) + breaker)
		case r < utf8.RuneSelf && unicode.In(r, unicode.Punct, unicode.Symbol):
			b.WriteString(entity(r))
		default:
			b.WriteRune(r)
		}
		after = r
	}
	return unreferred(b.String())
}

func entity(r rune) string {
	if named := html.EscapeString(string(r)); named != string(r) {
		return named
	}
	const digits = "0123456789"
	return "&#" + string([]byte{digits[r/100], digits[r/10%10], digits[r%10]}) + ";"
}

// unreferred breaks text in the form of a commit's hash: seven or more hexadecimal
// digits become links to whatever commit begins so.
func unreferred(s string) string {
	var b strings.Builder
	run := 0
	for _, r := range s {
		if strings.ContainsRune("0123456789abcdefABCDEF", r) {
			if run++; run%6 == 0 {
				b.WriteRune(r)
				b.WriteString(breaker)
				continue
			}
		} else {
			run = 0
		}
		b.WriteRune(r)
	}
	return b.String()
}
