package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child/confine"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// job is one child's work.
type job struct {
	verb string
	// doing begins the sentences about what went wrong: "rendering".
	doing string
	// exchange exchanges the frames once the child is ready and returns the last.
	exchange func(in *writer, out *reader) (frame, error)
}

// run starts a child, exchanges frames with it and waits for its end. It returns the result; that
// the child sent an error instead is an error of the same class.
func (r *Runner) run(ctx context.Context, j job) ([]byte, error) {
	semaphore := r.Semaphore
	if semaphore == nil {
		semaphore = ofProcess
	}
	release, err := semaphore.acquire(ctx, r.Proposed, r.Repository)
	if err != nil {
		return nil, err
	}
	defer release()
	// The child ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limits := r.Limits.withDefaults()
	ctx, stop := context.WithTimeoutCause(ctx, limits.Deadline, errLate)
	defer stop()
	p, err := r.start(j.verb, limits)
	if err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	killed := make(chan struct{})
	calm := context.AfterFunc(ctx, func() {
		defer close(killed)
		confine.Kill(p.cmd)
		for _, pipe := range []*os.File{p.in, p.out, p.stderr} {
			_ = pipe.SetDeadline(time.Unix(1, 0))
		}
	})
	out := &reader{from: p.out, remaining: limits.Output, builds: maxBuildBytes}
	ready := true
	var last frame
	if _, err = out.expect(frameReady); err != nil {
		ready = false
	} else {
		err = apply.Recover(func() (err error) {
			last, err = j.exchange(&writer{to: p.in, remaining: limits.Input}, out)
			return err
		})
	}
	broken := p.end(err)
	if !calm() {
		<-killed
	}
	p.wait()
	switch {
	case err == nil:
		return limits.decodable(j.doing, last)
	case context.Cause(ctx) != nil:
		return nil, limits.late(j.doing, ready, p.used(), context.Cause(ctx))
	case !ready:
		return nil, fmt.Errorf("starting a child: %s", p.cause())
	case !broken:
		return nil, limits.overrun(j.doing, err)
	}
	return nil, limits.exitError(j.doing, p)
}

// process is a child that runs.
type process struct {
	cmd             *exec.Cmd
	in, out, stderr *os.File
	stderrTail      tail
}

// start starts a child with three pipes.
func (r *Runner) start(verb string, limits Limits) (*process, error) {
	path, args := r.Path, r.Args
	if path == "" {
		var err error
		if path, err = confine.Executable(); err != nil {
			return nil, err
		}
	}
	if args == nil {
		args = []string{"child"}
	}
	args = append(slices.Clip(args), verb, strconv.FormatInt(limits.Memory, 10), strconv.FormatInt(int64(limits.CPU/time.Second), 10))
	p := &process{cmd: exec.Command(path, args...)}
	p.cmd.Args[0] = "poolwright"
	if err := confine.Prepare(p.cmd); err != nil {
		return nil, err
	}
	var theirs, ours []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, ours...))
			return nil, err
		}
		if len(theirs) == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	defer closeAll(theirs)
	p.in, p.out, p.stderr = ours[0], ours[1], ours[2]
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := p.cmd.Start(); err != nil {
		closeAll(ours)
		return nil, err
	}
	p.stderrTail.follow(p.stderr)
	return p, nil
}

// end waits for a child's end after the last frame, which ended with err: one that
// broke off itself is let die, so that it can write of what; any other is ended.
func (p *process) end(err error) (broken bool) {
	broken = errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
	if broken {
		// With the last of its streams it is dead, or as good as: nothing that it
		// might still be doing can be known.
		_, _ = io.Copy(io.Discard, p.out)
		<-p.stderrTail.over
	}
	confine.Kill(p.cmd)
	return broken
}

func (p *process) wait() {
	// How it ended is in the state; that it did not end well is known.
	_ = p.cmd.Wait()
	_ = p.in.Close()
	_ = p.out.Close()
	<-p.stderrTail.over
	_ = p.stderr.Close()
}

// decodable passes on a result that takes no more memory than allowed once decoded.
func (l Limits) decodable(doing string, last frame) ([]byte, error) {
	if manifest.Decoded(last.payload) > l.Decoded {
		return nil, state.Failf(state.Stalled, "LimitExceeded", "%s gave more than fits into %d MiB of memory; declare less in this folder", doing, l.Decoded>>20)
	}
	if last.kind != frameError {
		return last.payload, nil
	}
	var failure errorObject
	if err := json.Unmarshal(last.payload, &failure); err != nil {
		return nil, fmt.Errorf("%s: reading the error: %w", doing, err)
	}
	return nil, failure.err()
}

// idle is the part of the time up to its deadline that a child must have worked for being
// to blame for that: one in so many.
const idle = 3

// late is the error for a child that was ended because its context was. Where it got
// little of the processor, it is the machine that is busy, or slow to read, and not the
// work that is too much.
func (l Limits) late(doing string, ready bool, used time.Duration, cause error) error {
	switch {
	case !errors.Is(cause, errLate):
		return fmt.Errorf("%s: %w", doing, cause)
	case !ready:
		return fmt.Errorf("starting a child: it was not ready in %s", l.Deadline)
	case used < l.Deadline/idle:
		return fmt.Errorf("%s timed out after %s, in which it got %s of processor time", doing, l.Deadline, used.Round(time.Millisecond))
	}
	return state.Failf(state.Stalled, "RenderTimeout", "%s timed out after %s", doing, l.Deadline)
}

// used is the processor time that a child took, once it ended.
func (p *process) used() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// overrun is the error for a conversation that the parent broke off.
func (l Limits) overrun(doing string, err error) error {
	switch {
	case errors.Is(err, errGotten):
		return state.Failf(state.Stalled, "LimitExceeded", "%s gave more than %d MiB", doing, l.Output>>20)
	case errors.Is(err, errSendLimit):
		return state.Failf(state.Stalled, "LimitExceeded", "%s needs more than %d MiB of input", doing, l.Input>>20)
	}
	return fmt.Errorf("%s: talking with the child: %w", doing, err)
}

// exitError is the error for a child that ended by itself or by the kernel.
func (l Limits) exitError(doing string, p *process) error {
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	used := p.used()
	switch {
	// The kernel's clock for its limit is coarse and runs ahead of what it reports.
	case status.Signaled() && used >= l.CPU/2:
		return state.Failf(state.Stalled, "LimitExceeded", "%s took more than %s of processor time", doing, l.CPU)
	case status.Signaled():
		// The kernel, short of memory, or a person: not what was rendered.
		return fmt.Errorf("%s ended unexpectedly: %s", doing, p.cause())
	// Where the runtime gets no more memory it may fault before it can give up. The limit is of what
	// it reserves, of which less than half may be resident then.
	case p.stderrTail.outOfMemory(), p.stderrTail.faulted() && confine.MaxRSS(p.cmd.ProcessState) > l.Memory/4:
		return state.Failf(state.Stalled, "LimitExceeded", "%s took more than %d MiB of memory", doing, l.Memory>>20)
	}
	return state.Failf(state.Stalled, "RenderFailed", "%s ended unexpectedly: %s", doing, p.cause())
}

// cause is how the child ended, in one line.
func (p *process) cause() string {
	if message := p.stderrTail.cause(); message != "" {
		return strconv.Quote(message)
	}
	return p.cmd.ProcessState.String()
}
