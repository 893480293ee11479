package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// propose asks a target without a memory what a change would do.
func (b *bench) propose(before, after state.Set) plan.Proposal {
	b.Helper()
	b.restart()
	got, err := reconciler.Propose(b.Context(), declared.Declared{Set: before}, declared.Declared{Set: after}, false,
		[]reconciler.NamedTarget{{Name: kubernetes.Name, Target: b.target}}, plan.Guard(50, ""))
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// warnings are the changes of a plan and what is said of them.
func (b *bench) warnings(p plan.Plan) []string {
	var out []string
	if len(p.Changes) > 0 {
		out = b.lines(p)
	}
	for _, n := range p.Notes {
		out = append(out, strings.ReplaceAll(n.Key.String()+": "+warned(n), b.ns, "$NS"))
	}
	return out
}

func TestAProposalInARealCluster(t *testing.T) {
	b := newBench(t)
	const other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: $NS}\ndata: {a: theirs}"
	const kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: $NS, annotations: {poolwright.dev/prune: disabled}}\ndata: {a: x}"
	const extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: $NS}\ndata: {a: x}"
	b.make(other, "kubectl-create")
	base := b.declare(config, web, secret, kept, extra)
	b.reconcile(base)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "edited", "data", "a") })

	head := b.declare(
		strings.Replace(config, `a: "1", b: "2"`, `a: "5", b: "6"`, 1),
		strings.Replace(web, "nginx:1", "nginx:2", 1),
		strings.Replace(secret, "password: hunter2", "password: hunter3", 1),
		strings.Replace(other, "theirs", "ours", 1),
	)
	got := b.propose(base, head)
	want := []string{
		"create ConfigMap/$NS/other",
		"update ConfigMap/$NS/settings", "  data.a: 1 -> 5", "  data.b: 2 -> 6",
		"update Secret/$NS/token", "  data.password: masked -> masked",
		"update Deployment.apps/$NS/web", "  spec.template.spec.containers[name=web].image: nginx:1 -> nginx:2",
		"delete ConfigMap/$NS/extra", "delete ConfigMap/$NS/kept",
		"ConfigMap/$NS/other: exists, not managed by this Sync",
		"ConfigMap/$NS/settings: has drifted live in fields that the change sets: data.a",
	}
	have := b.warnings(got.Proposed)
	for i, line := range have {
		if strings.Contains(line, "data.password") {
			have[i] = "  data.password: masked -> masked"
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
	for _, c := range got.Proposed.Changes {
		switch {
		case c.Action == plan.Delete && c.Key.Name == "kept" && !c.ReadOnly():
			t.Error("what is kept seems to be deleted")
		case c.Action == plan.Delete && c.Key.Name == "extra" && (c.ReadOnly() || !c.Admitted() || c.Before.Live.UID == ""):
			t.Errorf("what is deleted seems to be kept: %+v", c)
		}
	}
	if d := cmp.Diff([]string{"update ConfigMap/$NS/settings", "  data.a: edited -> 1"}, b.warnings(got.Drift)); d != "" {
		t.Error(d)
	}
	for _, hidden := range []string{"theirs", "hunter", "aHVudGVy"} {
		if strings.Contains(dump(got), hidden) {
			t.Errorf("%s is shown", hidden)
		}
	}

	// The merge does what was reported, and then nothing is left of it.
	b.reconcile(head)
	after := b.propose(head, head)
	if lines := append(b.warnings(after.Proposed), b.warnings(after.Drift)...); len(lines) != 0 {
		t.Errorf("after the merge: %v", lines)
	}
}

func TestAProposalThatTheAPIServerWouldRefuse(t *testing.T) {
	b := newBench(t)
	base := b.declare(web)
	b.reconcile(base)
	got := b.propose(base, b.declare(strings.NewReplacer("matchLabels: {app: web}", "matchLabels: {app: new}", "labels: {app: web}", "labels: {app: new}").Replace(web)))
	if len(got.Proposed.Notes) != 1 || got.Proposed.Notes[0].Severity != finding.Warning || !strings.HasPrefix(got.Proposed.Notes[0].Text, "a dry run of it is refused: ") || !strings.Contains(got.Proposed.Notes[0].Text, "immutable") {
		t.Errorf("got %v", b.warnings(got.Proposed))
	}
}
