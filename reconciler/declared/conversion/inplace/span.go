package inplace

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// span is where a node's text starts and ends on its page: lines count from 0,
// and so do the bytes within them.
type span struct{ line, at, toLine, toAt int }

// inline is the text of a node that can stand behind its key: a flow collection,
// or a scalar in one line. Others have none.
func (p *File) inline(n *yaml.Node) (span, bool) {
	before, rest := cut(p.line(n.Line-1), n.Column-1)
	s := span{line: n.Line - 1, at: len(before), toLine: n.Line - 1}
	var length int
	switch {
	case p.irregular || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.Kind == yaml.AliasNode:
		return span{}, false
	case n.Kind != yaml.ScalarNode:
		if n.Style&yaml.FlowStyle == 0 {
			return span{}, false
		}
		return p.bracketed(s)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		length = quoted(rest, '"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		length = quoted(rest, '\'')
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && strings.HasPrefix(rest, n.Value):
		length = len(n.Value)
	default:
		return span{}, false
	}
	s.toAt = s.at + length
	return s, length > 0
}

// quoted is the length of the quoted text at the start of a line, 0 where it does
// not end there.
func quoted(text string, quote byte) int {
	if text == "" || text[0] != quote {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return 0
}

// bracketed finds the bracket that closes the one at the start of a span.
func (p *File) bracketed(s span) (span, bool) {
	depth, at := 0, s.at
	for line := s.line; line < len(p.lines); line, at = line+1, 0 {
		text := p.lines[line]
		for at < len(text) {
			switch text[at] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					s.toLine, s.toAt = line, at+1
					return s, true
				}
			}
			n := token(text, at)
			if n == 0 {
				return span{}, false
			}
			at += n
		}
	}
	return span{}, false
}

// token is the length of what stands in a line between brackets: a comment or a
// quoted text as a whole, whose brackets count for nothing, and one byte of all
// else. It is 0 for a quoted text that does not end in the line.
func token(text string, at int) int {
	switch c := text[at]; {
	case c == '#' && (at == 0 || text[at-1] == ' ' || text[at-1] == '\t'):
		return len(text) - at
	case (c == '"' || c == '\'') && opens(text[:at]):
		return quoted(text[at:], c)
	}
	return 1
}

// opens reports whether a quote behind this text starts a quoted text, and is not
// within a plain one.
func opens(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.ContainsRune("{[,:?", rune(before[len(before)-1]))
}

// source is the text in a span.
func (p *File) source(s span) []string {
	if s.line == s.toLine {
		return []string{p.lines[s.line][s.at:s.toAt]}
	}
	out := []string{p.lines[s.line][s.at:]}
	out = append(out, p.lines[s.line+1:s.toLine]...)
	return append(out, p.lines[s.toLine][:s.toAt])
}

// shifted moves lines right by a number of columns, or left as far as there is
// room. Empty ones stay empty. The lines are copied: whoever appends to them must
// not write into a page.
func shifted(lines []string, by int) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		switch blanks := len(l) - len(strings.TrimLeft(l, " ")); {
		case strings.TrimSpace(l) == "":
			out[i] = l
		case by >= 0:
			out[i] = strings.Repeat(" ", by) + l
		default:
			out[i] = l[min(blanks, -by):]
		}
	}
	return out
}

// own are the lines of a block with what stands before it (a dash) blanked, or
// nothing where the block starts behind other text.
func (p *File) own(at block) []string {
	if at.head >= len(p.lines) || at.end <= at.head {
		return nil
	}
	before, rest := cut(p.lines[at.head], at.col)
	if strings.Trim(before, " -") != "" {
		return nil
	}
	out := []string{strings.Repeat(" ", utf8.RuneCountInString(before)) + rest}
	return append(out, p.lines[at.head+1:at.end]...)
}

// comment is the comment at the end of the rest of a line, with the space before
// it, behind what else the rest holds.
func comment(rest string) string {
	trimmed := strings.TrimLeft(rest, " \t")
	if !strings.HasPrefix(trimmed, "#") {
		return ""
	}
	return strings.TrimRight(rest, "\r")
}
