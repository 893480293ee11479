package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
)

// propose asks a target without a memory what a change would do.
func (b *bench) propose(before, after state.Set) plan.Proposal {
	b.Helper()
	got, err := reconciler.Propose(b.Context(), declared.Declared{Set: before}, declared.Declared{Set: after}, false,
		[]reconciler.NamedTarget{{Name: Name, Target: b.restart()}}, plan.Guard(50, ""))
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// kept is the queue with a retention, under a policy.
func kept(part v1alpha1.ManagementPolicy, retention time.Duration) func(*v1alpha1.ClusterSpec) {
	return func(s *v1alpha1.ClusterSpec) {
		s.InterruptionQueue = &v1alpha1.InterruptionQueue{ManagementPolicy: part, Retention: &metav1.Duration{Duration: retention}}
	}
}

// noteTexts writes the changes of a plan by kind, with what keeps them from being made.
func noteTexts(p plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s", c.Action, c.Key.Kind)
		for _, f := range c.Fields {
			line += fmt.Sprintf(" %s: %v > %v", f.Path, f.Before, f.After)
		}
		switch {
		case c.ReadOnly():
			line += " never"
		case !c.Admitted():
			line += " held"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestAProposalOfAWSDistinguishesTheStepFromTheDrift(t *testing.T) {
	b := newBench(t, nil)
	base := b.declare(kept(deleting, 5*time.Minute))
	b.reconcile(base)
	b.disableRule(0)
	drift := []string{"update Rule state: DISABLED > ENABLED"}

	got := b.propose(base, b.declare(kept(deleting, 10*time.Minute)))
	step := noteTexts(got.Proposed)
	if len(step) != 1 || !strings.HasPrefix(step[0], "update Queue ") || !strings.Contains(step[0], "300 > 600") {
		t.Errorf("the retention: %v", step)
	}
	if d := cmp.Diff(drift, noteTexts(got.Drift)); d != "" {
		t.Error(d)
	}

	// All goes: the guard counts what the merge deletes, live.
	got = b.propose(base, b.declare(nothing))
	if d := cmp.Diff([]string{"delete Queue held", "delete Rule held"}, noteTexts(got.Proposed)); d != "" {
		t.Error(d)
	}
	if !strings.Contains(got.Proposed.Reasons().String(), "would delete all") {
		t.Errorf("held: %v", got.Proposed.Reasons())
	}
	if d := cmp.Diff(drift, noteTexts(got.Drift)); d != "" {
		t.Error(d)
	}
	if w := b.writes(); slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "Delete") }) {
		t.Errorf("a proposal wrote %v", w)
	}
}

func TestAProposalOfAWSLeavesToItselfWhatItsPolicyKeeps(t *testing.T) {
	b := newBench(t, nil)
	base := b.declare(kept(v1alpha1.ManagementPolicy{}, 5*time.Minute))
	b.reconcile(base)
	for range 2 {
		got := b.propose(base, b.declare(nothing))
		if d := cmp.Diff([]string{"delete Queue never", "delete Rule never"}, noteTexts(got.Proposed)); d != "" {
			t.Error(d)
		}
		if len(got.Drift.Changes) != 0 {
			t.Errorf("drift: %v", noteTexts(got.Drift))
		}
	}
}

func TestAProposalOfAWSShowsNothingOfOthers(t *testing.T) {
	b := newBench(t, nil)
	rule := interruption.RuleNames(b.config.Cluster.Name)[0]
	if _, err := b.hand.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{
		Name: &rule, EventPattern: sdk.String(`{"source":["secret.source"]}`), Description: sdk.String("secret description"),
	}); err != nil {
		t.Fatal(err)
	}
	base, head := b.declare(nothing), b.declare(kept(deleting, 5*time.Minute))
	for _, before := range []state.Set{base, head} {
		got := b.propose(before, head)
		if text := fmt.Sprintf("%+v", got); strings.Contains(text, "secret") {
			t.Errorf("shown: %s", text)
		}
		var notes []string
		for _, n := range append(got.Proposed.Notes, got.Drift.Notes...) {
			if n.Key.Name == rule {
				notes = append(notes, n.Text)
			}
		}
		if d := cmp.Diff([]string{"exists, not managed by this Sync"}, notes); d != "" {
			t.Error(d)
		}
		for _, c := range append(got.Proposed.Changes, got.Drift.Changes...) {
			if (c.Key.Name == rule) != c.ReadOnly() {
				t.Errorf("%s: read-only is %v", c.Key, c.ReadOnly())
			}
		}
	}
}

func TestAProposalOfAWSReadsTheQuotasOfTheStep(t *testing.T) {
	b := newBench(t, nil)
	pooled := func(cpus string) state.Set {
		cluster := b.declare(kept(deleting, 5*time.Minute))
		return state.NewSet(append(cluster.Items(), state.Item{
			Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}, Version: "v1",
			Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "gpu"}, "spec": map[string]any{
				"limits": map[string]any{"cpu": cpus},
				"template": map[string]any{"spec": map[string]any{"requirements": []any{
					map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"g5.xlarge"}},
					map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"on-demand"}},
				}}},
			}},
		})...)
	}
	base := pooled("4")
	b.reconcile(base)
	got := b.propose(base, pooled("1000000"))
	var step []string
	for _, n := range got.Proposed.Notes {
		step = append(step, n.Text)
	}
	if len(step) == 0 || got.Proposed.Notes[0].Severity != finding.Warning {
		t.Errorf("notes of the change: %v; of the drift: %v", step, got.Drift.Notes)
	}
	if len(got.Proposed.Changes)+len(got.Drift.Changes) != 0 {
		t.Errorf("changes: %v, %v", noteTexts(got.Proposed), noteTexts(got.Drift))
	}
}
