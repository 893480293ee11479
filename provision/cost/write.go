package cost

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Text writes the table for a terminal.
func (t Table) Text(w io.Writer) error {
	var b strings.Builder
	for i, p := range t.sections() {
		if i > 0 {
			b.WriteString("\n")
		}
		p.text(&b)
	}
	return send(w, b.String())
}

func (p tableSection) text(b *strings.Builder) {
	if p.title != "" {
		b.WriteString(p.title + ":\n")
	}
	rows := [][]string{p.head}
	for _, row := range p.rows {
		var texts []string
		for _, c := range row {
			texts = append(texts, c.text)
		}
		rows = append(rows, texts)
	}
	if len(p.rows) > 0 {
		for _, row := range aligned(rows, p.left) {
			b.WriteString("  " + row + "\n")
		}
	}
	indent := "  "
	if p.title == "" {
		indent = ""
	}
	for _, l := range p.lines {
		var text strings.Builder
		for _, c := range l {
			text.WriteString(c.text)
		}
		b.WriteString(wrapped(text.String(), indent))
	}
}

// lineWidth is where sentences are broken; the tables of short names are as wide.
const lineWidth = 80

// wrapped breaks a sentence at spaces, all lines but the first indented more.
func wrapped(text, indent string) string {
	var b strings.Builder
	at := 0
	for i, field := range strings.Fields(text) {
		width := utf8.RuneCountInString(field)
		switch {
		case i == 0:
			b.WriteString(indent)
			at = len(indent)
		case at+1+width > lineWidth:
			b.WriteString("\n  " + indent)
			at = len(indent) + 2
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(field)
		at += width
	}
	return b.String() + "\n"
}

// aligned sets cells below each other: the first columns to the left, figures to the
// right.
func aligned(rows [][]string, left int) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var out []string
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i < left {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

// Markdown writes the table for a page or a comment. Names stand in code.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	for i, p := range t.sections() {
		if i > 0 {
			b.WriteString("\n")
		}
		p.markdown(&b)
	}
	return send(w, b.String())
}

func (p tableSection) markdown(b *strings.Builder) {
	if p.title != "" {
		b.WriteString("**" + p.title + "**\n\n")
	}
	if len(p.rows) > 0 {
		b.WriteString("| " + strings.Join(p.head, " | ") + " |\n")
		b.WriteString(strings.Repeat("|---", p.left) + strings.Repeat("|---:", len(p.head)-p.left) + "|\n")
	}
	for _, row := range p.rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, strings.ReplaceAll(c.markdown(), "|", "│"))
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	if len(p.rows) > 0 && len(p.lines) > 0 {
		b.WriteString("\n")
	}
	for _, l := range p.lines {
		b.WriteString("- ")
		for _, c := range l {
			b.WriteString(c.markdown())
		}
		b.WriteString("\n")
	}
}

// markdown is a cell; two dollar signs could make a formula of what is between, and
// an asterisk or underscore changes the type.
func (c cell) markdown() string {
	if c.quote {
		return "`" + strings.ReplaceAll(c.text, "`", "'") + "`"
	}
	return strings.NewReplacer("$", `\$`, "*", `\*`, "_", `\_`, "<", `\<`).Replace(c.text)
}

// JSON writes the table in its stable form.
func (t Table) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(t); err != nil {
		return fmt.Errorf("writing the costs as JSON: %w", err)
	}
	return nil
}

func send(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the costs: %w", err)
	}
	return nil
}
