package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
)

func TestTheMergeOutcomeIsAFewLines(t *testing.T) {
	merged := time.Date(2026, 11, 20, 19, 2, 0, 0, time.UTC)
	applied := merged.Add(4 * time.Second)
	const revision = "main@sha1:abc1234def5678900000000000000000000000aa"
	left := nodesOf("gpu", 4, "NodePoolDrifted")
	kept := left[3:]
	kept[0].Blockers = []provision.Blocker{{Kind: "pdb", Pod: provision.Pod{Namespace: "ml", Name: "train-6"}, PodDisruptionBudgets: []string{"ml/train"}}, {Kind: "pdb", Pod: provision.Pod{Namespace: "ml", Name: "train-7"}, PodDisruptionBudgets: []string{"ml/train"}}}
	tests := []struct {
		name           string
		a              MergeOutcome
		markdown, line string
	}{
		{"before it is applied", MergeOutcome{Merged: merged, Nodes: 4}, "Merged 2026-11-20 19:02 UTC; not applied yet.\n", "Merged, not applied yet"},
		{"held", MergeOutcome{Merged: merged, Held: "guard.maxNodesReplaced: 9 nodes, at most 5."},
			"⛔ Merged 2026-11-20 19:02 UTC; held: `guard.maxNodesReplaced: 9 nodes, at most 5`.\n\nThe Sync's status shows what releases it: `kubectl -n poolwright-system describe syncs.poolwright.dev`.\n",
			"Held: guard.maxNodesReplaced: 9 nodes, at most 5"},
		{"held until it is confirmed", MergeOutcome{Merged: merged, Sync: "team/dev", Held: "3 nodes go with it", ConfirmationToken: "3ae3f00d,1234"},
			"⛔ Merged 2026-11-20 19:02 UTC; held: `3 nodes go with it`.\n\nTo confirm all that waits: `kubectl -n team annotate sync dev --overwrite poolwright.dev/confirm=3ae3f00d,1234`.\n",
			"Held: 3 nodes go with it"},
		{"failed", MergeOutcome{Merged: merged, Failed: "ApplyFailed", Sync: "team/dev"},
			"❌ Merged 2026-11-20 19:02 UTC; not applied in full: `ApplyFailed`. It is retried. The error is in the Sync's status: `kubectl -n team describe syncs.poolwright.dev dev`.\n",
			"Merged, not applied in full: ApplyFailed"},
		{"failed for good", MergeOutcome{Merged: merged, Failed: "InvalidManifests", Stalled: true},
			"❌ Merged 2026-11-20 19:02 UTC; not applied in full: `InvalidManifests`. The Sync is Stalled until that is corrected. The error is in the Sync's status: `kubectl -n poolwright-system describe syncs.poolwright.dev`.\n",
			"Merged, not applied in full: InvalidManifests"},
		{"no nodes", MergeOutcome{Revision: revision, Merged: merged, Applied: applied}, "Applied `main` at `abc1234` in 4 s. No node had to be replaced.\n", "Applied main@abc1234 in 4 s. No node had to be replaced"},
		{"under way", MergeOutcome{Revision: revision, Merged: merged, Applied: applied, Nodes: 4, Remaining: kept},
			"Applied `main` at `abc1234` in 4 s. Roll-out: 3 of 4 nodes replaced, 1 left: `ip-10-0-3-13.eu-west-1.compute.internal` waits for PodDisruptionBudget `ml/train`.\n",
			"Applied main@abc1234 in 4 s. Roll-out: 3 of 4 nodes replaced, 1 left"},
		{"many left, those first that wait", MergeOutcome{Revision: revision, Merged: merged, Applied: applied, Nodes: 2, Remaining: left},
			"Applied `main` at `abc1234` in 4 s. Roll-out: 0 of 4 nodes replaced, 4 left: `ip-10-0-3-13.eu-west-1.compute.internal` waits for PodDisruptionBudget `ml/train`; `ip-10-0-3-10.eu-west-1.compute.internal`; `ip-10-0-3-11.eu-west-1.compute.internal`; 1 more.\n",
			"Applied main@abc1234 in 4 s. Roll-out: 0 of 4 nodes replaced, 4 left"},
		{"a part held", MergeOutcome{Revision: revision, Merged: merged, Applied: merged.Add(5 * time.Minute), Held: "too many"},
			"Applied `main` at `abc1234` in 5 min. No node had to be replaced.\n\n⛔ A part of it is held: `too many`.\n\nThe Sync's status shows what releases it: `kubectl -n poolwright-system describe syncs.poolwright.dev`.\n",
			"Applied main@abc1234 in 5 min, a part is held: too many"},
		{"done", MergeOutcome{Revision: revision, Merged: merged, Applied: applied, Nodes: 4, Done: applied.Add(23 * time.Minute)},
			"Applied `main` at `abc1234` in 4 s. Roll-out done in 23 min: 4 nodes replaced.\n", "Applied main@abc1234 in 4 s. Roll-out done in 23 min: 4 nodes replaced"},
		{"a pool that goes", MergeOutcome{Revision: revision, Merged: merged, Applied: applied, Nodes: 4, Removed: 9, Remaining: kept},
			"Applied `main` at `abc1234` in 4 s. Roll-out: 3 of 4 nodes removed with their pool, 1 left: `ip-10-0-3-13.eu-west-1.compute.internal` waits for PodDisruptionBudget `ml/train`.\n",
			"Applied main@abc1234 in 4 s. Roll-out: 3 of 4 nodes removed with their pool, 1 left"},
		{"a pool that is gone, and one that is rolled", MergeOutcome{Revision: revision, Merged: merged, Applied: applied, Nodes: 4, Removed: 3, Done: applied.Add(23 * time.Minute)},
			"Applied `main` at `abc1234` in 4 s. Roll-out done in 23 min: 1 node replaced, 3 nodes removed with their pool.\n",
			"Applied main@abc1234 in 4 s. Roll-out done in 23 min: 1 node replaced, 3 nodes removed with their pool"},
		{"applied, and nothing observed of the nodes", MergeOutcome{Revision: revision, Applied: applied, Nodes: 4},
			"Applied `main` at `abc1234`. Roll-out: 4 nodes to replace.\n", "Applied main@abc1234. Roll-out: 4 nodes to replace"},
		{"a commit alone, long after", MergeOutcome{Revision: "abc1234def5678900000000000000000000000aa", Merged: merged, Applied: merged.Add(100 * time.Hour), Nodes: 1, Done: merged.Add(110 * time.Hour)},
			"Applied `abc1234` in 4.2 days. Roll-out done in 10.0 h: 1 node replaced.\n", "Applied abc1234 in 4.2 days. Roll-out done in 10.0 h: 1 node replaced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.markdown, tt.a.Markdown()); d != "" {
				t.Errorf("Markdown (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.line, tt.a.Line()); d != "" {
				t.Errorf("line (-want +got):\n%s", d)
			}
		})
	}
}

