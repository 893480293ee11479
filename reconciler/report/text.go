package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// headline is the report in a line.
func (r Report) headline() string {
	s := r.Summary
	var out string
	changes, known := s.Create+s.Update+s.Delete, s.Unchanged+s.Compared
	switch {
	case changes > 0:
		out = fmt.Sprintf("Plan: %d to create, %d to update, %d to delete", s.Create, s.Update, s.Delete)
	case s.Unknown > 0 && known == 0:
		// "No changes" would be said of what nobody has observed.
		out = fmt.Sprintf("Plan: incomplete, nothing could be compared (%s)", count(s.Unknown, "object"))
	case s.Unknown > 0:
		out = fmt.Sprintf("Plan: incomplete, %d of %d objects could not be compared; %d as declared", s.Unknown, s.Unknown+known, s.Unchanged)
	default:
		out = "Plan: no changes"
		if s.Unchanged > 0 {
			out += ", " + count(s.Unchanged, "object") + " as declared"
		}
	}
	if s.Held > 0 {
		out += fmt.Sprintf(" (%d held)", s.Held)
	}
	if s.Compared > 0 {
		out += fmt.Sprintf("; %d only compared", s.Compared)
	}
	if s.Unknown > 0 && changes > 0 {
		out += fmt.Sprintf("; %d unknown", s.Unknown)
	}
	if s.Warnings > 0 {
		out += "; " + count(s.Warnings, "warning")
	}
	return out
}

