package kubernetes_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state/loss"
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
	early, correction := b.plan(b.declare()), b.plan(b.declare(web, config))
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
	// Nor is corrected what was marked, or unmarked, after that was planned.
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, "", "metadata", "annotations", "poolwright.dev/hold-until") })
	errs = b.apply(correction)
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("correcting what is marked since: %v", err)
		}
	}
	if len(errs) != 1 {
		t.Errorf("errors: %v", errs)
	}
	if replicas, _, _ := unstructured.NestedInt64(b.get("apps/v1", "Deployment", "web").Object, "spec", "replicas"); replicas != 7 {
		t.Errorf("%d replicas", replicas)
	}
}

func TestMarksOnWhatGoesWithANamespaceOrAKindReachTheirDeletion(t *testing.T) {
	const marked = ", annotations: {poolwright.dev/hold-until: 2026-11-28T18:00:00Z, poolwright.dev/hold-reason: INC-7}"
	want := func(objects ...string) map[string]loss.Mark {
		out := map[string]loss.Mark{}
		for _, object := range objects {
			out[object] = loss.Mark{Until: "2026-11-28T18:00:00Z", Reason: "INC-7"}
		}
		return out
	}
	b := newBench(t)
	space := "space-" + b.ns
	gizmos := strings.NewReplacer("widgets", "gizmos", "Widget", "Gizmo", "widget", "gizmo", "example.com", b.ns+".example.com").Replace(widgets)
	b.reconcile(b.declare("apiVersion: v1\nkind: Namespace\nmetadata: {name: space-$NS}", gizmos,
		"apiVersion: $NS.example.com/v1\nkind: Gizmo\nmetadata: {name: g, namespace: $NS}\nspec: {}"))
	kept := func(name, more string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: space-$NS" + more + "}"
	}
	b.make(kept("a", marked), "hand")
	b.make(kept("b", ""), "hand")
	// Kinds whose loss is not counted, one of another group.
	b.make("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: r, namespace: space-$NS"+marked+"}", "hand")
	b.make("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: space-$NS"+marked+"}", "hand")
	b.edit(b.ns+".example.com/v1", "Gizmo", "g", func(o map[string]any) {
		set(o, "2026-11-28T18:00:00Z", "metadata", "annotations", "poolwright.dev/hold-until")
		set(o, "INC-7", "metadata", "annotations", "poolwright.dev/hold-reason")
	})
	p := b.plan(b.declare())
	got := map[string]map[string]loss.Mark{}
	for _, c := range p.Changes {
		if len(c.Before.Marked) > 0 {
			got[c.Key.Kind] = c.Before.Marked
		}
	}
	if d := cmp.Diff(map[string]map[string]loss.Mark{
		"Namespace": want("ConfigMap/"+space+"/a", "ServiceAccount/"+space+"/r", "Role.rbac.authorization.k8s.io/"+space+"/r"), "CustomResourceDefinition": want("Gizmo." + b.ns + ".example.com/" + b.ns + "/g"),
	}, got); d != "" {
		t.Error(d)
	}
	// Whatever else is allowed, nothing goes with what was marked since.
	b.make(kept("c", marked), "hand")
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool { return c.Key.Kind != "Namespace" })
	for i := range p.Changes {
		p.Changes[i].Confirmed = loss.Counts{"ConfigMap": 9}
	}
	errs := b.apply(p)
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("deleting the namespace of what is marked since: %v", err)
		}
	}
	if len(errs) != 1 {
		t.Errorf("errors: %v", errs)
	}
}
