package comments

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Fit cuts a Markdown text to at most limit bytes. What fits is unchanged.
// Otherwise it is cut at the end of the last line that fits, an open code fence
// and open <details> are closed, and a last line states that the rest is left out.
// Invalid UTF-8 is replaced first.
func Fit(body string, limit int) string {
	body = strings.ToValidUTF8(body, "\uFFFD")
	if len(body) <= limit {
		return body
	}
	const note = "\n_The rest is left out: this text has reached the forge's limit._\n"
	kept, state := 0, scan{}
	best, tail := 0, ""
	for kept < len(body) {
		end := len(body)
		if i := strings.IndexByte(body[kept:], '\n'); i >= 0 {
			end = kept + i + 1
		}
		if end+len(note) > limit {
			break
		}
		state.line(strings.TrimRight(body[kept:end], "\r\n"))
		kept = end
		if t := state.footer() + note; kept+len(t) <= limit {
			best, tail = kept, t
		}
	}
	if tail == "" { // not even the first line fits
		return head(note[1:], limit)
	}
	return body[:best] + tail
}

// scan has what is open at the end of the lines that it was shown.
type scan struct {
	fence   string // the ticks or tildes that opened the code block, or none
	details int
}

func (s *scan) line(line string) {
	trimmed := strings.TrimLeft(line, " ")
	run := ""
	for _, mark := range []string{"`", "~"} {
		if n := len(trimmed) - len(strings.TrimLeft(trimmed, mark)); n >= 3 && len(line)-len(trimmed) < 4 {
			run = strings.Repeat(mark, n)
		}
	}
	switch {
	case s.fence != "":
		closes := strings.HasPrefix(run, s.fence) && strings.TrimSpace(trimmed[len(run):]) == ""
		if closes {
			s.fence = ""
		}
	case run != "" && !(run[0] == '`' && strings.Contains(trimmed[len(run):], "`")):
		s.fence = run
	default:
		lower := strings.ToLower(line)
		s.details = max(0, s.details+strings.Count(lower, "<details")-strings.Count(lower, "</details>"))
	}
}

func (s *scan) footer() string {
	var b strings.Builder
	if s.fence != "" {
		b.WriteString(s.fence + "\n")
	}
	if s.details > 0 {
		b.WriteString("\n" + strings.Repeat("</details>\n", s.details))
	}
	return b.String()
}

// head is the longest beginning of s of at most limit bytes that ends with a
// whole character.
func head(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(0, limit)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

const (
	contextBytes     = 255
	descriptionRunes = 140
)

// Context cuts a status's context to what every forge takes. What is longer
// keeps its beginning and gets a hash of the whole, so that two long names do
// not become one.
func Context(name string) string {
	name = oneLine(name)
	if len(name) <= contextBytes {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "~" + hex.EncodeToString(sum[:6])
	return head(name, contextBytes-len(suffix)) + suffix
}

// Description cuts a status's description to what every forge takes.
func Description(text string) string {
	text = oneLine(text)
	if utf8.RuneCountInString(text) <= descriptionRunes {
		return text
	}
	return string([]rune(text)[:descriptionRunes-1]) + "…"
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}
