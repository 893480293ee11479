package report

import "strings"

// fence puts lines, which hold no line break themselves, into a code block
// that none of them can close.
func fence(language string, lines []string) string {
	content := strings.ReplaceAll(strings.Join(lines, "\n"), "<!--", "<\u200b!--")
	ticks := strings.Repeat("`", max(3, longestRun(content)+1))
	return ticks + language + "\n" + content + "\n" + ticks + "\n"
}

// folded is Markdown that only those read who open it; both are ours.
func folded(summary, body string) string {
	return "<details><summary>" + summary + "</summary>\n\n" + body + "\n</details>\n\n"
}

// codeSpan is inline code that its content cannot leave by backticks.
func codeSpan(s string) string { return codeLine(s, width) }

// codeLine is inline code of up to width characters.
func codeLine(s string, width int) string {
	s = harmless(cut(visible(s), width))
	if strings.TrimSpace(s) == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// cells is a row of a table that no content of a cell can leave by a bar.
func cells(row ...string) string {
	return "| " + strings.Join(each(row, func(c string) string { return strings.ReplaceAll(c, "|", "│") }), " | ") + " |\n"
}

// harmless breaks mentions and comments by an invisible character.
func harmless(s string) string {
	return strings.NewReplacer("@", "@\u200b", "<!--", "<\u200b!--").Replace(s)
}

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
