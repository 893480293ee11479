package page

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/cmd/internal/get"
)

const (
	// timelineWidth is that of a timeline in the units of its viewBox.
	timelineWidth = 1000
	// leastWidth is how wide a phase is at least, so that a short one can be recognized.
	leastWidth = 4
)

// bar is a phase of a node in a timeline.
type bar struct {
	// Class is that of its state, in lower case.
	Class string
	// X and Width are in units of timelineWidth.
	X, Width int
}

// lifeline are the phases of a node as bars, and as a text.
type lifeline struct {
	Bars []bar
	// Text is what the bars are, for who cannot read them.
	Text string
}

// timelineOf are the phases within the window that ends now, the last of them until it ends.
func timelineOf(phases []get.Phase, ends, now time.Time, window time.Duration) lifeline {
	var out lifeline
	var texts []string
	begins := now.Add(-window)
	at := func(t time.Time) int {
		share := float64(t.Sub(begins)) / float64(window)
		return int(min(1, max(0, share)) * timelineWidth)
	}
	for i, p := range phases {
		until := ends
		if i+1 < len(phases) {
			until = phases[i+1].Since.Time
		}
		length := until.Sub(p.Since.Time)
		if length <= 0 && i+1 < len(phases) {
			continue
		}
		texts = append(texts, clean(p.State)+" "+duration.HumanDuration(max(0, length).Round(time.Second)))
		if !until.After(begins) {
			continue
		}
		x, end := at(p.Since.Time), at(until)
		if end-x < leastWidth {
			end = min(timelineWidth, x+leastWidth)
			x = end - leastWidth
		}
		out.Bars = append(out.Bars, bar{Class: classOf(p.State), X: x, Width: end - x})
	}
	out.Text = strings.Join(texts, ", ")
	return out
}

// classOf is the class of a state: of one that the style sheet does not have, none.
func classOf(state string) string {
	switch state {
	case "Launching", "Registering", "Initializing", "Ready", "NotReady", "Empty", "Terminating":
		return strings.ToLower(state)
	}
	return "other"
}

// tick is a label of the axis of a timeline.
type tick struct {
	Text string
	// Class is now for the last one.
	Class string
}

// ticksOf are the labels of the axis: four times, and now.
func ticksOf(now time.Time, window time.Duration) []tick {
	const parts = 4
	layout := "15:04"
	if window > 24*time.Hour {
		layout = "Jan 2"
	}
	var out []tick
	for i := range parts {
		out = append(out, tick{Text: now.Add(-window + window/parts*time.Duration(i)).UTC().Format(layout)})
	}
	return append(out, tick{Text: "now", Class: "now"})
}
