package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/attack/grammar"
)

// Trial is one attack: what is derived, and by whom it is read.
type Trial struct {
	Repository grammar.Derivation `json:"repository"`
	// Followed reports that it is of the followed branch; else of a pull request.
	Followed bool `json:"followed,omitempty"`
	// Limits are those of each child; zero fields are those of the product.
	Limits child.Limits `json:"limits"`
	// Neighbor has another repository rendered meanwhile.
	Neighbor bool `json:"neighbor,omitempty"`
}

// Process starts a process for each trial that acts as the controller for it, and so has a
// memory and a time of its own.
type Process struct {
	// Path and Args start a program that calls Serve.
	Path string
	Args []string
	// Child starts the program whose hidden command renders; empty for Path itself.
	Child string
}

// trialRequest is what the process is given.
type trialRequest struct {
	Trial
	Child string `json:"child"`
	// Root is the folder with the files.
	Root string `json:"root"`
}

// timeout is how long a trial takes at most: the deadlines of its children, and as long for
// the controller.
const timeout = 10 * time.Minute

var errTimeout = errors.New("the controller has not come to an end with the trial")

// Measure runs a trial. An error is of the machinery, and no finding.
func (p Process) Measure(ctx context.Context, c Trial) (Measure, error) {
	root, err := os.MkdirTemp("", "poolwright-attack-*")
	if err != nil {
		return Measure{}, fmt.Errorf("making a folder for a trial: %w", err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := write(root, grammar.Files(c.Repository, grammar.Documented())); err != nil {
		return Measure{}, err
	}
	request, err := json.Marshal(trialRequest{Trial: c, Child: p.Child, Root: root})
	if err != nil {
		return Measure{}, fmt.Errorf("writing a trial: %w", err)
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &out, &complaints
	err = cmd.Run()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		return Measure{}, fmt.Errorf("measuring a trial: %w", context.Cause(ctx))
	}
	var found Measure
	if err != nil {
		// The controller itself ended: that is the worst that a trial can do.
		tail := complaints.String()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Measure{FailureClass: crashed, Message: fmt.Sprintf("%v: %s", err, tail[:min(len(tail), 500)])}, nil
	}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return Measure{}, fmt.Errorf("reading what was measured: %w", err)
	}
	return found, nil
}

// write writes files below a folder.
func write(root string, files map[string]string) error {
	for name, content := range files {
		at := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fmt.Errorf("writing a trial: %w", err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing a trial: %w", err)
		}
	}
	return nil
}

// Serve acts as the controller for the trial that it reads, and writes its Measure.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var request trialRequest
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return fmt.Errorf("reading a trial: %w", err)
	}
	tree, ok := os.DirFS(request.Root).(fs.ReadLinkFS)
	if !ok {
		return errors.New("reading a trial: the folder has no symbolic links")
	}
	found := measure(ctx, request, tree)
	if err := json.NewEncoder(out).Encode(found); err != nil {
		return fmt.Errorf("writing what was measured: %w", err)
	}
	return nil
}
