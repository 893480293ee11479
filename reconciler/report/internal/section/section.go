// Package section writes a part of a report, with its title, table, lines and what is
// folded, to a terminal or as Markdown of a bounded length.
//
// It refuses to write half a row or line: what does not fit is counted. It escapes nothing:
// what it is given is escaped already. Start reading at Section.
package section

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// Markdown writes the part, with as many of its rows and lines as fit into limit.
func (p Section) Markdown(limit int) string {
	title := fmt.Sprintf("**%s**\n\n", p.Title)
	if len(p.Rows)+len(p.Lines) == 0 {
		return p.fold(p.Title, limit)
	}
	body := p.grid(limit-len(title)) + p.Bullets(limit-len(title))
	if body == "" {
		return title + p.fold(p.Summary, limit)
	}
	return title + body + p.fold(p.Summary, limit-len(title)-len(body))
}

// grid is the table.
func (p Section) grid(limit int) string {
	return Fitting(limit, len(p.Rows), func(n int) string {
		if n < 2 {
			return ""
		}
		var b strings.Builder
		for i, row := range p.Rows[:n] {
			for len(row) < len(p.Rows[0]) {
				row = append(slices.Clip(row), "")
			}
			b.WriteString(markup.Cells(row...))
			if i == 0 {
				b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
			}
		}
		if left := len(p.Rows) - n; left > 0 {
			fmt.Fprintf(&b, "\n… %s\n", plural.Count(left, "more row"))
		}
		return b.String() + "\n"
	})
}

// Bullets are the lines.
func (p Section) Bullets(limit int) string {
	return Fitting(limit, len(p.Lines), func(n int) string {
		if len(p.Lines) == 0 {
			return ""
		}
		var b strings.Builder
		for _, l := range p.Lines[:n] {
			b.WriteString("- " + l + "\n")
		}
		if left := len(p.Lines) - n; left > 0 {
			fmt.Fprintf(&b, "- … %s\n", plural.Count(left, "more line"))
		}
		return b.String() + "\n"
	})
}

// fold is what only those read who open it.
func (p Section) fold(summary string, limit int) string {
	if len(p.Folded) == 0 {
		return ""
	}
	return Fitting(limit, len(p.Folded), func(n int) string { return markup.Folded(summary, markup.Fence("text", UpTo(p.Folded, n))) })
}

// UpTo are the first n lines and how many more there are.
func UpTo(lines []string, n int) []string {
	if left := len(lines) - n; left > 0 {
		return append(lines[:n:n], "… "+plural.Count(left, "more line"))
	}
	return lines
}

// Fitting is what render makes of as many entries as fit into limit.
func Fitting(limit, entries int, render func(n int) string) string {
	return render(Fits(limit, entries, func(n int) int { return len(render(n)) }))
}

// Fits is how many entries do, by the length of each number of them.
func Fits(limit, entries int, length func(n int) int) int {
	if length(entries) <= limit {
		return entries // As nearly always.
	}
	tooMany := sort.Search(entries, func(n int) bool { return length(n) > limit })
	return max(0, tooMany-1)
}

// Section is a part of a report, as text of ours around names that a markup.Style has
// escaped. The zero Section is none.
type Section struct {
	Title string
	// Color is "bold", "?" or the sign of a line in a diff: "+", "-" or "~".
	Color string
	// Rows are a table, the first its head.
	Rows [][]string
	// Lines are sentences, short enough to be read by everybody.
	Lines []string
	// Folded are lines of detail, below the Summary; without one, below the Title. They
	// are plain text in any Style.
	Summary string
	Folded  []string
}

// First are the first n of lines, and how many more there are.
func First(lines []string, n int) []string {
	if left := len(lines) - n; left > 0 {
		return append(lines[:n:n], More(left))
	}
	return lines
}

// More is the line that stands for n others.
func More(n int) string { return fmt.Sprintf("… and %d more (plan -o json has all)", n) }

// Empty reports whether there is nothing in it.
func (p Section) Empty() bool { return len(p.Rows)+len(p.Lines)+len(p.Folded) == 0 }

// Columns aligns the cells of rows that hold plain text.
func Columns(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			// A line that is alone in its row, or last, sets no width.
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(c))
			}
		}
	}
	out := make([]string, 0, len(rows))
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

// Text writes the sections for a terminal; color gives a text one of their Colors.
func Text(b *strings.Builder, color func(color, s string) string, sections ...Section) {
	for _, p := range sections {
		if p.Empty() {
			continue
		}
		b.WriteString("\n" + color(p.Color, p.Title+":") + "\n")
		for _, l := range slices.Concat(Columns(p.Rows), p.Lines) {
			if p.Color == "?" {
				l = color(p.Color, l)
			}
			b.WriteString("  " + l + "\n")
		}
		if p.Summary != "" && len(p.Folded) > 0 {
			b.WriteString("  " + p.Summary + ":\n")
		}
		for _, l := range p.Folded {
			b.WriteString("    " + l + "\n")
		}
	}
}
