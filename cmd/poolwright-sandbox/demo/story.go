// Package demo tells the main job of each reference set-up on a running world of
// the sandbox, as events: the push to Git, the pods that wait, the nodes that come
// and go, zero. An event is told when the cluster, AWS or the forge shows it, and
// never because the story has come that far.
//
// Start reading at Story.Tell; what is told of which set-up is in tales.go.
package demo

import (
	"context"
	"fmt"
	"path"
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

// Options are what a story is told of, and how.
type Options struct {
	// Setup is the set-up whose World the sandbox plays.
	Setup setups.Setup
	// Folder is its example, or a changed copy.
	Folder string
	// Product is the poolwright binary.
	Product string
	// Deadline bounds each wait for the next event.
	Deadline time.Duration
	// Printer prints the events.
	Printer Printer
}

// Story is one telling.
type Story struct {
	Options
	environment *sandbox.Environment
	kube        kubernetes.Interface
	dyn         dynamic.Interface
	nodes       listers.NodeLister
	repo        *repo
	pull        pull
	tale        tale
	// marks are the events that belong to no role.
	marks *timeline
	cast  cast
	// controller is the product's process once it runs.
	controller *process.Process
}

// cast are the roles that are played by now.
type cast struct {
	mu    sync.Mutex
	roles []*role
}

func (c *cast) enter(r *role) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roles = append(c.roles, r)
}

func (c *cast) all() []*role {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.roles)
}

// New prepares a story. It fails where nothing is known to tell of the set-up, or
// its workloads cannot be read.
func New(world *sandbox.Environment, options Options) (*Story, error) {
	t, known := tales()[options.Setup.Name]
	if !known {
		return nil, fmt.Errorf("there is no story of set-up %s", options.Setup.Name)
	}
	s := &Story{Options: options, environment: world, tale: t, marks: newTimeline()}
	for _, r := range t.roles {
		if err := r.load(options.Folder); err != nil {
			return nil, err
		}
		s.cast.enter(r)
	}
	var err error
	if s.kube, err = kubernetes.NewForConfig(world.REST()); err != nil {
		return nil, fmt.Errorf("connecting to the world: %w", err)
	}
	if s.dyn, err = dynamic.NewForConfig(world.REST()); err != nil {
		return nil, fmt.Errorf("connecting to the world: %w", err)
	}
	return s, nil
}

// Controller is the process of `poolwright run`, nil before it was started.
func (s *Story) Controller() *process.Process { return s.controller }

// Tell plays all chapters and ends with the summary. Its error says which event
// did not come, with the controller's last words.
func (s *Story) Tell(ctx context.Context) error {
	s.marks.mark(worldReady, s.Setup.Cluster, "API server, scheduler, controllers, AWS, Gitea: all on loopback", time.Now())
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, c := range slices.Concat(s.opening(ctx), s.tale.chapters(s, s.tale.roles), s.closing()) {
		if err := s.play(ctx, c); err != nil {
			return err
		}
	}
	s.Printer.Print(s.summary(ctx))
	return nil
}

// chapter is one step: what the teller does, then the events that must follow.
type chapter struct {
	does func(context.Context) error
	// of is the role whose events these are, nil for the story's own.
	of   *role
	then []string
}

func (s *Story) play(ctx context.Context, c chapter) error {
	if c.does != nil {
		if err := s.bounded(ctx, c.does); err != nil {
			return fmt.Errorf("%w%s", err, s.hint())
		}
	}
	marks := s.marks
	if c.of != nil {
		marks = c.of.marks
	}
	for _, name := range c.then {
		err := s.bounded(ctx, func(ctx context.Context) error {
			e, err := marks.await(ctx, name)
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

// bounded runs do until the chapter's deadline, or until the controller ends.
func (s *Story) bounded(ctx context.Context, do func(context.Context) error) error {
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
func (s *Story) retry(ctx context.Context, what string, do func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := do()
		if err == nil {
			return nil
		}
		// A request that was cut short says nothing of what it waited for.
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

// hint adds what the controller said last to a failure that it may explain.
func (s *Story) hint() string {
	if s.controller == nil {
		return ""
	}
	return "\nthe last words of poolwright run:\n" + process.Tail(s.controller.Log(), 15)
}

// syncName is the name that the Sync is given: that of the cluster's folder.
func (s *Story) syncName() string { return path.Base(s.Setup.Path) }
