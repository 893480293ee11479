package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newConsolidateAfter is what runs shorten a pool's consolidateAfter to, so that nobody has
// to wait for minutes until a node goes.
const newConsolidateAfter = "10s"

// shortenDelay commits a shorter consolidateAfter of a workload's pool, and waits until the
// live pool has it. The file is below the cluster's folder.
func (s *Run) shortenDelay(r *workload, file, delay string) scenarioStep {
	return scenarioStep{events: []string{commitPushed, commitApplied}, action: func(ctx context.Context) error {
		if err := s.repo.Edit(filepath.Join(s.Setup.Path, file), shortenConsolidateAfter(r.pool, delay)); err != nil {
			return err
		}
		at := time.Now()
		commit, err := s.repo.Push(ctx, "Remove idle nodes of "+r.pool+" sooner")
		if err != nil {
			return err
		}
		s.marks.mark(commitPushed, repository+"@main", fmt.Sprintf("commit %.8s: consolidateAfter %s -> %s", commit, delay, newConsolidateAfter), at)
		return s.delayShortened(ctx, r)
	}}
}

// delayShortened waits until the live pool has what was committed.
func (s *Run) delayShortened(ctx context.Context, r *workload) error {
	live, err := s.dyn.Resource(nodePools()).Get(ctx, r.pool, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading NodePool %s: %w", r.pool, err)
	}
	return s.poolBecomes(ctx, live, func(pool *unstructured.Unstructured) bool {
		after, _, _ := unstructured.NestedString(pool.Object, "spec", "disruption", "consolidateAfter")
		if after != newConsolidateAfter {
			return false
		}
		s.marks.mark(commitApplied, "nodepool/"+r.pool, "consolidateAfter is "+after, time.Now())
		return true
	})
}

// shortenConsolidateAfter shortens a pool's consolidateAfter.
func shortenConsolidateAfter(pool, delay string) func(string) (string, error) {
	return func(text string) (string, error) {
		name, old := "name: "+pool+"\n", "consolidateAfter: "+delay
		before, after, ok := strings.Cut(text, name)
		if !ok || !strings.Contains(after, old) {
			return "", fmt.Errorf("pool %s has no %q to shorten", pool, old)
		}
		return before + name + strings.Replace(after, old, "consolidateAfter: "+newConsolidateAfter, 1), nil
	}
}

// swap replaces a text that must be there.
func swap(old, by string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !strings.Contains(text, old) {
			return "", fmt.Errorf("there is no %q", old)
		}
		return strings.ReplaceAll(text, old, by), nil
	}
}
