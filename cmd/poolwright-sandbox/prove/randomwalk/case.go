package randomwalk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
)

// Case is a sequence that has violated a rule, kept to be run again.
type Case struct {
	// Rule is the rule that it violated, and Detail how.
	Rule       string      `json:"rule"`
	Detail     string      `json:"detail"`
	Operations []Operation `json:"operations"`
}

// ReadCase reads a case from a file.
func ReadCase(path string) (Case, error) {
	var c Case
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading a case: %w", err)
	}
	return c, nil
}

// Save writes the case to a file.
func (c Case) Save(path string) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing a case: %w", err)
	}
	return nil
}

// ShrinkReport runs ever shorter parts of a walk that violated a rule, each in a fixture of its
// own, and returns the shortest that it finds that violates the same rule.
func ShrinkReport(ctx context.Context, environment *sandbox.Environment, o Options, report Report) (Case, error) {
	first := report.Violations[0]
	out := Case{Rule: first.Rule, Detail: first.Detail, Operations: report.Operations}
	runs := 0
	var err error
	out.Operations, err = Shrink(report.Operations, func(operations []Operation) (bool, error) {
		runs++
		o.Replay = slices.Clip(operations)
		again, err := walk(ctx, environment, o, fmt.Sprintf("walk-%d-%d", report.Seed, runs))
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(again.Violations, func(v oracle.Violation) bool { return v.Rule == out.Rule })
		if i >= 0 {
			out.Detail = again.Violations[i].Detail
		}
		fmt.Fprintf(o.Progress, "shrinking: run %d of %d operations violates %s: %v\n", runs, len(operations), out.Rule, i >= 0)
		return i >= 0, nil
	})
	return out, err
}
