package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"sort"
	"strings"
)

const (
	defaultLimit = 65536
	// minLimit leaves room for the headline and the note on what is missing.
	minLimit = 1000
	// noteRoom is kept free for the sentences that say what is not shown.
	noteRoom = 400
)

// Markdown writes the report as a comment on a pull request: with a forecast the
// verdict and what comes of the changes, what is dangerous first; then a table of
// the changes, what is held and what is wrong, and each change in a fenced block.
// It never exceeds Options.Limit (at least 1,000 bytes) and says how much it
// leaves out.
//
// Everything that comes from a repository or a cluster stands in code: in
// fences longer than any run of backticks within, in code spans, or escaped
// in HTML's code element. There nobody is mentioned, no image is loaded and no
// comment can imitate the mark by which a forge finds its own.
func (r Report) Markdown(w io.Writer, o Options) error {
	limit := o.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	d := &document{limit: max(limit, minLimit) - noteRoom}
	f := r.forecast()
	if f != nil {
		d.add("### " + r.verdict(f, markdownVoice()) + "\n\n")
		d.add(r.headline() + "\n\n")
	} else {
		d.add("### " + r.headline() + "\n\n")
	}
	if s := r.outcomeLine(); s != "" {
		d.add(s + "\n\n")
	}
	d.section("Problems", lines(r.Problems), d.share(4))
	d.section("Warnings", lines(r.Notes[:r.Summary.Warnings]), d.share(4))
	if f != nil {
		d.parts(o.danger(f, markdownVoice()))
	}
	d.section("Unknown, not compared", r.unknownLines(), d.share(4))
	d.section("Held", r.holdLines(), d.share(4))
	d.section("Not ready", lines(r.NotReady), d.share(4))
	if f != nil {
		d.parts(o.rest(f, markdownVoice()))
	}
	d.section("Notes", lines(r.Notes[r.Summary.Warnings:]), d.share(4))
	// The changes that are made come first.
	made, compared := r.divided()
	changes := slices.Concat(made, compared)
	rows := table(d, changes)
	details := 0
	for _, c := range changes {
		if !d.add(o.detail(c)) {
			break
		}
		details++
	}
	if d.leftOut > 0 {
		fmt.Fprintf(&d.b, "\n_%s of the consequences not shown: this text has reached its limit. `poolwright plan` shows all._\n", count(d.leftOut, "part"))
	}
	if left := len(r.Changes) - details; left > 0 {
		note := fmt.Sprintf("%s of %d not shown in full", count(left, "change"), len(r.Changes))
		if missing := len(r.Changes) - rows; missing > 0 {
			note += fmt.Sprintf(", %d of them not listed either", missing)
		}
		d.b.WriteString("\n_" + note + ": this text has reached its limit. `poolwright plan` shows all._\n")
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

// document is text that does not outgrow its limit.
type document struct {
	b     strings.Builder
	limit int
	// leftOut counts the parts of the consequences without room.
	leftOut int
}

// add appends s if it fits.
func (d *document) add(s string) bool {
	if d.b.Len()+len(s) > d.limit {
		return false
	}
	d.b.WriteString(s)
	return true
}

// share is the n-th part of the room that is left.
func (d *document) share(n int) int { return (d.limit - d.b.Len()) / n }

// section appends a titled, fenced list of lines, as many as fit into room.
func (d *document) section(title string, lines []string, room int) {
	if len(lines) == 0 {
		return
	}
	for i, l := range lines {
		lines[i] = cut(l, lineLimit)
	}
	head := fmt.Sprintf("**%s**\n\n", title)
	more := func(n int) string { return fmt.Sprintf("… %s", count(n, "more line")) }
	render := func(n int) string {
		shown := lines[:n:n]
		if n < len(lines) {
			shown = append(shown, more(len(lines)-n))
		}
		return head + fence("text", shown) + "\n"
	}
	tooMany := sort.Search(len(lines)+1, func(n int) bool { return len(render(n)) > room })
	d.add(render(max(0, tooMany-1)))
}

func (r Report) holdLines() []string {
	var out []string
	for _, h := range r.Holds {
		out = append(out, visible(h.Reason))
		for _, obj := range h.Objects {
			out = append(out, "    "+cut(visible(obj.String()), width))
		}
		if h.Confirm != "" {
			out = append(out, "    to confirm: "+h.command())
		}
	}
	return out
}

// lines are one line for each finding.
func lines[T interface{ line() string }](findings []T) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.line())
	}
	return out
}

// table appends one row for each change, in at most half of the room left,
// and returns how many there are.
func table(d *document, changes []Change) int {
	if len(changes) == 0 {
		return 0
	}
	end := d.b.Len() + d.share(2)
	if !d.add("| | Object | Declared in | |\n|:-:|---|---|---|\n") {
		return 0
	}
	rows := 0
	for _, c := range changes {
		note := c.Status
		switch {
		case c.Compared:
			note = "only compared"
		case note == "" && c.Hold != "":
			note = "held"
		}
		if c.Drift {
			note = strings.TrimPrefix(note+", drift", ", ")
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", codeSpan(c.symbol()), codeSpan(c.Object.String()), codeSpan(c.where()), note)
		if d.b.Len()+len(row) > end || !d.add(row) {
			break
		}
		rows++
	}
	d.add("\n")
	return rows
}

// detail is one change, folded.
func (o Options) detail(c Change) string {
	body := o.body(c)
	if len(body) == 0 {
		return ""
	}
	lines := make([]string, len(body))
	for i, l := range body {
		s := l.symbol
		if s == "~" {
			s = "!" // What highlighters of diffs paint as changed.
		}
		lines[i] = strings.TrimRight(s+" "+l.text, " ")
	}
	title := harmless(html.EscapeString(c.symbol() + " " + cut(c.title(), width)))
	return "<details><summary><code>" + title + "</code></summary>\n\n" + fence("diff", lines) + "\n</details>\n\n"
}

// fence puts lines, which hold no line break themselves, into a code block
// that none of them can close.
func fence(language string, lines []string) string {
	content := strings.ReplaceAll(strings.Join(lines, "\n"), "<!--", "<\u200b!--")
	ticks := strings.Repeat("`", max(3, longestRun(content)+1))
	return ticks + language + "\n" + content + "\n" + ticks + "\n"
}

// codeSpan is inline code that its content can leave neither by backticks nor
// by the bars of a table.
func codeSpan(s string) string { return codeLine(s, width) }

// codeLine is inline code of up to width characters.
func codeLine(s string, width int) string {
	s = harmless(strings.ReplaceAll(cut(visible(s), width), "|", "│"))
	if strings.TrimSpace(s) == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
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
