package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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

// costs computes what the document states of a month anew, with the prices of the sandbox's AWS. On demand these
// are us-east-1's in every commercial region, and on spot they are made up.
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

// figure is what a set-up's document has for a value of its run.
type figure struct {
	text string
	// simulated is set where EC2, the node's image or the container's takes most of that time, and for a price:
	// the sandbox has none of them, and what is here cannot be compared.
	simulated bool
}

// row is a line of the summary: a value of the run, and the document's.
type row struct {
	// field is the value's name in JSON; empty where another command has it.
	field, title string
	value        float64
	// unit is how the value is written.
	unit     func(float64) string
	document figure
}

func inSeconds(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " s" }
func inDollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }
func inCents(v float64) string   { return "$" + strconv.FormatFloat(v, 'f', 4, 64) }
func asCount(v float64) string   { return strconv.FormatFloat(v, 'f', -1, 64) + "  " }

// costRows are the scenarios of a document, as poolwright cost returns them, that have a price today.
func costRows(raw []byte) (rows []row, err error) {
	var costs struct {
		Document struct {
			Scenarios []struct {
				Name      string
				Hours     float64
				StatedUSD struct{ Min, Max float64 }
				TodayUSD  *float64
			}
		}
	}
	if err := json.Unmarshal(raw, &costs); err != nil {
		return nil, fmt.Errorf("reading the costs: %w", err)
	}
	for _, c := range costs.Document.Scenarios {
		if c.TodayUSD == nil {
			continue
		}
		stated := fmt.Sprintf("$%g", c.StatedUSD.Min)
		if c.StatedUSD.Max > c.StatedUSD.Min {
			stated += fmt.Sprintf("–%g", c.StatedUSD.Max)
		}
		rows = append(rows, row{title: fmt.Sprintf("%s, %g h a month", c.Name, c.Hours), value: *c.TodayUSD, unit: inDollars,
			document: figure{text: stated, simulated: true}})
	}
	return rows, nil
}

// measure is a time between two events, by its field and its title. It is not taken
// where unless was recorded: a node that is kept does not end because its pod did.
type measure struct {
	field, title, from, to, unless string
	// compared is set for a time that is taken only where the document has a figure for it.
	compared bool
}

func measures() []measure {
	return []measure{
		{field: "pendingToFleetSeconds", title: "pod pending  -> CreateFleet requested", from: podPending, to: fleetRequested},
		{field: "fleetToRegisteredSeconds", title: "CreateFleet  -> node registered", from: fleetRequested, to: nodeRegistered, compared: true},
		// Two watches report that the GPU is there and that the pod is bound, in any order.
		{field: "registeredToBoundSeconds", title: "registered   -> GPU there, pod bound", from: nodeRegistered, to: podBound, compared: true},
		{field: "boundToRunningSeconds", title: "pod bound    -> pod running", from: podBound, to: podRunning, compared: true},
		{field: "pendingToRunningSeconds", title: "pod pending  -> pod running on its GPU", from: podPending, to: podRunning},
		{field: "driftSeconds", title: "hand edit    -> put back", from: driftInjected, to: driftCorrected},
		{field: "commitSeconds", title: "commit       -> applied", from: commitPushed, to: commitApplied},
		{field: "interruptedToRunningSeconds", title: "spot warning -> pod running elsewhere", from: spotInterrupted, to: podRunning},
		{field: "interruptedToDrainedSeconds", title: "spot warning -> node gone", from: spotInterrupted, to: nodeDrained},
		{field: "deletedToTerminatedSeconds", title: "pod deleted  -> instance terminated", from: podDeleted, to: instanceTerminated, unless: nodeKept},
		{field: "keptSeconds", title: "pod deleted  -> its node still runs", from: podDeleted, to: nodeKept},
	}
}

// summary is the detail of the last event.
type summary []row

// taken are the measures whose events have been recorded, each on the first timeline
// that has both.
func taken(timelines []*timeline, figures map[string]figure) (rows []row) {
	for _, m := range measures() {
		document, known := figures[m.field]
		if m.compared && !known {
			continue
		}
		for _, t := range timelines {
			if seconds, both := t.between(m.from, m.to); both && !t.has(m.unless) {
				rows = append(rows, row{field: m.field, title: m.title, value: seconds, unit: inSeconds, document: document})
				break
			}
		}
	}
	return rows
}

// MarshalJSON is one object with a number a field; document has the figures of the document by the same fields.
func (s summary) MarshalJSON() ([]byte, error) {
	fields, document := map[string]any{}, map[string]string{}
	for _, r := range s {
		if r.field == "" {
			continue
		}
		fields[r.field] = r.value
		if r.document.text != "" {
			document[r.field] = r.document.text
		}
	}
	if len(document) > 0 {
		fields["document"] = document
	}
	return json.Marshal(fields)
}

func (s summary) print(out io.Writer) {
	const titles, values = 40, 9
	simulated := false
	fmt.Fprintln(out)
	if slices.ContainsFunc(s, func(r row) bool { return r.document.text != "" }) {
		fmt.Fprintf(out, "  %-*s  %*s  the document\n", titles, "", values, "here")
	}
	for _, r := range s {
		text := r.document.text
		if r.document.simulated {
			text, simulated = text+" *", true
		}
		line := fmt.Sprintf("  %-*s  %*s  %s", titles, r.title, values, r.unit(r.value), text)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	if simulated {
		fmt.Fprintln(out, "  * of EC2, of its prices and of images, which the sandbox only simulates")
	}
}
