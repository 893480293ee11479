package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

const (
	defaultLimit = 65536
	// minLimit leaves room for the headline and the note on what is missing.
	minLimit = 1000
	// noteReserve is kept free for the sentences on what is not shown.
	noteReserve = 400
)

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
		left = append(left, markup.Count(n, "part")+" not shown")
	}
	if len(left) > 0 {
		d.b.WriteString("_" + strings.Join(left, "; ") + ": this text has reached its limit. `poolwright plan` shows all._\n")
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

// document is text that does not outgrow its limit.
type document struct {
	b     strings.Builder
	limit int
	// leftOut counts the parts without room.
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

// parts appends those for which there is room, each at most the n-th part of what is
// left, and counts those that are left out.
func (d *document) parts(n int, parts ...section.Section) {
	for _, p := range parts {
		if !p.Empty() && !d.add(p.Markdown(d.share(n))) {
			d.leftOut++
		}
	}
}

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
	note := fmt.Sprintf("%s of %d not shown in full", markup.Count(len(changes)-details, "change"), len(changes))
	if missing := len(changes) - rows; missing > 0 {
		note += fmt.Sprintf(", %d of them not listed either", missing)
	}
	return []string{note}
}

// tables appends a row for each change, in at most half of the room left, and returns
// how many there are. Where there are many, only deletions are unfolded.
func (d *document) tables(changes []Change) int {
	sight := changes
	if len(changes) > manyChanges {
		sight = changes[:min(deletions(changes), fewLines)]
	}
	out, rows := table(sight, d.share(2))
	d.b.WriteString(out)
	rest := changes[rows:]
	if rows < len(sight) || len(rest) == 0 {
		return rows
	}
	noun := "change"
	if rows > 0 {
		noun = "more change"
	}
	summary := func(n int) string {
		if n < len(rest) {
			return fmt.Sprintf("%d of %s", n, markup.Count(len(rest), noun))
		}
		return markup.Count(n, noun)
	}
	out, n := table(rest, d.share(2)-len(markup.Folded(summary(1), "")))
	if n > 0 && d.add(markup.Folded(summary(n), strings.TrimSuffix(out, "\n"))) {
		rows += n
	}
	return rows
}

// driftMarkdown appends what had drifted before, folded: what could not be compared
// and what there is to note, the nodes and, as many as fit, the things field by field.
func (r Report) driftMarkdown(d *document, o Options) {
	title := r.driftTitle()
	if title == "" {
		return
	}
	o = o.brief()
	room := d.limit - d.b.Len() - noteReserve/2
	text := driftIntro + "\n\n" + section.Section{Lines: section.First(r.Drift.lines(markup.Markdown()), section.Limit(o.Lines).Few())}.Bullets(room/4)
	if nodes := r.driftedNodes(o); !nodes.Empty() {
		text += nodes.Title + ":\n\n" + section.Fitting(room/4, len(nodes.Folded), func(n int) string { return markup.Fence("text", section.UpTo(nodes.Folded, n)) + "\n" })
	}
	changes := Report{Changes: r.Drift.Changes}.byDanger()
	block, n := o.hunks(changes, room-len(markup.Folded(title, text)))
	if left := len(changes) - n; left > 0 {
		block += fmt.Sprintf("\n_%s not shown: this text has reached its limit._\n", markup.Count(left, "drifted object"))
	}
	if !d.add(markup.Folded(title, text+block)) {
		d.leftOut++
	}
}
