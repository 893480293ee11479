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
			out = append(out, placed(v, named(n.Object, n.File, n.Line), n.Text))
		}
		return out
	}
	n := min(r.Summary.Warnings, len(r.Notes))
	warnings = section.Section{Title: fmt.Sprintf("Warnings (%d)", n), Color: "~", Lines: of(r.Notes[:n], warned)}
	theirs := r.foreign()
	others := slices.DeleteFunc(slices.Clone(r.Notes[n:]), func(n Note) bool {
		return n.NotOurs && slices.ContainsFunc(theirs, func(c Change) bool { return c.Object == n.Object })
	})
	notes = section.Section{Title: fmt.Sprintf("Notes (%d)", len(others)), Color: "bold", Lines: of(others, placed)}
	return warnings, notes
}

// noteSection has the other findings.
func (r Report) noteSection(v markup.Style) []section.Section {
	_, notes := r.noteParts(v)
	if !v.Stacks && len(notes.Lines) > 0 {
		_, plain := r.noteParts(markup.Plain())
		notes.Lines, notes.Folded = nil, plain.Lines
	}
	return []section.Section{notes}
}

// unknowns are what could not be compared, and what cannot be estimated of the rest.
func (r Report) unknowns(o Options, v markup.Style) []section.Section {
	lost := section.Section{Title: fmt.Sprintf("Unknown, not compared (%d)", len(r.Unknown)), Color: "?", Lines: unknownLines(r.Unknown, v)}
	untold := section.Section{Color: "?"}
	if f := r.Forecast; f != nil && !r.idle() {
		untold.Title = fmt.Sprintf("Not known (%d)", len(f.Unknown))
		for _, u := range f.Unknown {
			untold.Lines = append(untold.Lines, v.Name(u.Text))
		}
		untold.Lines = section.First(untold.Lines, section.Limit(o.Lines).Few())
	}
	return []section.Section{lost, untold}
}
