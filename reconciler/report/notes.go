package report

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// noteParts are the notes that warn, and the others that are not among the alarms.
func (r Report) noteParts(v markup.Style) (warnings, notes section.Section) {
	of := func(list []Note, placed func(v markup.Style, at, text string) string) []string {
		var out []string
		for _, n := range list {
			out = append(out, placed(v, nameWithOrigin(n.Object, n.File, n.Line), n.Text))
		}
		return out
	}
	n := min(r.Summary.Warnings, len(r.Notes))
	warnings = section.Section{Title: fmt.Sprintf("Warnings (%d)", n), Color: "~", Lines: of(r.Notes[:n], remedyWithOrigin)}
	theirs := r.foreign()
	others := slices.DeleteFunc(slices.Clone(r.Notes[n:]), func(n Note) bool {
		return n.NotOurs && slices.ContainsFunc(theirs, func(c Change) bool { return c.Object == n.Object })
	})
	notes = section.Section{Title: fmt.Sprintf("Notes (%d)", len(others)), Color: "bold", Lines: of(others, withOrigin)}
	return warnings, notes
}

// noteSection has the other findings, and what is ignored.
func (r Report) noteSection(v markup.Style) []section.Section {
	_, notes := r.noteParts(v)
	if !v.Stacks && len(notes.Lines) > 0 {
		_, plain := r.noteParts(markup.PlainText())
		notes.Lines, notes.Folded = nil, plain.Lines
	}
	return []section.Section{notes, r.ignoredSection(v)}
}

// unknown is what could not be compared, and what cannot be estimated of the rest.
func (r Report) unknown(o Options, v markup.Style) section.Section {
	out, n := section.Section{Color: "?", Lines: unknownLines(r.Unknown, v)}, len(r.Unknown)
	if f := r.Forecast; f != nil && !r.idle() {
		var lines []string
		for _, u := range f.Unknown {
			lines = append(lines, v.Name(u.Text))
		}
		out.Lines = append(out.Lines, section.First(lines, section.Limit(o.Lines).Few())...)
		n += len(f.Unknown)
	}
	out.Title = fmt.Sprintf("Unknown (%d)", n)
	return out
}
