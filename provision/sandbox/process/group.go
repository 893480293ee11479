// Package process runs the sandbox's child processes so that none is left
// behind: not after an orderly stop, not after Ctrl-C, not after the parent got
// SIGKILL.
//
// Three nets, each for what the one before cannot catch. Stop ends children in
// reverse order, with a time limit each. A reaper, a small process of its own
// that waits on a pipe only we hold, ends them when this process is gone, and
// removes the data folder. On Linux the kernel also signals each child when its
// parent dies, should the reaper be killed at the same moment.
//
// A child that ends without being stopped is an error with the last lines of its log:
// the package never restarts anything and never hides an exit. It runs on Linux and
// macOS. Start reading at NewGroup.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Group is a set of children with one life. Get one from NewGroup. Its methods
// may be called from several goroutines.
type Group struct {
	folder string
	forker *forker
	reaper *exec.Cmd
	orders io.WriteCloser // the only write end of the reaper's pipe
	failed chan struct{}

	mu       sync.Mutex // protects following
	children []*Process // in order of start
	stopping bool
	keep     bool
	err      error
}

// NewGroup starts the reaper from its binary and returns an empty group. The
// folder is removed when the group stops or this process ends, unless Keep was
// called; an empty name removes nothing.
func NewGroup(reaper, folder string) (*Group, error) {
	g := &Group{folder: folder, failed: make(chan struct{})}
	g.reaper = exec.Command(reaper)
	g.reaper.Dir = "/" // it must be able to remove the folder we stand in
	// A group of its own keeps Ctrl-C and job control away from it.
	g.reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := g.reaper.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe to the reaper: %w", err)
	}
	g.orders = orders
	if err := g.reaper.Start(); err != nil {
		return nil, fmt.Errorf("starting the reaper: %w", errors.Join(err, orders.Close()))
	}
	g.forker = newForker()
	if folder != "" {
		if err := g.order("remove %s", folder); err != nil {
			return nil, errors.Join(err, g.Stop(context.Background()))
		}
	}
	return g, nil
}

// Keep leaves the data folder in place when the group ends.
func (g *Group) Keep() error {
	g.mu.Lock()
	g.keep = true
	g.mu.Unlock()
	return g.order("keep")
}

// order sends the reaper a line. It fails only when the reaper is gone.
func (g *Group) order(format string, args ...any) error {
	if _, err := fmt.Fprintf(g.orders, format+"\n", args...); err != nil {
		return fmt.Errorf("writing to the reaper: %w", err)
	}
	return nil
}

// Start runs a child. It returns once the process exists, not once it is
// ready. A stopped group starts nothing.
func (g *Group) Start(spec Spec) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		return nil, fmt.Errorf("starting %s: the group is stopping", spec.Name)
	}
	p, err := g.launch(spec)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	g.children = append(g.children, p)
	go g.collect(p)
	return p, nil
}

func (g *Group) launch(spec Spec) (*Process, error) {
	p, err := prepare(spec)
	if err != nil {
		return nil, err
	}
	defer p.closeLog()
	if err := g.forker.start(p.cmd); err != nil {
		return nil, err
	}
	if err := g.order("watch %d", p.cmd.Process.Pid); err != nil {
		// Nobody collects it yet; its own end is not reported.
		kill := p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, errors.Join(err, kill)
	}
	return p, nil
}

// collect waits for a child's end and judges it.
func (g *Group) collect(p *Process) {
	waitErr := p.cmd.Wait()
	// What the child started belongs to its group and ends with it.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	orderErr := g.order("unwatch %d", p.cmd.Process.Pid)
	g.mu.Lock()
	if !g.stopping && !p.stopRequested.Load() {
		p.err = newExitError(p, waitErr)
	} else if !g.stopping {
		p.err = orderErr
	}
	if !p.trial {
		g.blame(p)
	}
	close(p.done)
	g.mu.Unlock()
}

// blame makes the end of p the group's failure, if it is one and the first.
// The caller holds mu.
func (g *Group) blame(p *Process) {
	if p.err != nil && g.err == nil {
		g.err = p.err
		close(g.failed)
	}
}

// Trust ends the trial of a child that was started with Spec.Trial: from now
// on its unexpected end is the group's failure, also if it has just happened.
func (g *Group) Trust(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.trial = false
	select {
	case <-p.done:
		g.blame(p)
	default:
	}
}

// Failed is closed when a child ends without being stopped; Err names it.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Err is the first unexpected exit, an *ExitError, or nil.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Stop ends all children, the youngest first, then the reaper, which removes
// the folder. A child that ignores SIGTERM is killed after its Spec.Grace; the
// end of ctx kills the rest at once. Nothing is left when Stop returns nil. It
// may be called again.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopping
	g.stopping = true
	children := append([]*Process(nil), g.children...)
	g.mu.Unlock()
	var errs []error
	for _, child := range slices.Backward(children) {
		errs = append(errs, child.Stop(ctx))
	}
	if !first {
		return errors.Join(errs...)
	}
	errs = append(errs, g.orders.Close())
	if err := g.reaper.Wait(); err != nil {
		errs = append(errs, fmt.Errorf("waiting for the reaper: %w", err))
	}
	if g.forker != nil {
		g.forker.stop()
	}
	errs = append(errs, g.removeFolder())
	return errors.Join(errs...)
}

// removeFolder does what the reaper did, again: it costs nothing and its error
// can be shown.
func (g *Group) removeFolder() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.folder == "" || g.keep {
		return nil
	}
	if err := os.RemoveAll(g.folder); err != nil {
		return fmt.Errorf("removing the data folder: %w", err)
	}
	return nil
}

// defaultGrace is long enough for etcd's last snapshot and Gitea's queues.
const defaultGrace = 10 * time.Second
