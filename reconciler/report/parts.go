package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/poolwright/poolwright/provision"
)

// consequences writes what comes of the step for a terminal. Nothing can be folded
// there: lists are short unless somebody asks for more.
func (o Options) consequences(b *strings.Builder, f *provision.Forecast) {
	if o.Lines == 0 {
		o.Lines = fewLines
	}
	for _, p := range slices.Concat(o.danger(f, plainVoice()), o.rest(f, plainVoice())) {
		if p.empty() {
			continue
		}
		b.WriteString("\n" + o.paint(p.how, p.title+":") + "\n")
		for _, l := range columns(p.rows) {
			b.WriteString("  " + l + "\n")
		}
		for _, l := range p.lines {
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

// parts appends those for which there is room, each at most a third of what is
// left, and counts those that are left out.
func (d *document) parts(parts []part) {
	for _, p := range parts {
		if !p.empty() && !d.add(p.markdown(d.share(3))) {
			d.leftOut++
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
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
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
	return fitting(room, len(p.folded), func(n int) string {
		shown := p.folded[:n:n]
		if left := len(p.folded) - n; left > 0 {
			shown = append(shown, "… "+count(left, "more line"))
		}
		return "<details><summary>" + summary + "</summary>\n\n" + fence("text", shown) + "\n</details>\n\n"
	})
}

// fitting is what render makes of as many entries as fit into room.
func fitting(room, entries int, render func(n int) string) string {
	tooMany := sort.Search(entries+1, func(n int) bool { return len(render(n)) > room })
	return render(max(0, tooMany-1))
}
