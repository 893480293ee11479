package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/report/internal/diff"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// manyChanges is up to how many changes the details alone are easy to survey;
// fewLines is how much is shown of each where there are more.
const (
	manyChanges = 10
	fewLines    = 8
)

// changesMarkdown appends the changes and returns how many of them are missing.
func (r Report) changesMarkdown(d *document, o Options) []string {
	if len(r.Changes) == 0 {
		return nil
	}
	changes := r.byDanger()
	if len(changes) > manyChanges && o.Lines == 0 {
		o.Lines = fewLines
	}
	if block := o.shortHunks(changes); block != "" && d.add("**"+r.tally()+"**\n\n"+block+"\n") {
		return nil
	}
	rows := 0
	if d.add("**" + r.tally() + "**\n\n") {
		rows = d.tables(changes)
	}
	const summary = "Field by field"
	block, details := o.hunks(changes, d.limit-d.b.Len()-len(markup.Folded(summary, "")))
	if details > 0 {
		d.add(markup.Folded(summary, block))
	}
	if details == len(changes) {
		return nil
	}
	note := fmt.Sprintf("%s of %d not shown in full", plural.Count(len(changes)-details, "change"), len(changes))
	if missing := len(changes) - rows; missing > 0 {
		note += fmt.Sprintf(", %d of them not listed either", missing)
	}
	return []string{note}
}

// tables appends a row for each change, in at most half of the room left, and returns
// how many there are. Where there are many, only deletions are unfolded.
func (d *document) tables(changes []Change) int {
	visible := changes
	if len(changes) > manyChanges {
		visible = changes[:min(deletions(changes), fewLines)]
	}
	out, rows := table(visible, d.share(2))
	d.b.WriteString(out)
	rest := changes[rows:]
	if rows < len(visible) || len(rest) == 0 {
		return rows
	}
	noun := "change"
	if rows > 0 {
		noun = "more change"
	}
	summary := func(n int) string {
		if n < len(rest) {
			return fmt.Sprintf("%d of %s", n, plural.Count(len(rest), noun))
		}
		return plural.Count(n, noun)
	}
	out, n := table(rest, d.share(2)-len(markup.Folded(summary(1), "")))
	if n > 0 && d.add(markup.Folded(summary(n), strings.TrimSuffix(out, "\n"))) {
		rows += n
	}
	return rows
}

// divided separates the changes that are made from what is read-only.
func (r Report) divided() (made, compared []Change) {
	for _, c := range r.Changes {
		if c.ReadOnly {
			compared = append(compared, c)
		} else {
			made = append(made, c)
		}
	}
	return made, compared
}

// byDanger are the changes with deletions first and what is read-only last, else
// in the order of work.
func (r Report) byDanger() []Change {
	made, compared := r.divided()
	slices.SortStableFunc(made, func(a, b Change) int { return rank(a) - rank(b) })
	return slices.Concat(made, compared)
}

// defaultLines is how many lines are shown of one change.
const defaultLines = 40

// impactWidth is how much of a deletion's impact is shown in a row.
const impactWidth = 90

func rank(c Change) int {
	if c.Action == "delete" {
		return 0
	}
	return 1
}

// deletions counts those that are made; they come first.
func deletions(changes []Change) int {
	n := 0
	for _, c := range changes {
		if c.Action == "delete" && !c.ReadOnly {
			n++
		}
	}
	return n
}

// tally counts the changes by what is done.
func (r Report) tally() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{r.Summary.Create, "to create"}, {r.Summary.Update, "to update"}, {r.Summary.Delete, "to delete"}, {r.Summary.ReadOnly, "read-only"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	out := "Changes: " + strings.Join(parts, ", ")
	if r.Summary.Held > 0 {
		out += fmt.Sprintf(" (%d held)", r.Summary.Held)
	}
	return out
}

// table is one row for each change, as many as fit into limit, and how many these are.
func table(changes []Change, limit int) (string, int) {
	var b strings.Builder
	for i, c := range changes {
		row := markup.Cells(markup.Span(c.symbol()), markup.Span(c.Object.String()), markup.Span(c.where()), c.detail())
		if i == 0 {
			row = "| | Object | Declared in | |\n|:-:|---|---|---|\n" + row
		}
		if b.Len()+len(row) >= limit {
			changes = changes[:i]
			break
		}
		b.WriteString(row)
	}
	if len(changes) == 0 {
		return "", 0
	}
	return b.String() + "\n", len(changes)
}

// detail is what a row has beside the name: of a deletion, what goes with it.
func (c Change) detail() string {
	var out []string
	switch {
	case c.ReadOnly:
		out = append(out, "read-only")
	case c.Status != "":
		out = append(out, c.statusText())
	case c.Reason != "":
		out = append(out, c.heldOrSkipped())
	}
	if c.Drift {
		out = append(out, "drift")
	}
	if c.Action == "delete" {
		for _, n := range c.Notes {
			out = append(out, markup.Code(n, impactWidth))
		}
	}
	return strings.Join(out, ", ")
}

