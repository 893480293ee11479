package kubernetes_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestMarksOnLiveObjectsReachUpdatesAndDeletions(t *testing.T) {
	const until = "2026-11-28T18:00:00Z"
	b := newBench(t)
	b.reconcile(b.declare(web, config))
	mark := func(apiVersion, kind, name string) {
		b.edit(apiVersion, kind, name, func(o map[string]any) {
			set(o, until, "metadata", "annotations", "poolwright.dev/hold-until")
			set(o, "INC-7", "metadata", "annotations", "poolwright.dev/hold-reason")
		})
	}
	mark("apps/v1", "Deployment", "web")
	b.converged(b.declare(web, config)) // A mark is no drift.
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(7), "spec", "replicas") })
	early := b.plan(b.declare())
	mark("v1", "ConfigMap", "settings")
	for what, p := range map[string]plan.Plan{"an update": b.plan(b.declare(web, config)), "deletions": b.plan(b.declare())} {
		for _, c := range p.Changes {
			if c.Before.HoldUntil != until || c.Before.HoldReason != "INC-7" {
				t.Errorf("%s: %s of %s has the mark %q", what, c.Action, c.Key, c.Before.HoldUntil)
			}
		}
		if len(p.Changes) == 0 {
			t.Errorf("%s: no change", what)
		}
	}
	// What was marked after the deletion was planned is not deleted.
	early.Changes = slices.DeleteFunc(early.Changes, func(c plan.Change) bool { return c.Key.Kind != "ConfigMap" })
	errs := b.apply(early)
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("deleting what is marked since: %v", err)
		}
	}
	if len(errs) != 1 {
		t.Errorf("errors: %v", errs)
	}
	b.get("v1", "ConfigMap", "settings")
}
