package prove

import (
	"context"
	"fmt"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// ControlResult is what came of a control.
type ControlResult struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Found is whether the oracle found a violation, and By are the cases and rules that did.
	Found   bool     `json:"found"`
	By      []string `json:"by,omitempty"`
	Seconds float64  `json:"seconds"`
}

// RunControls breaks the product by each control in turn, and runs the cases that must
// find it. It adds what came of them to the report.
func RunControls(ctx context.Context, environment *sandbox.Environment, o Options, report *Report) error {
	for i, c := range controls.All() {
		if c.Test() != "" {
			result, err := runTested(ctx, environment.Dir, c)
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Progress, "without %s: found %v by %s\n", c.Name, result.Found, c.Test())
			report.Controls = append(report.Controls, result)
			continue
		}
		binary, err := c.Build(ctx, environment.Dir)
		if err != nil {
			return err
		}
		broken := o
		broken.Product = binary
		if broken.Select, err = ParseSelection(c.Finds); err != nil {
			return err
		}
		fmt.Fprintf(o.Progress, "without %s:\n", c.Name)
		got, err := run(ctx, environment, broken, fmt.Sprintf("c%d", i))
		if err != nil {
			return err
		}
		result := ControlResult{Name: c.Name, Summary: c.Summary, Seconds: got.Seconds}
		for _, r := range got.Results {
			for _, v := range r.Violations {
				result.Found = true
				result.By = append(result.By, r.Case.String()+": "+v.Rule)
			}
		}
		report.Controls = append(report.Controls, result)
	}
	return nil
}

// runTested runs the Go test that must find a control.
func runTested(ctx context.Context, dir string, c controls.Control) (ControlResult, error) {
	begin := time.Now()
	found, err := c.Fails(ctx, dir)
	result := ControlResult{Name: c.Name, Summary: c.Summary, Found: found, Seconds: time.Since(begin).Seconds()}
	if found {
		result.By = []string{c.Test()}
	}
	return result, err
}
