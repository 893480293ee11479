package prove

import (
	"slices"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
)

// scenarioOf is the scenario of a case.
func scenarioOf(c proveCase) scenarios.Scenario {
	at, _ := placeOf(c)
	return scenarios.All()[at]
}

// recording is the run of a scenario that recorded its points, nil where there is none.
func (r *Report) recording(scenario string) *Result {
	for i, result := range r.Results {
		if result.Case == (proveCase{Scenario: scenario, Fault: noFault}) && result.Outcome == Held {
			return &r.Results[i]
		}
	}
	return nil
}

// observe sets what cases there are, by the points that were recorded.
func (r *Report) observe() {
	r.Observed = nil
	for _, c := range scenarios.All() {
		if recorded := r.recording(c.Name); recorded != nil {
			r.Observed = append(r.Observed, cases(c, recorded.Points)...)
		}
	}
}

// faultAtPoint is a fault at a point, in whatever scenario.
type faultAtPoint struct {
	fault string
	at    point
}

// once reports whether one scenario is enough for the case: what a process reads it reads again
// after a fault, whatever it was about to do. What it changes differs by scenario, and what happens
// to a whole wire happens to all requests of the scenario.
func (c proveCase) once() bool { return !c.Point.whole() && !c.Point.changes() }

// urgency is lower for what is run earlier, so that a run that is ended early has the most of it.
func (c proveCase) urgency() int {
	if c.once() {
		return 1
	}
	return 0
}

// open are the selected cases that are to be run next. One of a request that only reads goes to
// the first scenario that has it; where it was not reached there, to the next one.
func (r *Report) open(selected Selection) []proveCase {
	r.observe()
	done, covered := map[proveCase]bool{}, map[faultAtPoint]bool{}
	for _, result := range r.Results {
		done[result.Case] = true
		if result.Outcome != NotReached {
			covered[faultAtPoint{result.Case.Fault, result.Case.Point}] = true
		}
	}
	var out []proveCase
	for _, c := range r.Observed {
		what := faultAtPoint{c.Fault, c.Point}
		if done[c] || !selected.selects(c) || c.once() && covered[what] {
			continue
		}
		covered[what] = true
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b proveCase) int { return a.urgency() - b.urgency() })
	return out
}