func TestEveryKindOfBlockerIsNamedInTheMergeOutcome(t *testing.T) {
	pod := provision.Pod{Namespace: "ml", Name: "train-0"}
	for want, b := range map[string]provision.Blocker{
		"waits for PodDisruptionBudget `ml/a`, `ml/b`": {Kind: "pdb", Pod: pod, PodDisruptionBudgets: []string{"ml/a", "ml/b"}},
		"waits for do-not-disrupt of `ml/train-0`":     {Kind: "do-not-disrupt", Pod: pod},
		"waits for its do-not-disrupt":                 {Kind: "node"},
		"waits for a place for `ml/train-0`":           {Kind: "unschedulable", Pod: pod},
		"waits for capacity within the pool's limits":  {Kind: "limit"},
		"waits for its own start":                      {Kind: "starting"},
		"waits for `sunrise`":                          {Kind: "sunrise"},
	} {
		n := nodesOf("gpu", 1, "x")
		n[0].Blockers = []provision.Blocker{b}
		if got := (MergeOutcome{Applied: time.Unix(1, 0), Nodes: 1, Remaining: n}).Markdown(); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// hostileMergeOutcome has one string wherever there is content.
func hostileMergeOutcome(s string) MergeOutcome {
	n := nodesOf("gpu"+s, 2, s)
	n[0].Name, n[1].Name = "", "node"+s
	n[0].Blockers = []provision.Blocker{
		{Kind: "pdb", PodDisruptionBudgets: []string{"a" + s}}, {Kind: "do-not-disrupt", Pod: provision.Pod{Namespace: s, Name: s}}, {Kind: blocker.Kind("kind" + s)},
	}
	return MergeOutcome{Revision: "main" + s + "@sha1:abc" + s, Merged: time.Unix(1, 0), Applied: time.Unix(5, 0), Nodes: 4, Remaining: n, Held: s + "!"}
}

func TestHostileNamesOfTheMergeOutcomeStayInCode(t *testing.T) {
	want := skeleton(t, hostileMergeOutcome("-x").Markdown())
	for name, s := range hostile {
		if strings.TrimSpace(s) == "" {
			continue
		}
		s = s[:min(len(s), 3000)]
		t.Run(name, func(t *testing.T) {
			a := hostileMergeOutcome(s)
			md := a.Markdown()
			if d := cmp.Diff(want, skeleton(t, md)); d != "" || strings.Contains(skeleton(t, md), "@") || strings.Contains(md, "<!--") {
				t.Errorf("content stands outside of code: %q\n%s", md, d)
			}
			if line := a.Line(); strings.Contains(line, "\n") || len([]rune(line)) > headline.Width {
				t.Errorf("the line is %q", line)
			}
			checkPrintable(t, "line", a.Line())
			checkPrintable(t, "md", md)
		})
	}
	const token = "ghp_0123456789abcdefABCDEF"
	a := hostileMergeOutcome(" " + token)
	if got := a.Markdown() + a.Line(); strings.Contains(got, token) {
		t.Errorf("shows a secret: %q", got)
	}
}
