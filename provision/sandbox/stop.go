package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// stopLimit bounds Stop; what is alive then is killed.
const stopLimit = 45 * time.Second

// shutdown is how an environment ends: the user's programs, then our own goroutines,
// then the processes below both.
type shutdown struct {
	mu       sync.Mutex // protects following
	programs []*process.Process
	steps    []func() error
	done     bool
	err      error
}

// add has a step run at the end, in reverse order of the calls.
func (e *shutdown) add(step func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps = append(e.steps, step)
}

func (e *shutdown) addProgram(p *process.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.programs = append(e.programs, p)
}

// run ends everything once; who calls again gets the same result. The group is
// nil where the start failed early.
func (e *shutdown) run(group *process.Group) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return e.err
	}
	e.done = true
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var errs []error
	for _, program := range slices.Backward(e.programs) {
		errs = append(errs, program.Stop(ctx))
	}
	for _, step := range slices.Backward(e.steps) {
		errs = append(errs, step())
	}
	if group != nil {
		errs = append(errs, group.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		e.err = fmt.Errorf("stopping the sandbox: %w", err)
	}
	return e.err
}
