package prove

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/history"
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
	NotReached Outcome = "not reached"
	// Failed: the case could not be played.
	Failed Outcome = "failed"
)

// noFault is the fault of the run that records a scenario.
const noFault = "none"

// Result is a case with what came of it.
type Result struct {
	Case       proveCase           `json:"case"`
	Outcome    Outcome             `json:"outcome"`
	Violations []history.Violation `json:"violations,omitempty"`
	Error      string              `json:"error,omitempty"`
	Seconds    float64             `json:"seconds"`
}

func (r *Result) failed(err error) { r.Outcome, r.Error = Failed, err.Error() }

// line is the result for progress.
func (r *Result) line() string {
	text := fmt.Sprintf("%-11s %5.1fs  %s", r.Outcome, r.Seconds, r.Case)
	for _, v := range r.Violations {
		text += fmt.Sprintf("\n             %s: %s", v.Rule, v.Detail)
	}
	if r.Error != "" {
		text += "\n             " + r.Error
	}
	return text
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
		case Held, NotReached:
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
	return fmt.Errorf("of %d cases, %d violated a rule and %d could not be played; %d controls were not found", len(r.Results), violated, failed, missed)
}

// coverage counts the cases of a scenario with a fault.
type coverage struct {
	scenario, fault                  string
	observed, played, reached, wrong int
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
		c.played++
		switch result.Outcome {
		case Held:
			c.reached++
		case Violated, Failed:
			c.reached++
			c.wrong++
		case NotReached:
		}
	}
	return out
}

// compareCases is the order of cases in a report.
func compareCases(a, b proveCase) int {
	place := func(c proveCase) (ofScenario, ofFault int) {
		ofScenario = slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == c.Scenario })
		return ofScenario, slices.IndexFunc(faultKinds(), func(f faultKind) bool { return f.name == c.Fault })
	}
	scenarioA, faultA := place(a)
	scenarioB, faultB := place(b)
	return cmp.Or(cmp.Compare(scenarioA, scenarioB), cmp.Compare(faultA, faultB))
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// keepHistory writes the history of a case.
func (p *prover) keepHistory(r Result, s *stage) error {
	if p.Histories == "" {
		return nil
	}
	content, err := json.MarshalIndent(s.tap.Records(), "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.Histories, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.Histories, p.series+"-"+unsafe.ReplaceAllString(r.Case.String(), "-")+".json"), content, 0o600)
}
