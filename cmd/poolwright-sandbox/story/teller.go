package story

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Teller is given a story's events, one after the other.
type Teller interface {
	Tell(Event)
}

// JSON prints one event a line.
func JSON(out io.Writer) Teller { return jsonTeller{out} }

type jsonTeller struct{ out io.Writer }

func (j jsonTeller) Tell(e Event) {
	e.At = e.At.UTC().Truncate(time.Millisecond)
	encoder := json.NewEncoder(j.out)
	encoder.SetEscapeHTML(false)
	// Strings, times and numbers always encode, and nobody is left to tell
	// where the output is closed.
	_ = encoder.Encode(e)
}

// Text prints a timeline for a person, in seconds since start.
func Text(out io.Writer, start time.Time) Teller { return &textTeller{out: out, start: start} }

type textTeller struct {
	out   io.Writer
	start time.Time
	last  time.Time
}

func (p *textTeller) Tell(e Event) {
	if s, ok := e.Detail.(summary); ok {
		s.print(p.out)
		return
	}
	// The story's order is not always the clock's: a pod may be bound before
	// Karpenter calls its node initialized. Only steps forward have a length.
	since := "       "
	if !p.last.IsZero() && e.At.After(p.last) {
		since = fmt.Sprintf("%+6.2fs", e.At.Sub(p.last).Seconds())
	}
	if e.At.After(p.last) {
		p.last = e.At
	}
	fmt.Fprintf(p.out, "%7.2fs %s  %-20s %-45s %s\n", e.At.Sub(p.start).Seconds(), since, e.Event, e.Object, e.Detail)
	// Whoever has read it once wants to know what has changed in it.
	if e.Event == pullTold {
		fmt.Fprintln(p.out, indented(e.Comment))
	}
}

// indented is a comment below its event.
func indented(comment string) string {
	return "\n    | " + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n    | ") + "\n"
}
