package markup

import (
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Fence puts lines, which hold no line break themselves, into a code block
// that none of them can close.
func Fence(language string, lines []string) string {
	content := commentless(strings.Join(lines, "\n"))
	ticks := strings.Repeat("`", max(3, longestRun(content)+1))
	return ticks + language + "\n" + content + "\n" + ticks + "\n"
}

// Folded is Markdown that only those read who open it; both are ours.
func Folded(summary, body string) string {
	return "<details><summary>" + summary + "</summary>\n\n" + body + "\n</details>\n\n"
}

// Span is inline code that its content cannot leave by backticks.
func Span(s string) string { return Code(s, Width) }

// Code is inline code of up to width characters. Nobody is mentioned in code, so
// that whoever copies from it gets what was written: no character is put in that
// cannot be observed.
func Code(s string, width int) string {
	s = commentless(Cut(sanitize.Escape(s), width))
	if longestRun(s) >= maxTicks {
		s = strings.ReplaceAll(s, "`", "ˋ")
	}
	if strings.TrimSpace(s) == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// Cells is a row of a table that no content of a cell can leave by a bar.
func Cells(row ...string) string {
	escaped := make([]string, 0, len(row))
	for _, c := range row {
		escaped = append(escaped, strings.ReplaceAll(c, "|", "│"))
	}
	return "| " + strings.Join(escaped, " | ") + " |\n"
}

// maxTicks is how many backticks forges take for the beginning of a code span: some
// read a run of more than 80 as text, and what stands behind it as Markdown.
const maxTicks = 64

// commentless breaks comments, by a space that is visible.
func commentless(s string) string { return strings.ReplaceAll(s, "<!--", "<! --") }

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
