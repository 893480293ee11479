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
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.life.count++
	name := fmt.Sprintf("%s-%d", s.name, s.life.count)
	s.api.SetClient(name)
	s.git.SetClient(name)
	s.Tap.Record(history.Event{Kind: history.Started, Client: name})
	p, err := s.config.Environment.Run(name, s.config.Product, "run",
		"--namespace="+s.System, "--kubeconfig="+s.kubeconfig(), "--cache-dir="+s.dir+"/mirrors", "--metrics-addr=0", "--health-addr=0")
	s.life.process, s.life.killed = p, false
	return err
}

// client is the newest process' name in the history.
func (s *Stage) client() string { return fmt.Sprintf("%s-%d", s.name, s.life.count) }

// Kill ends the controller as a crash of its node does. Wires call it.
func (s *Stage) Kill() {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.life.killed = true
	s.fail(s.life.process.Kill())
	s.Tap.Record(history.Event{Kind: history.Ended, Client: s.client()})
}

// fail keeps an error for check. The caller holds the lock.
func (s *Stage) fail(err error) {
	if err != nil {
		s.life.errs = append(s.life.errs, err)
	}
}

// ByHand keeps the error of what a person does while a request waits.
func (s *Stage) ByHand(err error) {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.fail(err)
}

// check starts the next process where the last one has ended, and returns what failed in
// the meantime.
func (s *Stage) check(ctx context.Context) error {
	s.life.mu.Lock()
	err := errors.Join(s.life.errs...)
	p, killed := s.life.process, s.life.killed
	s.life.mu.Unlock()
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
	if meanwhile := s.life.meanwhile; meanwhile != nil && killed {
		s.life.meanwhile = nil
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
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	if s.life.process == nil {
		return nil
	}
	return s.life.process.Kill()
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
	deadline := time.NewTimer(s.config.Timeout)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.check(ctx); err != nil {
			return err
		}
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return &TimeoutError{what, s.config.Timeout, err}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.config.Environment.Done():
			return s.config.Environment.Err()
		}
	}
}
