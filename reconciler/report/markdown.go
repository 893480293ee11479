package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const (
	defaultLimit = 65536
	// minLimit leaves room for the headline and the note on what is missing.
	minLimit = 1000
	// noteReserve is kept free for the sentences on what is not shown.
	noteReserve = 400
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
//   - the day on which prices were read, and which offerings EC2 refused when: that it did counts;
//   - the live values of ignored fields;
//   - numbers in notes that warn of nothing, such as how much of a quota is in use.
func (r Report) Content() string {
	r = r.sanitized()
	if r.Provenance != nil && !r.Provenance.Observed.IsZero() {
		b := *r.Provenance
		b.Observed = time.Unix(0, 0)
		r.Provenance = &b
	}
	headline := r.fullHeadline(markup.PlainText())
	r.Forecast = forecast.StripVolatile(r.Forecast)
	r.Notes, r.Ignored = withoutCounts(r.Notes), withoutLiveValues(r.Ignored)
	if r.Drift != nil {
		d := *r.Drift
		d.Notes = withoutCounts(d.Notes)
		r.Drift = &d
	}
	var text strings.Builder
	if err := r.Markdown(&text, Options{Limit: int(^uint(0) >> 1), Lines: -1}); err != nil {
		return ""
	}
	return state.Hash([]string{headline, text.String()})[:12]
}

// withoutCounts are notes of which those that warn of nothing have their code in the place of a text, with the
// facts that are no numbers.
func withoutCounts(notes []Note) []Note {
	out := slices.Clone(notes)
	for i, n := range out {
		if n.Severity != finding.Warning {
			out[i].Text = string(n.Code) + string(n.Facts.WithoutNumbers())
		}
	}
	return out
}

// fullHeadline is the headline in full.
func (r Report) fullHeadline(v markup.Style) string { return headline.Join(r.phrases(v)) }

// Markdown writes the report as a comment on a pull request: with a forecast, or of a proposal, the
// headline and what it holds for; what is wrong, what is held and what will go wrong; what comes of
// the changes, what is dangerous first; the changes, deletions first, folded field by field unless
// they are a few lines; notes, what had drifted before, and last what is not known.
//
// It never exceeds Options.Limit (at least 1,000 bytes), each fence and fold in it is
// closed, and it states how much it leaves out: of each list as many entries as fit
// into the list's share of the room that is left, and a part without any room at all.
// What stands first is reported first. Of the changes, a table of all takes half of the
// room, and the rest is for as many as fit whole.
//
// The headline's sign is ⛔ where something must be done about the change as it
// stands: problems, something held, a quota that is too small, pods that lose their
// node, nodes that die with their pool or are never replaced. It is ⚠️ where the
// change costs something or not all of it is done or known: nodes replaced, money,
// deletions, new pods without a node, things that are not ours, warnings, what is only
// compared, and what could not be compared or estimated. Else it is ✅.
//
// Everything that comes from a repository or a cluster stands in code: in
// fences longer than any run of backticks within, or in code spans. There nobody is
// mentioned, no image is loaded and no comment can imitate the mark by which a forge
// finds its own.
func (r Report) Markdown(w io.Writer, o Options) error {
	r = r.sanitized()
	v := markup.Markdown()
	limit := o.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	d := &document{limit: max(limit, minLimit) - noteReserve}
	if !r.detailed() || !d.add("### "+r.sign()+" "+r.fullHeadline(v)+"\n\n") {
		d.add("### " + r.headline() + "\n\n")
	}
	for _, s := range []string{r.stateLine(), r.Provenance.line(v), r.idleLine(), r.outcomeLine()} {
		if s != "" {
			d.add(s + "\n\n")
		}
	}
	d.parts(4, r.alarms(v)...)
	d.parts(3, r.consequences(o, v)...)
	end := &document{limit: d.share(3)}
	end.parts(3, r.noteSection(v)...)
	r.driftMarkdown(end, o)
	end.parts(2, r.unknown(o, v))
	d.limit -= end.b.Len()
	left := r.changesMarkdown(d, o)
	d.b.WriteString(end.b.String())
	if n := d.leftOut + end.leftOut; n > 0 {
		left = append(left, plural.Count(n, "part")+" not shown")
	}
	if len(left) > 0 {
		d.b.WriteString("_" + strings.Join(left, "; ") + ": this text has reached its limit. `poolwright plan` shows all._\n")
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

// sign stands for the headline, see [Report.Markdown].
func (r Report) sign() string {
	stop, warn := r.dangers()
	switch {
	case stop:
		return "⛔"
	case warn:
		return "⚠️"
	}
	return "✅"
}

// Warns reports whether a person should read the report before the merge: its sign is a danger's or a warning's.
func (r Report) Warns() bool {
	stop, warn := r.dangers()
	return stop || warn
}

// dangers reports whether something in the report is to be stopped by a person, and whether something warns.
func (r Report) dangers() (stop, warn bool) {
	if r.idle() {
		return false, false
	}
	f, view := r.Forecast, r.view(Options{}, markup.PlainText())
	if f == nil {
		f = &provision.Forecast{}
	}
	stop = len(r.Problems)+len(r.Holds) > 0 || view.RequiresAction(f) || r.Quota == quotaShort || len(r.guardsThatHold(markup.PlainText())) > 0
	warn = view.Costs(f) || r.Summary.Delete+r.Summary.Warnings+len(r.Unknown)+r.Summary.ReadOnly+len(r.foreign()) > 0 ||
		slices.ContainsFunc(r.GuardResults, func(g GuardResult) bool { return g.Result != GuardOK })
	return stop, warn
}

// driftMarkdown appends what had drifted before, folded: what could not be compared
// and what there is to note, the nodes and, as many as fit, the things field by field.
func (r Report) driftMarkdown(d *document, o Options) {
	title := r.driftTitle()
	if title == "" {
		return
	}
	o = o.brief()
	budget := d.limit - d.b.Len() - noteReserve/2
	unknown, notes := r.Drift.lines(markup.Markdown())
	text := driftIntro + "\n\n" + section.Section{Lines: section.First(append(unknown, notes...), section.Limit(o.Lines).Few())}.Bullets(budget/4)
	if nodes := r.driftedNodes(o); !nodes.Empty() {
		text += nodes.Title + ":\n\n" + section.Fitting(budget/4, len(nodes.Folded), func(n int) string { return markup.Fence("text", section.UpTo(nodes.Folded, n)) + "\n" })
	}
	changes := Report{Changes: r.Drift.Changes}.byDanger()
	block, n := o.hunks(changes, budget-len(markup.Folded(title, text)))
	if left := len(changes) - n; left > 0 {
		block += fmt.Sprintf("\n_%s not shown: this text has reached its limit._\n", plural.Count(left, "drifted object"))
	}
	if !d.add(markup.Folded(title, text+block)) {
		d.leftOut++
	}
}
