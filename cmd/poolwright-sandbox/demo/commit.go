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

// poolDelay is the consolidateAfter that a pool has in its file.
type poolDelay struct{ pool, delay string }

// shortenDelays commits a shorter consolidateAfter of pools, and waits until the
// live pools have it. The file is below the cluster's folder.
func (s *Run) shortenDelays(file string, of ...poolDelay) scenarioStep {
	return scenarioStep{events: []string{commitPushed, commitApplied}, action: func(ctx context.Context) error {
		var pools, delays []string
		for _, one := range of {
			if err := s.repo.Edit(filepath.Join(s.Setup.Path, file), shortenConsolidateAfter(one.pool, one.delay)); err != nil {
				return err
			}
			pools, delays = append(pools, one.pool), append(delays, one.delay)
		}
		at := time.Now()
		commit, err := s.repo.Push(ctx, "Remove idle nodes of "+strings.Join(pools, " and ")+" sooner")
		if err != nil {
			return err
		}
		s.marks.mark(commitPushed, repository+"@main", fmt.Sprintf("commit %.8s: consolidateAfter %s -> %s", commit, strings.Join(delays, " and "), newConsolidateAfter), at)
		return s.delaysShortened(ctx, pools...)
	}}
}

// delaysShortened waits until the live pools have what was committed.
func (s *Run) delaysShortened(ctx context.Context, pools ...string) error {
	for _, name := range pools {
		live, err := s.dyn.Resource(nodePools()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading NodePool %s: %w", name, err)
		}
		err = s.poolBecomes(ctx, live, func(pool *unstructured.Unstructured) bool {
			after, _, _ := unstructured.NestedString(pool.Object, "spec", "disruption", "consolidateAfter")
			return after == newConsolidateAfter
		})
		if err != nil {
			return err
		}
	}
	s.marks.mark(commitApplied, "nodepool/"+strings.Join(pools, " nodepool/"), "consolidateAfter is "+newConsolidateAfter, time.Now())
	return nil
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
