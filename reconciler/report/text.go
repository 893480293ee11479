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

	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Text writes the report for a terminal: in the order of Markdown.
func (r Report) Text(w io.Writer, o Options) error {
	var b strings.Builder
	r = r.sanitized()
	v := markup.PlainText()
	var head []string
	if r.detailed() {
		head = append(head, r.fullHeadline(v))
	}
	for _, l := range append(head, r.headline(), r.outcomeLine()) {
		if l != "" {
			b.WriteString(o.color("bold", l) + "\n")
		}
	}
	for _, l := range []string{r.stateLine(), r.Provenance.line(v), r.idleLine()} {
		if l != "" {
			b.WriteString(l + "\n")
		}
	}
	section.Text(&b, o.color, r.alarms(v)...)
	section.Text(&b, o.color, r.consequences(o.brief(), v)...)
	if len(r.Changes) > manyChanges {
		o.overview(&b, r.byDanger())
	}
	o.changes(&b, r.Changes)
	section.Text(&b, o.color, r.noteSection(v)...)
	r.textDrift(&b, o)
	section.Text(&b, o.color, r.unknown(o.brief(), v))
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
		if made && c.ReadOnly {
			made = false
			b.WriteString("\n" + o.color("bold", fmt.Sprintf("Read-only (%d):", len(all)-i)) + "\n")
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
	unknown, notes := r.Drift.lines(markup.PlainText())
	for _, l := range unknown {
		inner.WriteString(o.color("?", l) + "\n")
	}
	for _, l := range notes {
		inner.WriteString(l + "\n")
	}
	section.Text(&inner, o.color, r.driftedNodes(o.brief()))
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
		b.WriteString("    " + o.color(l.Symbol, strings.TrimRight(l.Symbol+" "+l.Text, " ")) + "\n")
	}
}

// color colours s when colours are on.
func (o Options) color(how, s string) string {
	code := map[string]string{"+": "32", "-": "31", "~": "33", "≠": "36", "?": "35", "bold": "1"}[how]
	if !o.Color || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// JSON writes the report in its stable form. Characters that a terminal could
// act on are escaped, also where JSON does not require it.
func (r Report) JSON(w io.Writer) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if r = r.sanitized(); r.detailed() {
		r.Summary.Headline = headline.Shorten(r.phrases(markup.PlainText()))
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

// The values of SyncState: metadata.deletionTimestamp, spec.suspend, a rollback, and reasons of a stalled Sync.
const (
	terminating    = "Terminating"
	suspended      = "Suspended"
	rolledBack     = "RolledBack"
	notFastForward = "NotFastForward"
	limitExceeded  = "LimitExceeded"
)

// resumedWith is the command that resumes a Sync, with its flags; empty without a name.
func resumedWith(name, namespace, flags string) string {
	if name == "" {
		return ""
	}
	return " with `poolwright resume " + name + " -n " + namespace + flags + "`"
}

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
		return "Sync" + of + " is suspended: nothing of this is applied before it is resumed" + resumedWith(name, namespace, "")
	case rolledBack:
		return "Sync" + of + " is rolled back to an earlier revision: nothing of this is applied before it is resumed" + resumedWith(name, namespace, " --rollback")
	case notFastForward:
		return "Sync" + of + " applies no newer revision (NotFastForward): put its branch back, or confirm the move with the command in the message of its Ready condition"
	case limitExceeded:
		return "Sync" + of + " applies no newer revision (LimitExceeded): the followed one is beyond a limit, and is applied once it is within it"
	}
	return ""
}
