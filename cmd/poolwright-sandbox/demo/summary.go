package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// measure is a time between two events, by its field and its title. It is not taken
// where unless was recorded: a node that is kept does not end because its pod did.
type measure struct{ field, title, from, to, unless string }

func measures() []measure {
	return []measure{
		{"pendingToFleetSeconds", "pod pending  -> CreateFleet requested", podPending, fleetRequested, ""},
		{"pendingToRunningSeconds", "pod pending  -> pod running on its GPU", podPending, podRunning, ""},
		{"driftSeconds", "hand edit    -> put back", driftInjected, driftCorrected, ""},
		{"commitSeconds", "commit       -> applied", commitPushed, commitApplied, ""},
		{"interruptedToRunningSeconds", "spot warning -> pod running elsewhere", spotInterrupted, podRunning, ""},
		{"deletedToTerminatedSeconds", "pod deleted  -> instance terminated", podDeleted, instanceTerminated, nodeKept},
	}
}

// summary is the detail of the last event.
type summary struct {
	spans    []span
	gpuNodes int
	costUSD  float64
}

// span is a measure that was taken.
type span struct {
	measure
	seconds float64
}

// summary is the last event.
func (s *Run) summary(ctx context.Context) Event {
	now := time.Now()
	timelines := []*timeline{s.marks}
	for _, r := range s.watched.all() {
		timelines = append(timelines, r.marks)
	}
	sum := summary{spans: taken(timelines), gpuNodes: s.gpuNodes(ctx), costUSD: s.environment.AWS.Spend(now)}
	return Event{Event: summaryEvent, At: now, Object: "sandbox", Detail: sum}
}

// taken are the measures whose events have been recorded, each on the first timeline
// that has both.
func taken(timelines []*timeline) (spans []span) {
	for _, m := range measures() {
		for _, t := range timelines {
			if seconds, both := t.between(m.from, m.to); both && !t.has(m.unless) {
				spans = append(spans, span{m, seconds})
				break
			}
		}
	}
	return spans
}

// MarshalJSON is one object with a number a field.
func (s summary) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"gpuNodes": s.gpuNodes, "costUSD": s.costUSD}
	for _, m := range s.spans {
		fields[m.field] = m.seconds
	}
	return json.Marshal(fields)
}

func (s summary) print(out io.Writer) {
	fmt.Fprintln(out)
	for _, m := range s.spans {
		fmt.Fprintf(out, "  %-40s  %6.2f s\n", m.title, m.seconds)
	}
	fmt.Fprintf(out, "  %-40s  %6d\n  %-40s $%.4f\n", "GPU nodes left", s.gpuNodes, "spent", s.costUSD)
}
