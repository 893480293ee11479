package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

// Start runs the next process of the controller.
func (s *Stage) Start() error {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	s.controller.count++
	name := fmt.Sprintf("%s-%d", s.name, s.controller.count)
	s.api.SetClient(name)
	s.git.SetClient(name)
	s.Tap.Record(history.Event{Kind: history.Started, Client: name})
	p, err := s.config.Environment.Run(name, s.config.Product, append([]string{
		"run",
		"--namespace=" + s.System, "--kubeconfig=" + s.kubeconfig(), "--cache-dir=" + s.CacheDir(), "--metrics-addr=0", "--health-addr=0",
	}, s.config.Arguments...)...)
	s.controller.process, s.controller.killed = p, false
	return err
}

// client is the newest process' name in the history.
func (s *Stage) client() string { return fmt.Sprintf("%s-%d", s.name, s.controller.count) }

// Kill ends the controller as a crash of its node does. Wires call it.
func (s *Stage) Kill() {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	s.controller.killed = true
	s.fail(s.controller.process.Kill())
	s.Tap.Record(history.Event{Kind: history.Ended, Client: s.client()})
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

// check starts the next process where the last one has ended, and returns what failed in
// the meantime.
func (s *Stage) check(ctx context.Context) error {
	s.controller.mu.Lock()
	err := errors.Join(s.controller.errs...)
	p, killed := s.controller.process, s.controller.killed
	s.controller.mu.Unlock()
	if err != nil || p == nil {
		return err
	}
	select {
	case <-p.Done():
	default:
		return nil
	}
	if !killed {
		reason := "it exited"
		if err := p.Err(); err != nil {
			reason = err.Error()
		}
		s.Tap.Record(history.Event{Kind: history.Ended, Client: s.client(), Reason: reason})
	}
	if meanwhile := s.controller.meanwhile; meanwhile != nil && killed {
		s.controller.meanwhile = nil
		if err := meanwhile(ctx); err != nil {
			return err
		}
	}
	// Nobody waits until the lease of a dead process expires.
	if err := s.config.Admin.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(s.System)); err != nil {
		return err
	}
	return s.Start()
}

// End kills the controller for good.
func (s *Stage) End() error {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	if s.controller.process == nil {
		return nil
	}
	return s.controller.process.Kill()
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
