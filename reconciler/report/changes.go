package report

import (
	"fmt"
	"slices"
	"strings"
)

// divided separates the changes that are made from what is only compared.
func (r Report) divided() (made, compared []Change) {
	for _, c := range r.Changes {
		if c.Compared {
			compared = append(compared, c)
		} else {
			made = append(made, c)
		}
	}
	return made, compared
}

// byDanger are the changes with deletions first and what is only compared last, else
// in the order of work.
func (r Report) byDanger() []Change {
	made, compared := r.divided()
	slices.SortStableFunc(made, func(a, b Change) int { return rank(a) - rank(b) })
	return slices.Concat(made, compared)
}

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
		if c.Action == "delete" && !c.Compared {
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
	}{{r.Summary.Create, "to create"}, {r.Summary.Update, "to update"}, {r.Summary.Delete, "to delete"}, {r.Summary.Compared, "only compared"}} {
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

// table is one row for each change, as many as fit into room, and how many these are.
func table(changes []Change, room int) (string, int) {
	var b strings.Builder
	for i, c := range changes {
		row := cells(codeSpan(c.symbol()), codeSpan(c.Object.String()), codeSpan(c.where()), c.detail())
		if i == 0 {
			row = "| | Object | Declared in | |\n|:-:|---|---|---|\n" + row
		}
		if b.Len()+len(row) >= room {
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

// detail is what a row says beside the name: of a deletion, what goes with it.
func (c Change) detail() string {
	var out []string
	switch {
	case c.Compared:
		out = append(out, "only compared")
	case c.Status != "":
		out = append(out, c.Status)
	case c.Hold != "":
		out = append(out, "held")
	}
	if c.Drift {
		out = append(out, "drift")
	}
	if c.Action == "delete" {
		for _, n := range c.Notes {
			out = append(out, codeLine(n, valueWidth))
		}
	}
	return strings.Join(out, ", ")
}

// hunks are the changes field by field in one block, as many as fit whole into room,
// and how many these are.
func (o Options) hunks(changes []Change, room int) (string, int) {
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
		return fence("diff", lines[:ends[n]])
	}
	n := fits(room, len(changes), func(n int) int { return len(block(n)) })
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
	return fence("diff", lines)
}

// hunk is one change in the form of a diff.
func (o Options) hunk(c Change) []string {
	out := []string{"@@ " + c.symbol() + " " + cut(c.title(), width) + " @@"}
	if c.Action == "delete" && !c.Compared {
		out = append(out, "- the whole object")
	}
	for _, l := range o.body(c) {
		s := l.symbol
		if s == "~" {
			s = "!" // What highlighters of diffs paint as changed.
		}
		out = append(out, strings.TrimRight(s+" "+l.text, " "))
	}
	return out
}
