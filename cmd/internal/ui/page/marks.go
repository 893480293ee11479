package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/history"
)

const (
	// markSlots is how many marks of one kind a timeline has at most: more could not be distinguished.
	markSlots = 50
	// maxMarked is how many names of what happened a mark has.
	maxMarked = 3
)

// mark is a place on the timeline where something happened.
type mark struct {
	// X is where, in percent of the width.
	X string
	// Text is when and what.
	Text string
}

// markRow are the marks of one kind.
type markRow struct {
	Name, Class, Sign string
	// Count is how many there are in the window, Marks the places.
	Count int
	Marks []mark
	// Text is what the marks are, for who cannot read them, and Latest when and what happened last.
	Text, Latest string
}

// timelineEvent is one thing that happened.
type timelineEvent struct {
	at   time.Time
	text string
}

// marksOf are what happened in the window, as marks above the nodes. A kind of which nothing happened has no row.
func marksOf(h history.History, now time.Time, window time.Duration) []markRow {
	var applied, merged, drift, interrupted []timelineEvent
	for _, a := range h.Applies {
		text := short(a.Revision)
		if a.Failed > 0 {
			text += fmt.Sprintf(", %d failed", a.Failed)
		}
		applied = append(applied, timelineEvent{a.Time.Time, text})
	}
	for _, p := range h.PullRequests {
		merged = append(merged, timelineEvent{p.Merged.Time, fmt.Sprintf("#%d", p.Number)})
	}
	for _, d := range h.Drift {
		text := clean(d.Object)
		if len(d.Managers) > 0 {
			text += " by " + clean(d.Managers[0].Name)
		}
		drift = append(drift, timelineEvent{d.Time.Time, text})
	}
	for _, n := range h.NodeClaims {
		if n.Reason.Interruption() {
			interrupted = append(interrupted, timelineEvent{n.Deleted.Time, clean(n.Name) + ": " + clean(string(n.Reason))})
		}
	}
	var out []markRow
	for _, row := range []struct {
		name, class, sign string
		of                []timelineEvent
	}{{"Applied", "applied", "▲", applied}, {"Merged", "merged", "●", merged}, {"Drift", "drift", "≠", drift}, {"Interrupted", "interrupted", signWarning, interrupted}} {
		if r := markRowOf(row.of, now, window); r.Count > 0 {
			r.Name, r.Class, r.Sign = row.name, row.class, row.sign
			out = append(out, r)
		}
	}
	return out
}

// markRowOf are the marks of what happened in the window; those at one place are one mark.
func markRowOf(of []timelineEvent, now time.Time, window time.Duration) markRow {
	begins := now.Add(-window)
	of = slices.DeleteFunc(of, func(m timelineEvent) bool { return m.at.Before(begins) || m.at.After(now) })
	slices.SortStableFunc(of, func(a, b timelineEvent) int { return a.at.Compare(b.at) })
	row := markRow{Count: len(of)}
	var texts []string
	for i := 0; i < len(of); {
		slot := slotOf(of[i].at, begins, window)
		end := i
		for end < len(of) && slotOf(of[end].at, begins, window) == slot {
			end++
		}
		text := markText(of[i:end], now)
		const percents = 100
		row.Marks = append(row.Marks, mark{X: strconv.FormatFloat((float64(slot)+0.5)*percents/markSlots, 'f', -1, 64) + "%", Text: text})
		texts = append(texts, text)
		i = end
	}
	if len(of) > 0 {
		// A mark can be of several events, and has the time of the first.
		row.Latest = markText(of[len(of)-1:], now)
	}
	row.Text = strings.Join(texts, "; ")
	return row
}

// slotOf is the place of a time in the window.
func slotOf(at, begins time.Time, window time.Duration) int {
	return min(markSlots-1, int(float64(at.Sub(begins))/float64(window)*markSlots))
}

// markText is when and what happened at one place.
func markText(of []timelineEvent, now time.Time) string {
	var names []string
	for _, m := range of[:min(len(of), maxMarked)] {
		names = append(names, m.text)
	}
	text := clock(of[0].at, now) + " " + strings.Join(slices.Compact(names), ", ")
	if more := len(of) - maxMarked; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
