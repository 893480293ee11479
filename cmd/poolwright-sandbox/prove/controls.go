package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// runControls breaks the product by each control in turn, and runs the cases that must
// find it. It adds what came of them to the report.
func runControls(ctx context.Context, environment *sandbox.Environment, o Options, kept *results, report *Report) error {
	report.Controls = slices.Clone(kept.before.Controls)
	for i, c := range controls.All() {
		if o.OnlyControls && !o.Select.matches(0, c.Name) || slices.ContainsFunc(report.Controls, func(r ControlResult) bool { return r.Name == c.Name }) {
			continue
		}
		result, err := runControl(ctx, environment, o, c, fmt.Sprintf("c%d", i))
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Progress, "without %s: found %v by %s\n", c.Name, result.Found, strings.Join(result.By, "; "))
		kept.keep(record{Control: &result})
		report.Controls = append(report.Controls, result)
	}
	if len(report.Controls) == 0 {
		return errors.New("no control was selected: --run is a regular expression for their names, which --list prints")
	}
	return nil
}

// runControl breaks the product by one control, and runs what must find it.
func runControl(ctx context.Context, environment *sandbox.Environment, o Options, c controls.Control, prefix string) (ControlResult, error) {
	if c.Test() != "" {
		return runTested(ctx, environment.Dir, c)
	}
	binary, err := c.Build(ctx, environment.Dir)
	if err != nil {
		return ControlResult{}, err
	}
	o.Product = binary
	if o.Select, err = ParseSelection(c.Finds); err != nil {
		return ControlResult{}, err
	}
	got, err := run(ctx, environment, o, prefix, &results{})
	result := ControlResult{Name: c.Name, Summary: c.Summary, Seconds: got.Seconds}
	for _, r := range got.Results {
		for _, v := range r.Violations {
			result.Found = true
			result.By = append(result.By, r.Case.String()+": "+v.Rule)
		}
	}
	return result, err
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
