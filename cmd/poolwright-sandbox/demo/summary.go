package demo

import (
	"context"
	"time"
)

// summary is the last event.
func (s *Run) summary(ctx context.Context) Event {
	now := time.Now()
	timelines := []*timeline{s.marks}
	for _, r := range s.watched.all() {
		timelines = append(timelines, r.marks)
	}
	rows := append(taken(timelines, s.scenario.figures),
		row{field: "gpuNodes", title: "GPU nodes left", value: float64(s.gpuNodes(ctx)), unit: asCount},
		row{field: "costUSD", title: "spent", value: s.environment.AWS.Spend(now), unit: inCents})
	return Event{Event: summaryEvent, At: now, Object: "sandbox", Detail: summary(append(rows, s.extra...))}
}

// record adds a line that only this run has.
func (s *Run) record(rows ...row) {
	s.extra = append(s.extra, rows...)
}

// costs computes what the document states of a month anew, with the prices of the sandbox's AWS.
func (s *Run) costs() scenarioStep {
	return scenarioStep{action: func(ctx context.Context) error {
		raw, err := s.product(ctx, "cost", s.clusterFolder(), "--prices=aws", "--output=json")
		if err != nil {
			return err
		}
		rows, err := costRows(raw)
		s.record(rows...)
		return err
	}}
}
