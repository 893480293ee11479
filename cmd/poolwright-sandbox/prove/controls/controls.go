// Package controls breaks the product on purpose: each control is one precaution switched
// off, which a proof must find. A further control is a further file, and an entry of All.
//
// It changes no file of the clone: a passage of the source is replaced at build time, in a
// binary that is built for that alone. Start reading at Control.
package controls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Control is a precaution of the product that can be switched off, in a binary that is
// built for that alone: one passage of its source is replaced at build time, so that no
// binary that is shipped has the switch.
type Control struct {
	// Name is short and unique; Summary is the precaution, in one sentence.
	Name, Summary string
	// Finds selects the cases that must find it, where no test is to.
	Finds string
	// test is the Go test that must find it, as FOLDER.NAME, in the place of cases.
	test string
	// file is the source file, from the module's root. old stands in it once; by takes its
	// place.
	file, old, by string
}

// All are all of them, in the order in which they are run and printed.
func All() []Control {
	return append([]Control{
		writeAhead(), deletionPreconditions(), deletionVersion(), lossRecount(), slotsAreFreed(), oneComment(), maskedSecrets(), fence(), forgeFence(), release(), foreignLease(),
		creationTags(), instanceCollection(), unavailableOfferings(), interruptionWarnings(), liveValidation(), lateReplacement(), earlyReplacement(), inventoryFormat(), newerDefinitions(),
	}, foundByTests()...)
}

// Names are the names of the controls.
func Names() []string {
	var out []string
	for _, c := range All() {
		out = append(out, c.Name)
	}
	return out
}

// Named returns the control of that name.
func Named(name string) (Control, error) {
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
	}
	return Control{}, fmt.Errorf("there is no control %q; choose one of %s", name, strings.Join(Names(), ", "))
}

// Build builds the product with the precaution switched off, into the folder. The working
// directory must be in a clone.
func (c Control) Build(ctx context.Context, dir string) (string, error) {
	root, overlay, err := c.overlay(ctx, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "poolwright-without-"+c.Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary, "./cmd/poolwright")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building poolwright without %s: %w\n%s", c.Name, err, out)
	}
	return binary, nil
}

// overlay writes the changed source into the folder, and what puts it into the place of the
// clone's for the go command.
func (c Control) overlay(ctx context.Context, dir string) (root, overlay string, err error) {
	root, err = moduleRoot(ctx)
	if err != nil {
		return "", "", err
	}
	changed, err := c.changed(root)
	if err != nil {
		return "", "", err
	}
	replacement, overlay := filepath.Join(dir, c.Name+".go"), filepath.Join(dir, c.Name+".json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, c.file): replacement}})
	if err != nil {
		return "", "", err
	}
	return root, overlay, errors.Join(os.WriteFile(replacement, []byte(changed), 0o600), os.WriteFile(overlay, replaced, 0o600))
}

// changed is the source file with its passage replaced.
func (c Control) changed(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, c.file))
	if err != nil {
		return "", fmt.Errorf("switching %s off: %w", c.Name, err)
	}
	if n := strings.Count(string(source), c.old); n != 1 {
		return "", fmt.Errorf("switching %s off: the passage stands in %s %d times, not once", c.Name, c.file, n)
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
