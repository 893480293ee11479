package prove

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
)

// Outcome is what came of a case.
type Outcome string

// The outcomes.
const (
	// Held: the fault happened and no rule was violated.
	Held Outcome = "held"
	// Violated: a rule was.
	Violated Outcome = "violated"
	// NotReached: the request did not come this time.
	NotReached Outcome = "unreached"
	// Failed: the case could not be run.
	Failed Outcome = "failed"
	// Skipped: this machine does not let its fault happen; Result.Error is why.
	Skipped Outcome = "skipped"
)

// noFault is the fault of the run that records a scenario.
const noFault = "none"

// Result is a case with what came of it.
type Result struct {
	Case       proveCase          `json:"case"`
	Outcome    Outcome            `json:"outcome"`
	Violations []oracle.Violation `json:"violations,omitempty"`
	Error      string             `json:"error,omitempty"`
	Seconds    float64            `json:"seconds"`
	// Points are those that the recording run of a scenario met.
	Points []point `json:"points,omitempty"`
	// Cost is what EC2 would have billed, in dollars. It is reported, and no rule.
	Cost float64 `json:"cost,omitempty"`
}

func (r *Result) failed(err error) { r.Outcome, r.Error = Failed, err.Error() }

// line is the result for progress.
func (r *Result) line() string {
	lines := []string{fmt.Sprintf("%-11s %5.1fs  %s", r.Outcome, r.Seconds, r.Case)}
	for _, v := range r.Violations {
		lines = append(lines, fmt.Sprintf("             %s: %s", v.Rule, v.Detail))
	}
	if r.Error != "" {
		lines = append(lines, "             "+r.Error)
	}
	return strings.Join(lines, "\n")
}

// Report is what a run has proved.
type Report struct {
	Results []Result `json:"results"`
	// Observed are all cases that there are, whether selected or not.
	Observed []proveCase `json:"observed"`
	// Controls is what came of the controls, where they were run.
	Controls []ControlResult `json:"controls,omitempty"`
	Seconds  float64         `json:"seconds"`
}

// Err is an error where a rule was violated, a case failed or a control was not found.
func (r Report) Err() error {
	violated, failed, missed := 0, 0, 0
	for _, result := range r.Results {
		switch result.Outcome {
		case Violated:
			violated++
		case Failed:
			failed++
		case Held, NotReached, Skipped:
		}
	}
	for _, c := range r.Controls {
		if !c.Found {
			missed++
		}
	}
	if violated+failed+missed == 0 {
		return nil
	}
	return fmt.Errorf("of %d cases, %d violated a rule and %d could not be run; %d controls were not found", len(r.Results), violated, failed, missed)
}

// coverage counts the cases of a scenario with a fault.
type coverage struct {
	scenario, fault               string
	observed, run, reached, wrong int
}

// coverages are the rows of the table of coverage.
func (r Report) coverages() []coverage {
	var out []coverage
	row := func(c proveCase) *coverage {
		for i := range out {
			if out[i].scenario == c.Scenario && out[i].fault == c.Fault {
				return &out[i]
			}
		}
		out = append(out, coverage{scenario: c.Scenario, fault: c.Fault})
		return &out[len(out)-1]
	}
	for _, c := range r.Observed {
		row(c).observed++
	}
	for _, result := range r.Results {
		if result.Case.Fault == noFault {
			continue
		}
		c := row(result.Case)
		c.run++
		switch result.Outcome {
		case Held:
			c.reached++
		case Violated, Failed:
			c.reached++
			c.wrong++
		case NotReached, Skipped:
		}
	}
	return out
}

// placeOf is the place of a case in the lists of scenarios and of faults.
func placeOf(c proveCase) (ofScenario, ofFault int) {
	ofScenario = slices.IndexFunc(scenarios.All(), func(s scenarios.Scenario) bool { return s.Name == c.Scenario })
	return ofScenario, slices.IndexFunc(faultKinds(), func(f faultKind) bool { return f.name == c.Fault })
}

// compareCases is the order of cases in a report.
func compareCases(a, b proveCase) int {
	scenarioA, faultA := placeOf(a)
	scenarioB, faultB := placeOf(b)
	return cmp.Or(cmp.Compare(scenarioA, scenarioB), cmp.Compare(faultA, faultB))
}
