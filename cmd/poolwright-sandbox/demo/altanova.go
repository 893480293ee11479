package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// altanova is the whole job: a GPU pod, edits by hand in the cluster and in AWS,
// a pull request, zero.
func (s *Run) altanova(workloads []*workload) []scenarioStep {
	worker := workloads[0]
	return []scenarioStep{
		{action: s.watchPullRequests},
		s.createWorkload(worker),
		{action: func(ctx context.Context) error { return s.injectDrift(ctx, worker) }, events: []string{driftInjected, driftCorrected}},
		{action: s.injectAWSDrift, events: []string{awsDriftInjected, awsDriftCorrected}},
		{action: s.openPullRequest, events: []string{pullOpened, commentCreated}},
		{action: s.pushAgain, events: []string{pullPushed, commentEdited}},
		{action: s.merge, events: []string{commitPushed}},
		{action: func(ctx context.Context) error { return s.delaysShortened(ctx, worker.pool) }, events: []string{commitApplied}},
		{action: s.waitForOutcome, events: []string{commentConcluded}},
		s.deleteWorkload(worker),
		s.costs(),
	}
}

// handEdit is the limit that somebody writes into the live pool.
const handEdit = "64"

// injectDrift edits the live pool by hand, as kubectl edit would, and watches it.
func (s *Run) injectDrift(ctx context.Context, r *workload) error {
	at := time.Now()
	limit := func(pool *unstructured.Unstructured) string {
		value, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "limits", gpuResource)
		return fmt.Sprint(value)
	}
	patch := fmt.Sprintf(`{"spec":{"limits":{%q:%q}}}`, gpuResource, handEdit)
	edited, err := s.dyn.Resource(nodePools()).Patch(ctx, r.pool, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		return fmt.Errorf("editing NodePool %s by hand: %w", r.pool, err)
	}
	s.marks.mark(driftInjected, "nodepool/"+r.pool, "by hand: limits["+gpuResource+"] 4 -> "+limit(edited), at)
	return s.poolBecomes(ctx, edited, func(pool *unstructured.Unstructured) bool {
		if limit(pool) == handEdit {
			return false
		}
		s.marks.mark(driftCorrected, "nodepool/"+r.pool, fmt.Sprintf("limits[%s] is %v again, as in Git", gpuResource, limit(pool)), time.Now())
		return true
	})
}

// spotRule is the EventBridge rule that reports spot interruptions.
const spotRule = "poolwright-altanova-dev-euw1-eks-SpotInterruption"

// injectAWSDrift disables the rule, as somebody does in the console, and requests a
// reconcile of the Sync: by itself it reads AWS every five minutes.
func (s *Run) injectAWSDrift(ctx context.Context) error {
	at := time.Now()
	if err := s.eventBridge(ctx, "DisableRule", spotRule, nil); err != nil {
		return err
	}
	s.marks.mark(awsDriftInjected, "rule/"+spotRule, "by hand: disabled; spot nodes would end without warning", at)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, at.Format(time.RFC3339Nano))
	if err := s.changeSync(ctx, patch); err != nil {
		return err
	}
	return s.retry(ctx, "waiting for the rule", func() error {
		var rule struct{ State string }
		if err := s.eventBridge(ctx, "DescribeRule", spotRule, &rule); err != nil {
			return err
		}
		if rule.State != "ENABLED" {
			return fmt.Errorf("rule %s is %s", spotRule, rule.State)
		}
		s.marks.mark(awsDriftCorrected, "rule/"+spotRule, "enabled again, as declared in the Cluster", time.Now())
		return nil
	})
}

// The edits of the pull request: the second is merged, the first taken back.
const (
	disk                = "volumeSize: 200Gi"
	biggerDisk          = "volumeSize: 300Gi"
	oldConsolidateAfter = "5m"
)

// openPullRequest proposes a shorter consolidateAfter and, in passing, a bigger
// disk, which would replace the node under the running pod.
func (s *Run) openPullRequest(ctx context.Context) error {
	if err := s.repo.Branch(pullBranch); err != nil {
		return err
	}
	if err := s.repo.Edit(filepath.Join("base", "nodeclasses.yaml"), swap(disk, biggerDisk)); err != nil {
		return err
	}
	if err := s.repo.Edit(filepath.Join("base", "nodepools.yaml"), shortenConsolidateAfter("gpu-inference", oldConsolidateAfter)); err != nil {
		return err
	}
	if _, err := s.repo.Push(ctx, "Remove idle GPU nodes sooner, and give them bigger disks"); err != nil {
		return err
	}
	return s.propose(ctx, "Remove idle GPU nodes sooner", "Five minutes of an idle GPU are dear.",
		"consolidateAfter "+oldConsolidateAfter+" -> "+newConsolidateAfter+", and a disk of 300 Gi instead of 200")
}

// pushAgain takes back what the comment warned of.
func (s *Run) pushAgain(ctx context.Context) error {
	if err := s.repo.Edit(filepath.Join("base", "nodeclasses.yaml"), swap(biggerDisk, disk)); err != nil {
		return err
	}
	if _, err := s.repo.Push(ctx, "Leave the disks as they are: no node needs to be replaced now"); err != nil {
		return err
	}
	s.marks.mark(pullPushed, s.pullName(), "the disk stays: the node under the pod must not be replaced now", time.Now())
	return s.commented(ctx, commentEdited)
}
