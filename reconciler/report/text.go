package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// headline is the report in a line.
func (r Report) headline() string {
	s := r.Summary
	if s.Create+s.Update+s.Delete == 0 {
		return fmt.Sprintf("Plan: no changes, %s as declared", count(s.Unchanged, "object"))
	}
	out := fmt.Sprintf("Plan: %d to create, %d to update, %d to delete", s.Create, s.Update, s.Delete)
	if s.Held > 0 {
		out += fmt.Sprintf(" (%d held)", s.Held)
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
	}{{t.Held, "held"}, {t.Failed, "failed"}, {t.Conflict, "in conflict"}, {t.Skipped, "skipped"}} {
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
	b.WriteString(o.paint("bold", r.headline()) + "\n")
	if s := r.outcomeLine(); s != "" {
		b.WriteString(o.paint("bold", s) + "\n")
	}
	for _, c := range r.Changes {
		s := symbol(c.Action)
		b.WriteString("\n" + o.paint(s, s+" "+c.title()) + "\n")
		for _, l := range o.body(c) {
			b.WriteString("    " + o.paint(l.symbol, strings.TrimRight(l.symbol+" "+l.text, " ")) + "\n")
		}
	}
	r.textHolds(&b, o)
	if len(r.NotReady) > 0 {
		b.WriteString("\n" + o.paint("bold", fmt.Sprintf("Not ready (%d):", len(r.NotReady))) + "\n")
		for _, n := range r.NotReady {
			b.WriteString("  " + visible(n.Object.String()) + ": " + visible(n.Reason) + "\n")
		}
	}
	if len(r.Problems) > 0 {
		b.WriteString("\n" + o.paint("-", fmt.Sprintf("Problems (%d):", len(r.Problems))) + "\n")
		for _, p := range r.Problems {
			b.WriteString("  " + p.line() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
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
	code := map[string]string{"+": "32", "-": "31", "~": "33", "bold": "1"}[how]
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
