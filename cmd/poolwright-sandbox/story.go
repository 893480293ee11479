package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// What the story is about.
const (
	systemNamespace = "poolwright-system"
	syncName        = "dev"
	poolName        = "gpu-inference"
	podName         = "tinyllama-inference"
	podNamespace    = "default"
	syncPath        = "clusters/dev"
	repository      = "nodes"
)

// chapterDeadline bounds each wait for the next event, where the user says
// nothing else.
const chapterDeadline = 90 * time.Second

// story tells the main job on a running world.
type story struct {
	world *sandbox.World
	kube  kubernetes.Interface
	dyn   dynamic.Interface
	repo  *repo
	pull  pull
	// edited is set once the hand edit has been seen live.
	edited atomic.Bool
	marks  *timeline
	tell   teller
	// deadline bounds each wait for the next event.
	deadline time.Duration
	// binary is the product, controller its process once it runs.
	binary     string
	controller *process.Process
}

// chapter is one step: what the teller does, then the events that must follow.
type chapter struct {
	does func(context.Context) error
	then []string
}

// run plays all chapters and ends with the summary.
func (s *story) run(ctx context.Context) error {
	for _, c := range []chapter{
		{then: []string{worldReady}},
		{does: s.push, then: []string{gitPushed}},
		{does: s.bootstrap},
		{does: s.startController},
		{does: func(context.Context) error { return s.witnessCRDs(ctx) }, then: []string{syncReady}},
		// The engine starts when the Cluster object has come from Git.
		{does: s.engineReady},
		{does: s.createPod, then: []string{podPending, nodeClaimCreated, fleetRequested, nodeRegistered, gpuAllocatable, nodeInitialized, podBound, podRunning}},
		{does: s.injectDrift, then: []string{driftInjected, driftCorrected}},
		{does: s.injectAWSDrift, then: []string{awsDriftInjected, awsDriftCorrected}},
		{does: s.openPullRequest, then: []string{pullOpened, pullTold}},
		{does: s.pushAgain, then: []string{pullPushed, pullRetold}},
		{does: s.merge, then: []string{commitPushed, commitApplied}},
		{does: s.toldToTheEnd, then: []string{pullDone}},
		{does: s.deletePod, then: []string{podDeleted, instanceTerminated}},
		{does: s.zero, then: []string{worldZero}},
	} {
		if err := s.play(ctx, c); err != nil {
			return err
		}
	}
	s.tell.tell(s.summary())
	return nil
}

func (s *story) play(ctx context.Context, c chapter) error {
	if c.does != nil {
		if err := s.bounded(ctx, c.does); err != nil {
			return fmt.Errorf("%w%s", err, s.hint())
		}
	}
	for _, name := range c.then {
		err := s.bounded(ctx, func(ctx context.Context) error {
			e, err := s.marks.await(ctx, name)
			if err == nil {
				s.tell.tell(e)
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
func (s *story) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.deadline, func() {
		cancel(fmt.Errorf("it did not happen within %s", s.deadline))
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
	case <-s.world.Done():
		return s.world.Err()
	}
}

// hint adds what the controller said last to a failure that it may explain.
func (s *story) hint() string {
	if s.controller == nil {
		return ""
	}
	return "\nthe last words of poolwright run:\n" + process.Tail(s.controller.Log(), 15)
}

func (s *story) summary() event {
	now := time.Now()
	return event{Event: storySummary, At: now, Object: "world", Detail: summary{
		PendingToFleetSeconds:      s.marks.between(podPending, fleetRequested),
		PendingToRunningSeconds:    s.marks.between(podPending, podRunning),
		DriftSeconds:               s.marks.between(driftInjected, driftCorrected),
		CommitSeconds:              s.marks.between(commitPushed, commitApplied),
		DeletedToTerminatedSeconds: s.marks.between(podDeleted, instanceTerminated),
		GPUNodes:                   s.gpuNodes(context.Background()),
		CostUSD:                    s.world.AWS.Spend(now),
	}}
}
