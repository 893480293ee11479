package demo

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// pingvas is a worker on a spot node that EC2 takes back: another node comes for
// it, and the old one is drained and ended before EC2 would. Beside it a premium
// worker gets a node on demand, which is empty meanwhile; a commit to the old API shortens what both pools wait.
func (s *Run) pingvas(workloads []*workload) []scenarioStep {
	worker, premium := workloads[0], workloads[1]
	again := worker.again()
	drained := func(ctx context.Context) error { return s.drained(ctx, worker, again) }
	return []scenarioStep{
		s.followed(),
		s.createWorkload(worker),
		s.createWorkload(premium),
		s.shortenDelays("nodepools.yaml", poolDelay{worker.pool, "30s"}, poolDelay{premium.pool, "60s"}),
		{action: func(ctx context.Context) error { return s.remove(ctx, premium) }, workload: premium, events: []string{podDeleted}},
		{action: func(context.Context) error { return s.interrupt(worker, again) }, workload: again, events: append([]string{spotInterrupted}, nodeLaunchEvents(again)...)},
		{workload: worker, events: []string{instanceTerminated}},
		{action: drained, workload: worker, events: []string{nodeDrained}},
		s.deleteWorkload(again),
		{workload: premium, events: []string{instanceTerminated}},
		s.costs(),
	}
}

// interrupt has EC2 announce that it takes the worker's instance back. From then on
// again is about what comes in its place.
func (s *Run) interrupt(worker, again *workload) error {
	for _, i := range s.environment.AWS.Instances() {
		if i.Tags[poolLabel] != worker.pool || i.State != sandboxaws.Running {
			continue
		}
		again.ignore(worker)
		s.watched.add(again)
		at := time.Now()
		if err := s.environment.AWS.Interrupt(i.ID); err != nil {
			return err
		}
		again.marks.mark(spotInterrupted, "instance/"+i.ID, "spot interruption notice of EC2: this "+i.Type+" is reclaimed in two minutes", at)
		return nil
	}
	return fmt.Errorf("pool %s has no running instance to interrupt", worker.pool)
}

// drained waits until the worker's first node is gone.
func (s *Run) drained(ctx context.Context, worker, again *workload) error {
	warned, err := again.marks.wait(ctx, spotInterrupted)
	if err != nil {
		return err
	}
	node, err := worker.marks.wait(ctx, nodeRegistered)
	if err != nil {
		return err
	}
	name := node.Object[len("node/"):]
	return s.retry(ctx, "waiting for the end of node "+name, func() error {
		_, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		now := time.Now()
		for _, of := range []*workload{worker, again} { // again has the notice
			of.marks.mark(nodeDrained, node.Object, fmt.Sprintf("gone %.0f s after the interruption notice", now.Sub(warned.At).Seconds()), now)
		}
		return nil
	})
}
