package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// piksel is a GPU node that stays when its pod goes, beside one that does not.
func (s *Run) piksel(workloads []*workload) []scenarioStep {
	model, export := workloads[0], workloads[1]
	return []scenarioStep{
		{action: func(ctx context.Context) error {
			return errors.Join(s.create(ctx, model), s.create(ctx, export))
		}, workload: model, events: nodeLaunchEvents(model)},
		{workload: export, events: nodeLaunchEvents(export)},
		// First the GPU's: its node is the one that idles longer.
		{action: func(ctx context.Context) error { return s.remove(ctx, model) }, workload: model, events: []string{podDeleted}},
		s.deleteWorkload(export),
		{action: func(ctx context.Context) error { return s.keeps(ctx, model) }, workload: model, events: []string{nodeKept}},
		{action: func(ctx context.Context) error { return s.deleteClaim(ctx, model) }, workload: model, events: []string{nodeClaimDeleted, instanceTerminated}},
	}
}

// claimOf is the one NodeClaim of a workload's pool.
func (s *Run) claimOf(ctx context.Context, r *workload) (*unstructured.Unstructured, error) {
	list, err := s.dyn.Resource(nodeClaims()).List(ctx, metav1.ListOptions{LabelSelector: poolLabel + "=" + r.pool})
	if err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("pool %s has %d NodeClaims, and should have one", r.pool, len(list.Items))
	}
	return &list.Items[0], nil
}

// keeps checks that the node of a workload without pods is untouched, at a time when
// a pool that consolidates has removed its own.
func (s *Run) keeps(ctx context.Context, r *workload) error {
	claim, err := s.claimOf(ctx, r)
	if err != nil {
		return err
	}
	if claim.GetDeletionTimestamp() != nil {
		return fmt.Errorf("NodeClaim %s is being deleted", claim.GetName())
	}
	running := 0
	for _, i := range s.environment.AWS.Instances() {
		if i.Tags[poolLabel] == r.pool && i.State == sandboxaws.Running {
			running++
		}
	}
	if running != 1 {
		return fmt.Errorf("pool %s has %d running instances, and should have one", r.pool, running)
	}
	left, err := r.marks.wait(ctx, podDeleted)
	if err != nil {
		return err
	}
	live, err := s.dyn.Resource(nodePools()).Get(ctx, r.pool, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading NodePool %s: %w", r.pool, err)
	}
	after, _, _ := unstructured.NestedString(live.Object, "spec", "disruption", "consolidateAfter")
	node, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName")
	if node == "" {
		return errors.New("the NodeClaim names no node")
	}
	now := time.Now()
	r.marks.mark(nodeKept, "node/"+node, fmt.Sprintf("empty for %.0f s and running: consolidateAfter is %s", now.Sub(left.At).Seconds(), after), now)
	return nil
}

// deleteClaim ends a node as a person does with kubectl.
func (s *Run) deleteClaim(ctx context.Context, r *workload) error {
	claim, err := s.claimOf(ctx, r)
	if err != nil {
		return err
	}
	at := time.Now()
	if err := s.dyn.Resource(nodeClaims()).Delete(ctx, claim.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting NodeClaim %s: %w", claim.GetName(), err)
	}
	r.marks.mark(nodeClaimDeleted, "nodeclaim/"+claim.GetName(), "by hand", at)
	return nil
}
