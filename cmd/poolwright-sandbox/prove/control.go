package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// control is a precaution of the product that can be switched off, in a binary that is
// built for that alone: one passage of its source is replaced at build time, so that no
// binary that is shipped has the switch.
type control struct {
	name, summary string
	// file is the source file, from the module's root. old stands in it once; by takes its
	// place.
	file, old, by string
	// finds selects the cases that must find it.
	finds string
}

// controls are all of them, in the order in which they are run and printed.
func controls() []control {
	return []control{writeAhead(), deletionPreconditions(), deletionVersion()}
}

// ControlResult is what came of a control.
type ControlResult struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Found is whether the oracle found a violation, and By are the cases and rules that did.
	Found   bool     `json:"found"`
	By      []string `json:"by,omitempty"`
	Seconds float64  `json:"seconds"`
}

// ControlNames are the names of the controls.
func ControlNames() []string {
	var out []string
	for _, c := range controls() {
		out = append(out, c.name)
	}
	return out
}

// Break builds the product with a control's precaution switched off, into the folder. The
// working directory must be in a clone.
func Break(ctx context.Context, name, dir string) (binary string, err error) {
	for _, c := range controls() {
		if c.name == name {
			return c.build(ctx, dir)
		}
	}
	return "", fmt.Errorf("there is no control %q; choose one of %s", name, strings.Join(ControlNames(), ", "))
}

func (c control) build(ctx context.Context, dir string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	changed, err := c.changed(root)
	if err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(dir, c.name+".go"), filepath.Join(dir, c.name+".json")
	binary := filepath.Join(dir, "poolwright-without-"+c.name)
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, c.file): replacement}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(replacement, []byte(changed), 0o600), os.WriteFile(overlay, replaced, 0o600)); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary, "./cmd/poolwright")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building poolwright without %s: %w\n%s", c.name, err, out)
	}
	return binary, nil
}

// changed is the source file with its passage replaced.
func (c control) changed(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, c.file))
	if err != nil {
		return "", fmt.Errorf("switching %s off: %w", c.name, err)
	}
	if n := strings.Count(string(source), c.old); n != 1 {
		return "", fmt.Errorf("switching %s off: the passage stands in %s %d times, not once", c.name, c.file, n)
	}
	return strings.Replace(string(source), c.old, c.by, 1), nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the clone: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// RunControls breaks the product by each control in turn, and plays the cases that must
// find it. It adds what came of them to the report.
func RunControls(ctx context.Context, environment *sandbox.Environment, o Options, report *Report) error {
	for i, c := range controls() {
		binary, err := c.build(ctx, environment.Dir)
		if err != nil {
			return err
		}
		broken := o
		broken.Product = binary
		if broken.Select, err = ParseSelection(c.finds); err != nil {
			return err
		}
		fmt.Fprintf(o.Progress, "without %s:\n", c.name)
		got, err := run(ctx, environment, broken, fmt.Sprintf("c%d", i))
		if err != nil {
			return err
		}
		result := ControlResult{Name: c.name, Summary: c.summary, Seconds: got.Seconds}
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
