package markup

import (
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Prose writes a text so that it reads as one, with all of it in code that could be
// anything else: names, values, commands. What reads as text is of ASCII letters, or short
// numbers, so that nothing outside of code is markup, mentions anybody or refers to
// anything.
func Prose(s string) string {
	var out, code []string
	command := false // All of one is code, up to the sign that ends it.
	flush := func(behind string) {
		command = false
		if len(code) > 0 {
			out = append(out, Code(strings.Join(code, " "), lineLimit)+behind)
			code = nil
		}
	}
	for i, w := range strings.Fields(Cut(sanitize.Escape(s), lineLimit)) {
		core := strings.TrimRight(strings.TrimPrefix(w, "("), ",;:.)")
		at := strings.Index(w, core)
		before, behind := w[:at], w[at+len(core):]
		switch {
		case core == "":
			code = append(code, w)
		case !command && !isTool(core) && isProse(core) && (i > 0 || !isDigit(core[0])):
			flush("")
			out = append(out, w)
		default:
			if before != "" {
				flush("")
				out = append(out, before+Code(core, lineLimit)+behind)
				continue
			}
			if !command && isTool(core) {
				flush("")
				command = true
			}
			if code = append(code, core); behind != "" {
				flush(behind)
			}
		}
	}
	flush("")
	return strings.Join(out, " ")
}

// isProse reports words of letters, also with a hyphen or an apostrophe within, and
// short numbers. What may be the beginning of a commit's hash is none.
func isProse(s string) bool {
	if strings.Trim(s, "0123456789") == "" {
		return len(s) <= 5
	}
	letters := strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == '\'' })
	if strings.Join(letters, "-") != strings.ReplaceAll(s, "'", "-") {
		return false // Such a sign stands at an end, or two stand together.
	}
	for _, part := range letters {
		if strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return false
		}
	}
	return len(s) < 7 || strings.Trim(s, "abcdefABCDEF") != ""
}

// isTool reports what a command begins with.
func isTool(s string) bool { return s == "aws" || s == "kubectl" }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
