// Package demo runs the main job of each reference set-up on a running sandbox and
// prints it as events: the push to Git, the pods that wait, the nodes that come
// and go, zero. An event is printed when the cluster, AWS or the forge has it, and
// never because the run has come that far.
//
// Start reading at Run.Execute; which set-up has which steps is in scenarios.go.
package demo

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Options are what is run, and how it is printed.
type Options struct {
	// Setup is the set-up that the sandbox simulates.
	Setup setups.Setup
	// Folder is its example, or a changed copy.
	Folder string
	// Product is the poolwright binary.
	Product string
	// Deadline bounds each wait for the next event.
	Deadline time.Duration
	// Printer prints the events.
	Printer Printer
	// MetricsAddress is where the product serves its metrics.
	MetricsAddress string
}

// Run is one run of a set-up.
type Run struct {
	Options
	environment *sandbox.Environment
	kube        kubernetes.Interface
	dyn         dynamic.Interface
	nodes       listers.NodeLister
	repo        *repo
	pull        pull
	scenario    scenario
	// marks are the events that belong to no workload.
	marks   *timeline
	watched watchedWorkloads
	// extra are the lines that the summary has beside the times.
	extra []row
	// controller is the product's process once it runs.
	controller *process.Process
}

// watchedWorkloads are the workloads that are watched by now.
type watchedWorkloads struct {
	mu        sync.Mutex
	workloads []*workload
}

func (c *watchedWorkloads) add(r *workload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workloads = append(c.workloads, r)
}

func (c *watchedWorkloads) all() []*workload {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.workloads)
}

// Controller is the process of `poolwright run`, nil before it was started.
func (s *Run) Controller() *process.Process { return s.controller }

// scenarioStep is one step: what is done, then the events that must follow.
type scenarioStep struct {
	action func(context.Context) error
	// workload is the one whose events these are, nil for the run's own.
	workload *workload
	events   []string
}

func (s *Run) step(ctx context.Context, c scenarioStep) error {
	if c.action != nil {
		if err := s.bounded(ctx, c.action); err != nil {
			return fmt.Errorf("%w%s", err, s.hint())
		}
	}
	marks := s.marks
	if c.workload != nil {
		marks = c.workload.marks
	}
	for _, name := range c.events {
		err := s.bounded(ctx, func(ctx context.Context) error {
			e, err := marks.wait(ctx, name)
			if err == nil {
				s.Printer.Print(e)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("waiting for %s: %w%s", name, err, s.hint())
		}
	}
	return nil
}

// bounded runs do until the step's deadline, or until the controller ends.
func (s *Run) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.Deadline, func() {
		cancel(fmt.Errorf("it did not happen within %s", s.Deadline))
	})
	defer timer.Stop()
	var ended <-chan struct{}
	if s.controller != nil {
		ended = s.controller.Done()
	}
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ended:
		return fmt.Errorf("poolwright run has ended: %w", s.controller.Err())
	case <-s.environment.Done():
		return s.environment.Err()
	}
}

// retry does something that fails until the controller has come far enough, such
// as creating an object whose CRD it brings.
func (s *Run) retry(ctx context.Context, what string, do func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := do()
		if err == nil {
			return nil
		}
		// A request that was cut short has nothing on what it waited for.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, last, context.Cause(ctx))
		}
	}
}

// hint adds the end of the controller's log to a failure that it may explain.
func (s *Run) hint() string {
	if s.controller == nil {
		return ""
	}
	return "\nthe end of the log of poolwright run:\n" + process.Tail(s.controller.Log(), 15)
}

// syncName is the name that the Sync is given: that of the cluster's folder.
func (s *Run) syncName() string { return path.Base(s.Setup.Path) }

// clusterFolder is the folder of the working copy that the cluster follows.
func (s *Run) clusterFolder() string { return filepath.Join(s.repo.Dir, s.Setup.Path) }

// scenario is what happens in one set-up between its push and zero.
type scenario struct {
	// contents is what the first commit brings.
	contents string
	// workloads are the workloads and the pools that serve them.
	workloads []*workload
	steps     func(*Run, []*workload) []scenarioStep
	// figures are the document's for times of the run, by the measure's field.
	figures map[string]figure
}

// pull is the pull request of the run.
type pull struct {
	number int
	// comment is the comment as it was last read.
	comment string
}
