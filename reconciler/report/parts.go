package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// write writes parts for a terminal.
func (o Options) write(b *strings.Builder, parts ...part) {
	for _, p := range parts {
		if p.empty() {
			continue
		}
		b.WriteString("\n" + o.color(p.how, p.title+":") + "\n")
		for _, l := range slices.Concat(columns(p.rows), p.lines) {
			if p.how == "?" {
				l = o.color(p.how, l)
			}
			b.WriteString("  " + l + "\n")
		}
		if p.summary != "" && len(p.folded) > 0 {
			b.WriteString("  " + p.summary + ":\n")
		}
		for _, l := range p.folded {
			b.WriteString("    " + l + "\n")
		}
	}
}

// markdown writes the part, with as many of its rows and lines as fit into room.
func (p part) markdown(room int) string {
	title := fmt.Sprintf("**%s**\n\n", p.title)
	if len(p.rows)+len(p.lines) == 0 {
		return p.fold(p.title, room)
	}
	body := p.grid(room-len(title)) + p.bullets(room-len(title))
	if body == "" {
		return title + p.fold(p.summary, room)
	}
	return title + body + p.fold(p.summary, room-len(title)-len(body))
}

// grid is the table.
func (p part) grid(room int) string {
	return fitting(room, len(p.rows), func(n int) string {
		if n < 2 {
			return ""
		}
		var b strings.Builder
		for i, row := range p.rows[:n] {
			for len(row) < len(p.rows[0]) {
				row = append(slices.Clip(row), "")
			}
			b.WriteString(cells(row...))
			if i == 0 {
				b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
			}
		}
		if left := len(p.rows) - n; left > 0 {
			fmt.Fprintf(&b, "\n… %s\n", count(left, "more row"))
		}
		return b.String() + "\n"
	})
}

// bullets are the lines.
func (p part) bullets(room int) string {
	return fitting(room, len(p.lines), func(n int) string {
		if len(p.lines) == 0 {
			return ""
		}
		var b strings.Builder
		for _, l := range p.lines[:n] {
			b.WriteString("- " + l + "\n")
		}
		if left := len(p.lines) - n; left > 0 {
			fmt.Fprintf(&b, "- … %s\n", count(left, "more line"))
		}
		return b.String() + "\n"
	})
}

// fold is what only those read who open it.
func (p part) fold(summary string, room int) string {
	if len(p.folded) == 0 {
		return ""
	}
	return fitting(room, len(p.folded), func(n int) string { return folded(summary, fence("text", upTo(p.folded, n))) })
}

// upTo are the first n lines and how many more there are.
func upTo(lines []string, n int) []string {
	if left := len(lines) - n; left > 0 {
		return append(lines[:n:n], "… "+count(left, "more line"))
	}
	return lines
}

// fitting is what render makes of as many entries as fit into room.
func fitting(room, entries int, render func(n int) string) string {
	return render(fits(room, entries, func(n int) int { return len(render(n)) }))
}

// fits is how many entries do, by the length of each number of them.
func fits(room, entries int, length func(n int) int) int {
	if length(entries) <= room {
		return entries // As nearly always.
	}
	tooMany := sort.Search(entries, func(n int) bool { return length(n) > room })
	return max(0, tooMany-1)
}
