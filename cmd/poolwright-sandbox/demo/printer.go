package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Printer prints the demo's events, one after the other.
type Printer interface {
	Print(Event)
}

// JSON prints one event a line.
func JSON(out io.Writer) Printer { return jsonPrinter{out} }

type jsonPrinter struct{ out io.Writer }

func (j jsonPrinter) Print(e Event) {
	e.At = e.At.UTC().Truncate(time.Millisecond)
	encoder := json.NewEncoder(j.out)
	encoder.SetEscapeHTML(false)
	// Strings, times and numbers always encode, and nobody is left to report it to
	// where the output is closed.
	_ = encoder.Encode(e)
}

// Text prints a timeline for a person, in seconds since start.
func Text(out io.Writer, start time.Time) Printer { return &textPrinter{out: out, start: start} }

type textPrinter struct {
	out   io.Writer
	start time.Time
	last  time.Time
}

func (p *textPrinter) Print(e Event) {
	if s, ok := e.Detail.(summary); ok {
		s.print(p.out)
		return
	}
	// The run's order is not always the clock's: a pod may be bound before
	// Karpenter calls its node initialized. Only steps forward have a length.
	since := "       "
	if !p.last.IsZero() && e.At.After(p.last) {
		since = fmt.Sprintf("%+6.2fs", e.At.Sub(p.last).Seconds())
	}
	if e.At.After(p.last) {
		p.last = e.At
	}
	row := fmt.Sprintf("%7.2fs %s  %-20s %-31s ", e.At.Sub(p.start).Seconds(), since, e.Event, brief(e.Object))
	details := wrapped(brief(fmt.Sprint(e.Detail)), pageWidth-detailColumn)
	if utf8.RuneCountInString(row) > detailColumn {
		fmt.Fprintln(p.out, strings.TrimRight(row, " "))
		row = strings.Repeat(" ", detailColumn)
	}
	fmt.Fprintln(p.out, row+strings.Join(details, "\n"+strings.Repeat(" ", detailColumn)))
	// Whoever has read it once needs what has changed in it.
	if e.Event == commentCreated {
		fmt.Fprintln(p.out, indented(e.Comment))
	}
}

// The text's columns; what is longer goes on in the next line.
const (
	pageWidth    = 120
	detailColumn = 71
)

// brief leaves out what a reader need not have: the end of a commit's hash and the
// domain of a node's name.
func brief(text string) string {
	text = regexp.MustCompile(`\b([0-9a-f]{8})[0-9a-f]{32}\b`).ReplaceAllString(text, "$1")
	return regexp.MustCompile(`\b(ip-[0-9-]+)(?:\.[a-z0-9-]+)+`).ReplaceAllString(text, "$1")
}

// wrapped breaks a text between words. A single word may be longer than the width.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for field := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line+" "+field) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + field)
	}
	return append(lines, line)
}

// indented is a comment below its event.
func indented(comment string) string {
	quoted := "\n    | " + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n    | ") + "\n"
	return strings.ReplaceAll(quoted, "| \n", "|\n") // What is copied from a terminal keeps no blanks.
}
