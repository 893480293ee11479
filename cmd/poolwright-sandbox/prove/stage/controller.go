package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Start runs the next process of the controller, in the first replica.
func (s *Stage) Start() error {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	return s.start(&s.controller.replica)
}

// start runs the next process of a replica. The caller holds the lock.
func (s *Stage) start(r *replica) error {
	s.controller.count++
	r.client = fmt.Sprintf("%s-%d", s.name, s.controller.count)
	r.api.SetClient(r.client)
	if r == &s.controller.replica {
		s.git.SetClient(r.client)
		s.aws.SetClient(r.client)
	}
	s.Tap.Record(history.Event{Kind: history.Started, Client: r.client})
	p, err := s.config.Environment.Run(r.client, "/usr/bin/env", append([]string{
		"AWS_ENDPOINT_URL=" + s.aws.URL(), s.config.Product, "run",
		"--namespace=" + s.System, "--kubeconfig=" + r.kubeconfig(), "--cache-dir=" + r.mirrors(), "--metrics-addr=0", "--health-addr=0",
	}, s.config.Arguments...)...)
	r.process, r.killed = p, false
	return err
}

// Kill ends the process of the first replica as a crash of its node does. Wires call it.
func (s *Stage) Kill() {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	s.kill(&s.controller.replica)
}

// kill ends a replica's process. The caller holds the lock.
func (s *Stage) kill(r *replica) {
	r.killed = true
	s.fail(r.process.Kill())
	s.Tap.Record(history.Event{Kind: history.Ended, Client: r.client})
}

// fail keeps an error for check. The caller holds the lock.
func (s *Stage) fail(err error) {
	if err != nil {
		s.controller.errs = append(s.controller.errs, err)
	}
}

// ByHand keeps the error of what a person does while a request waits.
func (s *Stage) ByHand(err error) {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	s.fail(err)
}

// check starts the next process of each replica whose last one has ended, and returns what
// failed in the meantime.
func (s *Stage) check(ctx context.Context) error {
	s.controller.mu.Lock()
	err := errors.Join(s.controller.errs...)
	var ended []*replica
	for _, r := range s.replicas() {
		if r.process != nil && isDone(r.process) {
			ended = append(ended, r)
		}
	}
	s.controller.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range ended {
		if err := s.restart(ctx, r); err != nil {
			return err
		}
	}
	return s.healReplicas(ctx)
}

func isDone(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// restart starts the next process of a replica whose last one has ended.
func (s *Stage) restart(ctx context.Context, r *replica) error {
	if !r.killed {
		reason := "it exited"
		if err := r.process.Err(); err != nil {
			reason = err.Error()
		}
		s.Tap.Record(history.Event{Kind: history.Ended, Client: r.client, Reason: reason})
	}
	if meanwhile := s.controller.meanwhile; meanwhile != nil && r.killed {
		s.controller.meanwhile = nil
		if err := meanwhile(ctx); err != nil {
			return err
		}
	}
	// Where nobody is there to take over, nobody waits until the lease of a dead process expires.
	if s.controller.standby == nil {
		if err := s.deleteLeases(ctx); err != nil {
			return err
		}
	}
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	return s.start(r)
}

// End kills the controller for good.
func (s *Stage) End() error {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	var errs []error
	for _, r := range s.replicas() {
		if r.process != nil {
			errs = append(errs, r.process.Kill())
		}
	}
	return errors.Join(errs...)
}

// TimeoutError is the end of a wait whose condition did not hold in time.
type TimeoutError struct {
	what string
	wait time.Duration
	last error
}

// Error names the condition and why it did not hold.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("after %s, %s: %v", e.wait, e.what, e.last)
}

// eventually calls holds until it returns nil, and starts the controller anew where it has
// ended.
func (s *Stage) eventually(ctx context.Context, what string, holds func() error) error {
	return s.await(ctx, what, func() (wait, failed error) {
		if err := s.check(ctx); err != nil {
			return nil, err
		}
		return holds(), nil
	})
}

// await calls try until both of its errors are nil; failed ends the wait at once.
func (s *Stage) await(ctx context.Context, what string, try func() (wait, failed error)) error {
	deadline := time.NewTimer(s.config.Timeout)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		wait, failed := try()
		if wait == nil || failed != nil {
			return failed
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return &TimeoutError{what, s.config.Timeout, wait}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.config.Environment.Done():
			return s.config.Environment.Err()
		}
	}
}
