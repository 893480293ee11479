package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
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
		// "No changes" would be said of what nobody has seen.
		out = fmt.Sprintf("Plan: incomplete, nothing could be compared (%s)", count(s.Unknown, "object"))
	case s.Unknown > 0:
		out = fmt.Sprintf("Plan: incomplete, %d of %d objects could not be compared; %d as declared", s.Unknown, s.Unknown+known, s.Unchanged)
	default:
		out = fmt.Sprintf("Plan: no changes, %s as declared", count(s.Unchanged, "object"))
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
	out := visible(c.Object.String())
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

func place(file string, line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", visible(file), line)
	}
	return visible(file)
}

// Text writes the report for a terminal.
func (r Report) Text(w io.Writer, o Options) error {
	var b strings.Builder
	f := r.forecast()
	if f != nil {
		b.WriteString(o.paint("bold", r.verdict(f, plainVoice())) + "\n")
	}
	b.WriteString(o.paint("bold", r.headline()) + "\n")
	if s := r.outcomeLine(); s != "" {
		b.WriteString(o.paint("bold", s) + "\n")
	}
	warnings, notes := r.Notes[:r.Summary.Warnings], r.Notes[r.Summary.Warnings:]
	o.list(&b, "~", "Warnings", lines(warnings))
	if f != nil {
		o.consequences(&b, f)
	}
	made, compared := r.divided()
	if len(r.Changes) > manyChanges {
		o.overview(&b, made, compared)
		if o.Lines == 0 {
			o.Lines = fewLines
		}
	}
	for _, c := range made {
		o.change(&b, c)
	}
	if len(compared) > 0 {
		b.WriteString("\n" + o.paint("bold", fmt.Sprintf("Only compared (%d):", len(compared))) + "\n")
	}
	for _, c := range compared {
		o.change(&b, c)
	}
	r.textUnknown(&b, o)
	o.list(&b, "bold", "Notes", lines(notes))
	r.textHolds(&b, o)
	o.list(&b, "bold", "Not ready", lines(r.NotReady))
	o.list(&b, "-", "Problems", lines(r.Problems))
	_, err := io.WriteString(w, b.String())
	return err
}

// manyChanges is up to how many changes the details alone are easy to survey;
// fewLines is how much is shown of each where there are more.
const (
	manyChanges = 10
	fewLines    = 8
)

// list writes a section of one line for each entry.
func (o Options) list(b *strings.Builder, how, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + o.paint(how, fmt.Sprintf("%s (%d):", title, len(lines))) + "\n")
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
}

// overview names the changes before their details.
func (o Options) overview(b *strings.Builder, made, compared []Change) {
	var names []string
	for _, c := range slices.Concat(made, compared) {
		names = append(names, o.paint(c.symbol(), c.symbol()+" "+c.title()))
	}
	o.list(b, "bold", "In short", names)
}

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

// change writes one change and its body.
func (o Options) change(b *strings.Builder, c Change) {
	s := c.symbol()
	b.WriteString("\n" + o.paint(s, s+" "+c.title()) + "\n")
	for _, l := range o.body(c) {
		b.WriteString("    " + o.paint(l.symbol, strings.TrimRight(l.symbol+" "+l.text, " ")) + "\n")
	}
}

// textUnknown lists what is unknown.
func (r Report) textUnknown(b *strings.Builder, o Options) {
	if len(r.Unknown) == 0 {
		return
	}
	b.WriteString("\n" + o.paint("?", fmt.Sprintf("Unknown, not compared (%d):", len(r.Unknown))) + "\n")
	for _, l := range r.unknownLines() {
		b.WriteString("  " + o.paint("?", l) + "\n")
	}
}

// unknownLines say each reason once, with the things that it concerns below.
func (r Report) unknownLines() []string {
	concerned := map[string][]Unknown{}
	for _, u := range r.Unknown {
		concerned[u.Reason] = append(concerned[u.Reason], u)
	}
	var out []string
	for _, u := range r.Unknown {
		all := concerned[u.Reason]
		delete(concerned, u.Reason)
		switch len(all) {
		case 0: // Said before.
		case 1:
			out = append(out, "? "+named(u.Object, u.File, u.Line)+": "+visible(u.Reason))
		default:
			out = append(out, fmt.Sprintf("? %d things: %s", len(all), visible(u.Reason)))
			for _, one := range all {
				out = append(out, "    "+named(one.Object, one.File, one.Line))
			}
		}
	}
	return out
}

func (n Note) line() string { return named(n.Object, n.File, n.Line) + ": " + visible(n.Text) }

func (n NotReady) line() string { return named(n.Object, "", 0) + ": " + visible(n.Reason) }

// named names a thing and its place.
func named(object Object, file string, line int) string {
	out := visible(object.String())
	if at := place(file, line); at != "" {
		out += " (" + at + ")"
	}
	return out
}

func (r Report) textHolds(b *strings.Builder, o Options) {
	if len(r.Holds) == 0 {
		return
	}
	b.WriteString("\n" + o.paint("~", fmt.Sprintf("Held (%d):", r.Summary.Held)) + "\n")
	for _, h := range r.Holds {
		b.WriteString("  " + visible(h.Reason) + "\n")
		for _, obj := range h.Objects {
			b.WriteString("    " + visible(obj.String()) + "\n")
		}
		if h.Confirm != "" {
			b.WriteString("    to confirm: " + h.command() + "\n")
		}
	}
}

// command is what a person types to let the held deletions go on.
func (h Hold) command() string {
	return "kubectl -n poolwright-system annotate sync NAME --overwrite poolwright.dev/confirm=" + h.Confirm
}

func (p Problem) line() string {
	if at := place(p.File, p.Line); at != "" {
		return at + ": " + visible(p.Message)
	}
	return visible(p.Message)
}

// paint colours s when colours are asked for.
func (o Options) paint(how, s string) string {
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
	if r.Forecast = r.forecast(); r.Forecast != nil {
		r.Summary.Verdict = r.verdict(r.Forecast, plainVoice())
	}
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	var out bytes.Buffer
	for raw := b.Bytes(); len(raw) > 0; {
		c, size := utf8.DecodeRune(raw)
		if c != '\n' && unsafe(c) {
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
