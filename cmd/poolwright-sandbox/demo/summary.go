package demo

import (
	"context"
	"time"
)

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
