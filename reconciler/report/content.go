package report

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Content identifies what the report shows: while it stays the same, a comment that
// holds it need not be edited.
//
// It is made of everything that Markdown shows, amounts rounded as they are shown
// there, without what moves in a cluster that nobody changes:
//   - when it was observed;
//   - which pods run on a node or keep it, and how many: that something keeps it
//     counts, and why;
//   - which pods find a node or none, and how many wait either way: the reasons count,
//     and the headline's numbers of those that no longer find one and of new ones;
//   - how many nodes the budgets allow at this moment, and when they open next;
//   - which nodes had drifted before, of each pool that has some;
//   - what all nodes together cost now and in a month: the difference counts, and each
//     pool whose cost changes;
//   - the day on which prices were read;
//   - numbers in notes that warn of nothing, such as how much of a quota is in use.
func (r Report) Content() string {
	r = r.sanitized()
	if r.Provenance != nil && !r.Provenance.Observed.IsZero() {
		b := *r.Provenance
		b.Observed = time.Unix(0, 0)
		r.Provenance = &b
	}
	headline := r.fullHeadline(markup.Plain())
	r.Forecast = forecast.Steady(r.Forecast)
	r.Notes = steadyNotes(r.Notes)
	if r.Drift != nil {
		d := *r.Drift
		d.Notes = steadyNotes(d.Notes)
		r.Drift = &d
	}
	var text strings.Builder
	if err := r.Markdown(&text, Options{Limit: int(^uint(0) >> 1), Lines: -1}); err != nil {
		return ""
	}
	return state.Hash([]string{headline, text.String()})[:12]
}

// steadyNotes are notes without the numbers of those that warn of nothing.
func steadyNotes(notes []Note) []Note {
	out := slices.Clone(notes)
	for i, n := range out {
		if !n.Warning {
			out[i].Text = digits.ReplaceAllString(n.Text, "#")
		}
	}
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)