// hunks are the changes field by field in one block, as many as fit whole into limit,
// and how many these are.
func (o Options) hunks(changes []Change, limit int) (string, int) {
	var lines []string
	ends := []int{0}
	for _, c := range changes {
		lines = append(lines, o.hunk(c)...)
		ends = append(ends, len(lines))
	}
	block := func(n int) string {
		if n == 0 {
			return ""
		}
		return markup.Fence("diff", lines[:ends[n]])
	}
	n := section.Fits(limit, len(changes), func(n int) int { return len(block(n)) })
	return block(n), n
}

// openLines is up to how many lines of changes are read as fast as their names.
const openLines = 12

// shortHunks is the block of changes that are short enough to need no table; empty
// for others.
func (o Options) shortHunks(changes []Change) string {
	var lines []string
	for _, c := range changes {
		if lines = append(lines, o.hunk(c)...); len(lines) > openLines {
			return ""
		}
	}
	return markup.Fence("diff", lines)
}

// hunk is one change in the form of a diff.
func (o Options) hunk(c Change) []string {
	out := []string{"@@ " + c.symbol() + " " + markup.Cut(c.title(), markup.Width) + " @@"}
	if c.Action == "delete" && !c.ReadOnly {
		out = append(out, "- the whole object")
	}
	for _, l := range o.body(c) {
		s := l.Symbol
		if s == "~" {
			s = "!" // What highlighters of diffs colour as changed.
		}
		out = append(out, strings.TrimRight(s+" "+l.Text, " "))
	}
	return out
}

// symbol stands for what becomes of the thing. What is read-only has one of
// its own: nothing becomes of it.
func (c Change) symbol() string {
	switch {
	case c.ReadOnly:
		return "≠"
	case c.Action == "create":
		return "+"
	case c.Action == "delete":
		return "-"
	}
	return "~"
}

// body lists what there is to read about a change, below its name.
func (o Options) body(c Change) []diff.Line {
	var out []diff.Line
	switch {
	case c.Desired == nil:
	case c.ReadOnly && o.Lines <= fewLines && o.Lines >= 0:
		// What is not made needs no review.
		out = []diff.Line{{Symbol: " ", Text: diff.Outline(c.Desired)}}
	default:
		out = diff.Created(c.Desired)
	}
	for _, f := range c.Fields {
		out = append(out, diff.Field(f)...)
	}
	if c.Action == "update" && len(c.Fields) == 0 {
		out = append(out, diff.Line{Symbol: " ", Text: "(it differs in what is not shown)"})
	}
	limit := o.Lines
	if limit == 0 {
		limit = defaultLines
	}
	if limit > 0 && len(out) > limit {
		left := len(out) - limit
		out = append(out[:limit:limit], diff.Line{Symbol: " ", Text: fmt.Sprintf("… %s", plural.Count(left, "more line"))})
	}
	// What a person needs is never cut off. The reason of a hold is shown once for all
	// changes that it concerns; how to change what is only compared, with each.
	for _, n := range c.Notes {
		out = append(out, diff.Line{Symbol: " ", Text: sanitize.Escape(n)})
	}
	if c.ReadOnly {
		out = append(out, diff.Line{Symbol: " ", Text: c.readOnlyDifference()})
	}
	if c.Error != "" {
		out = append(out, diff.Line{Symbol: " ", Text: c.statusText() + ": " + markup.Cut(sanitize.Escape(c.Error), 5*markup.Width)})
	}
	return out
}

// readOnlyDifference is how what is read-only differs, and why nothing is done.
func (c Change) readOnlyDifference() string {
	how := map[string]string{"create": "missing", "update": "differs", "delete": "not declared"}[c.Action] + ", read-only"
	if c.Reason == "" {
		return how
	}
	return how + ": " + sanitize.Escape(c.Reason)
}

// heldOrSkipped is what becomes of a change that is not made.
func (c Change) heldOrSkipped() string {
	if c.Skipped {
		return statusSkipped
	}
	return "held"
}

// statusText is the status as text.
func (c Change) statusText() string {
	if c.Status == statusNotAttempted {
		return "not attempted"
	}
	return c.Status
}

// title is a change's name with where it was declared and what became of it.
func (c Change) title() string {
	out := sanitize.Escape(c.Object.String())
	if at := c.where(); at != "" {
		out += " (" + at + ")"
	}
	switch {
	case c.ReadOnly:
	case c.Status != "":
		out += " [" + c.statusText() + "]"
	case c.Reason != "":
		out += " [" + c.heldOrSkipped() + "]"
	}
	if c.Drift {
		out += " [drift]"
	}
	return out
}

func (c Change) where() string { return origin(c.File, c.Line) }