// outcomeLine counts what became of the changes; empty for a plan alone.
func (r Report) outcomeLine() string {
	t := r.Summary.Outcome
	if t == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("%d applied", t.Applied)}
	for _, p := range []struct {
		n    int
		what string
	}{{t.Held, "held"}, {t.Failed, "failed"}, {t.Conflict, "in conflict"}, {t.Skipped, "skipped"}, {t.Compared, "only compared"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return "Outcome: " + strings.Join(parts, ", ")
}

// title is a change's name with where it was declared and what became of it.
func (c Change) title() string {
	out := sanitize.Escape(c.Object.String())
	if at := c.where(); at != "" {
		out += " (" + at + ")"
	}
	switch {
	case c.Compared:
	case c.Status != "":
		out += " [" + c.Status + "]"
	case c.Hold != "":
		out += " [held]"
	}
	if c.Drift {
		out += " [drift]"
	}
	return out
}

func (c Change) where() string { return place(c.File, c.Line) }

// Text writes the report for a terminal: in the order of Markdown.
func (r Report) Text(w io.Writer, o Options) error {
	var b strings.Builder
	r = r.sanitized()
	v := plainStyle()
	var head []string
	if r.detailed() {
		head = append(head, r.fullHeadline(v))
	}
	for _, l := range append(head, r.headline(), r.outcomeLine()) {
		if l != "" {
			b.WriteString(o.color("bold", l) + "\n")
		}
	}
	for _, l := range []string{r.stateLine(), r.Binding.line(v), r.idleLine()} {
		if l != "" {
			b.WriteString(l + "\n")
		}
	}
	o.write(&b, r.alarms(v)...)
	o.write(&b, r.consequences(o.brief(), v)...)
	if len(r.Changes) > manyChanges {
		o.overview(&b, r.byDanger())
	}
	o.changes(&b, r.Changes)
	o.write(&b, r.noteSection(v)...)
	r.textDrift(&b, o)
	o.write(&b, r.unknowns(o.brief(), v)...)
	_, err := io.WriteString(w, b.String())
	return err
}

// brief shows a few lines of each list: nothing can be folded on a terminal.
func (o Options) brief() Options {
	if o.Lines == 0 {
		o.Lines = fewLines
	}
	return o
}

// manyChanges is up to how many changes the details alone are easy to survey;
// fewLines is how much is shown of each where there are more.
const (
	manyChanges = 10
	fewLines    = 8
)

// overview names the changes before their details.
func (o Options) overview(b *strings.Builder, changes []Change) {
	b.WriteString("\n" + o.color("bold", fmt.Sprintf("In short (%d):", len(changes))) + "\n")
	for _, c := range changes {
		b.WriteString("  " + o.color(c.symbol(), c.symbol()+" "+c.title()) + "\n")
	}
}

// changes writes the changes, deletions first.
func (o Options) changes(b *strings.Builder, changes []Change) {
	if len(changes) > manyChanges {
		o = o.brief()
	}
	made := true
	all := Report{Changes: changes}.byDanger()
	for i, c := range all {
		if made && c.Compared {
			made = false
			b.WriteString("\n" + o.color("bold", fmt.Sprintf("Only compared (%d):", len(all)-i)) + "\n")
		}
		o.change(b, c)
	}
}

// textDrift writes what had drifted before.
func (r Report) textDrift(b *strings.Builder, o Options) {
	title := r.driftTitle()
	if title == "" {
		return
	}
	var inner strings.Builder
	for _, l := range r.Drift.lines(plainStyle()) {
		how := ""
		if strings.HasPrefix(l, "? ") {
			how = "?"
		}
		inner.WriteString(o.color(how, l) + "\n")
	}
	o.write(&inner, r.driftedNodes(o.brief()))
	o.brief().changes(&inner, r.Drift.Changes)
	b.WriteString("\n" + o.color("bold", title+":") + "\n  " + driftIntro + "\n")
	for l := range strings.Lines(inner.String()) {
		if l != "\n" {
			l = "  " + l
		}
		b.WriteString(l)
	}
}

// change writes one change and its body.
func (o Options) change(b *strings.Builder, c Change) {
	s := c.symbol()
	b.WriteString("\n" + o.color(s, s+" "+c.title()) + "\n")
	for _, l := range o.body(c) {
		b.WriteString("    " + o.color(l.symbol, strings.TrimRight(l.symbol+" "+l.text, " ")) + "\n")
	}
}

// color colours s when colours are asked for.
func (o Options) color(how, s string) string {
	code := map[string]string{"+": "32", "-": "31", "~": "33", "≠": "36", "?": "35", "bold": "1"}[how]
	if !o.Color || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// JSON writes the report in its stable form. Characters that a terminal could
// act on are escaped, also where JSON does not ask for it.
func (r Report) JSON(w io.Writer) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if r = r.sanitized(); r.detailed() {
		r.Summary.Headline = briefly(r.phrases(plainStyle()))
	}
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	var out bytes.Buffer
	for raw := b.Bytes(); len(raw) > 0; {
		c, size := utf8.DecodeRune(raw)
		if c != '\n' && !unicode.IsPrint(c) {
			// Such characters stand only within strings.
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		} else {
			out.Write(raw[:size])
		}
		raw = raw[size:]
	}
	_, err := w.Write(out.Bytes())
	return err
}

// The values of SyncState: metadata.deletionTimestamp, spec.suspend, and reasons of a stalled Sync.
const (
	terminating    = "Terminating"
	suspended      = "Suspended"
	notFastForward = "NotFastForward"
	limitExceeded  = "LimitExceeded"
)

// stateLine reports that the plan is not carried out as it is, and what changes that; empty
// where it is.
func (r Report) stateLine() string {
	namespace, name, known := strings.Cut(sanitize.Redact(r.Sync), "/")
	of := ""
	if known {
		of = " " + name
	}
	switch r.SyncState {
	case terminating:
		return "Sync" + of + " is being deleted: nothing of this is applied, and its Ready condition has what its deletion waits for"
	case suspended:
		out := "Sync" + of + " is suspended: nothing of this is applied before it is resumed"
		if known {
			out += " with `poolwright resume " + name + " -n " + namespace + "`"
		}
		return out
	case notFastForward:
		return "Sync" + of + " applies no newer revision (NotFastForward): put its branch back, or confirm the move with the command in the message of its Ready condition"
	case limitExceeded:
		return "Sync" + of + " applies no newer revision (LimitExceeded): the followed one is beyond a limit, and is applied once it is within it"
	}
	return ""
}
