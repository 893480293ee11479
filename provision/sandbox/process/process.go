package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec describes a child.
type Spec struct {
	// Name stands in errors.
	Name string
	// Path is the binary; Args come after argv[0], which is Path.
	Path string
	Args []string
	// Env is the whole environment as name=value. Nil gives the child none:
	// a cloud key in a developer's shell must not reach the sandbox.
	Env []string
	// Dir is the working directory, by default the folder of Log.
	Dir string
	// Log is the file that standard output and error are appended to. Its
	// folder is made. Required.
	Log string
	// Grace is the time between SIGTERM and SIGKILL, by default 10 s.
	Grace time.Duration
	// Trial leaves an unexpected end to whoever started the child, who may try
	// again with another port, until Group.Trust is called.
	Trial bool
}

// Process is a child that was started by a Group.
type Process struct {
	spec          Spec
	cmd           *exec.Cmd
	log           *os.File
	stopRequested atomic.Bool   // its end was requested
	done          chan struct{} // closed after err is set
	err           error
	trial         bool // protected by the group's mutex
}

func prepare(spec Spec) (*Process, error) {
	if spec.Log == "" {
		return nil, errors.New("no log file is named")
	}
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	if spec.Dir == "" {
		spec.Dir = filepath.Dir(spec.Log)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Dir, log, log
	cmd.Env = append([]string{}, spec.Env...)
	cmd.SysProcAttr = attributes()
	return &Process{spec: spec, cmd: cmd, log: log, trial: spec.Trial, done: make(chan struct{})}, nil
}

// closeLog drops our copy of the log's descriptor; the child has its own.
func (p *Process) closeLog() { _ = p.log.Close() }

// PID is the process number, which is also its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the path of the child's log.
func (p *Process) Log() string { return p.spec.Log }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the child runs and after an end that was requested, otherwise an
// *ExitError.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Ready calls probe until it returns nil. It gives up when the child ends, with
// its ExitError, and when ctx ends, with the last error of probe and the last log
// lines.
func (p *Process) Ready(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			if p.err == nil {
				return fmt.Errorf("waiting for %s: it was stopped", p.spec.Name)
			}
			return p.err
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last response: %w; its last log lines:\n%s",
				p.spec.Name, context.Cause(ctx), err, Tail(p.spec.Log, tailLines))
		case <-tick.C:
		}
	}
}

// probeInterval keeps start-up fast; a probe on loopback costs microseconds.
const probeInterval = 20 * time.Millisecond

// Stop sends the child SIGTERM and waits for its end. After Spec.Grace, or when ctx
// ends, it and all that it started are killed. Stopping an ended child is no error.
func (p *Process) Stop(ctx context.Context) error {
	p.stopRequested.Store(true)
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(p.spec.Grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Kill()
}

// Kill ends the child and all that it started at once, as a crash would, and
// waits until it is gone. The end counts as requested.
func (p *Process) Kill() error {
	p.stopRequested.Store(true)
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s: %w", p.spec.Name, err)
	}
	<-p.done
	return nil
}

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.spec.Name, err)
	}
	return nil
}

// ExitError is the end of a child that nobody requested.
type ExitError struct {
	// Name is Spec.Name.
	Name string
	// State is how it ended: "exit status 1", "signal: killed".
	State string
	// Tail holds the last lines of its log.
	Tail string
}

func newExitError(p *Process, waitErr error) *ExitError {
	state := "exit status 0"
	if waitErr != nil {
		state = waitErr.Error()
	}
	return &ExitError{Name: p.spec.Name, State: state, Tail: Tail(p.spec.Log, tailLines)}
}

// Error names the child, how it ended and its last log lines.
func (e *ExitError) Error() string {
	if e.Tail == "" {
		return fmt.Sprintf("%s ended unexpectedly (%s) and logged nothing", e.Name, e.State)
	}
	return fmt.Sprintf("%s ended unexpectedly (%s); its last log lines:\n%s", e.Name, e.State, e.Tail)
}
