package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

func TestAHeadlineTooLongForAForgeLosesWhatMattersLeast(t *testing.T) {
	all := proposals()
	of := func(name string, change func(r *Report)) Report {
		r := all[name].report()
		if r.Forecast != nil {
			f := *r.Forecast
			r.Forecast = &f
		}
		change(&r)
		return r
	}
	blocked := func(r *Report) {
		r.Forecast = blocking()
		r.Forecast.Unknown = slices.Repeat([]provision.Unknown{{Text: "x"}}, 12)
		r.GuardResults = []GuardResult{{Rule: "MaxNodesReplaced", Result: "held"}, {Rule: "MaxPrunePercent", Result: "held"}}
	}
	tests := []struct {
		name string
		r    Report
		want string
	}{
		{"what had drifted before goes first", of("taints", func(*Report) {}),
			"1 object · 3 of 4 nodes replaced in 20–60 min · never: 1 node blocked · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h · quota ok"},
		{"then that a quota suffices, then the maximum", of("taints", func(r *Report) { r.Summary.Problems = 12 }),
			"12 problems · 1 object · 3 of 4 nodes replaced in 20–60 min · never: 1 node blocked · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"then the share of spot, why nodes stay, and what is not known", of("taints", blocked),
			"held by MaxNodesReplaced, MaxPrunePercent · 1 object · 4 of 10 nodes replaced in 3–3.9 h · never: 6 nodes · +$1.52/h · 12 unknowns"},
		{"then names", of("taints", func(r *Report) {
			blocked(r)
			r.Forecast.Removed = []provision.RemovedPool{{Pool: "a-pool-of-a-name-that-goes-on", Nodes: nodesOf("x", 123, "")}}
			r.Summary.Problems, r.Summary.Held = 300, 23
		}), "300 problems · 23 held by 2 rules · 1 object · 123 nodes removed with a pool · 4 of 10 nodes replaced in 3–3.9 h · never: 6 nodes · +$1.52/h"},
		{"a quota that is too small stays", of("taints", func(r *Report) { r.Quota, r.Summary.Problems, r.Summary.Unknown = "short", 12, 3 }),
			"12 problems · 1 object · 3 of 4 nodes replaced in 20–60 min · never: 1 node blocked · quota short · +$1.52/h (+$0.31 spot) · 3 unknown"},
		{"one that fits stays as it is", of("ami", func(*Report) {}), "1 object · 4 nodes replaced in 20–60 min · quota ok · 1 unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.r.Headline()
			if n := utf8.RuneCountInString(got); got != tt.want || n > 140 {
				t.Errorf("%d: got  %s\nwant %s", n, got, tt.want)
			}
		})
	}
}

func TestTheHeadingOfACommentLeavesNothingOut(t *testing.T) {
	md := all(t, proposals()["taints"].report())["md"]
	heading, _, _ := strings.Cut(md, "\n")
	if !strings.HasSuffix(heading, "quota ok · 2 drifted before") {
		t.Errorf("got %s", heading)
	}
}

func TestOnlyNodesWithoutRoomCountAsSuch(t *testing.T) {
	f := blocking()
	f.Replaced = append(f.Replaced, nodesOf("tight", 2, "NodeClassDrift")[1])
	f.Pools[4].Nodes, f.Pools[4].Replaced = 2, 2
	md := all(t, forecasted(step(), f))["md"]
	for _, want := range []string{"| `tight` | 1 of 2, 1 never | 1 |", "- pool `tight`, 1 node: `The limit of 8"} {
		if !strings.Contains(md, want) {
			t.Errorf("lacks %q:\n%s", want, md)
		}
	}
	f.Replaced[len(f.Replaced)-2].Blockers = []provision.Blocker{{Kind: "limit"}, {Kind: "node"}}
	f.Pools[4].Disruption.LimitMessage = ""
	if md = all(t, forecasted(step(), f))["md"]; !strings.Contains(md, "the pool's limit leaves no capacity for a replacement; the node is annotated do-not-disrupt") {
		t.Errorf("a node that two things keep:\n%s", md)
	}
}

func TestOfTheQuotasTheDriftHasOnlyWarnings(t *testing.T) {
	p := proposals()["empty"]
	p.Proposed, p.Drift = tainting(), join(quotaNote(quotaUsed), quotaWarning("NodePool gpu may ask for more"))
	r := p.report()
	if len(r.Drift.Notes) != 1 || r.Drift.Notes[0].Severity != finding.Warning || r.driftTitle() != "Already so before this change (1 warning)" {
		t.Errorf("%s: %+v", r.driftTitle(), r.Drift.Notes)
	}
	if got := all(t, r)["md"]; !strings.Contains(got, "- Warning: `aws Quota.servicequotas/eu-west-1/\"Running On-Demand G and VT instances\"`: `NodePool gpu may ask for more`") {
		t.Error(got)
	}
}

// What a target says of a deletion is a sentence, which stays as it is.
func TestADeletionHasItsImpactAsItIs(t *testing.T) {
	const impact = "the engine stops: 3 NodeClaims keep running unmanaged"
	old := state.Item{Key: state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "old"}, Object: object{}, DeletionImpact: loss.DeletionImpact{Impact: impact, Losses: loss.Counts{"NodeClaim": 3}}}
	r := New(plan.Compute(state.NewSet(), state.NewSet(old)), nil)
	if len(r.Changes) != 1 || !slices.Equal(r.Changes[0].Notes, []string{impact}) {
		t.Errorf("%+v", r.Changes)
	}
}

func TestBarsOfContentNeverEndACell(t *testing.T) {
	md := render(t, func(b *bytes.Buffer) error { return proposing("x|y|").Markdown(b, Options{}) })
	columns := 0
	for l := range strings.Lines(md) {
		n := strings.Count(l, "|")
		switch table := strings.HasPrefix(l, "|"); {
		case !table:
			columns = 0
		case columns == 0:
			columns = n
		case n != columns:
			t.Errorf("%d bars of %d in %s", n, columns, l)
		}
	}
	if !strings.Contains(md, "- `rulex|y|` holds it") {
		t.Error("a bar outside of tables is not shown as it is")
	}
}

func TestANodeThatIsOnlyStartingStopsNobody(t *testing.T) {
	f := replacing()
	f.Replaced[0].Blockers = []provision.Blocker{{Kind: "starting"}}
	f.Rollout.Incomplete = true
	r := proposals()["volume"].report()
	if r.Forecast = f; r.sign() != "⚠️" {
		t.Errorf("got %s", r.sign())
	}
}

func TestWhatIsNotCountedIsStillReported(t *testing.T) {
	tests := []struct {
		name   string
		change func(r *Report)
		want   string
	}{
		{"one pool", func(*Report) {}, "1 object · nodes of pool cpu may be replaced · 2 unknowns"},
		{"of two, one for certain", func(r *Report) {
			r.Forecast.Pools = append(r.Forecast.Pools, provision.Pool{Name: "gpu", ReplacesAll: true})
		}, "1 object · nodes of 2 pools replaced · 2 unknowns"},
		{"of two, none for certain", func(r *Report) {
			r.Forecast.Pools = append(r.Forecast.Pools, provision.Pool{Name: "gpu", ReplacesSome: true})
		}, "1 object · nodes of 2 pools may be replaced · 2 unknowns"},
		{"no pool, whatever else is not known", func(r *Report) { r.Forecast.Pools[0].ReplacesSome = false }, "1 object · no node is replaced · 2 unknowns"},
		{"nothing is known", func(r *Report) { r.Forecast = &provision.Forecast{Unknown: []provision.Unknown{{Text: "why"}}} }, "1 object · no node is known to be replaced · 1 unknown"},
		{"live nodes that only AWS can compare", func(r *Report) {
			r.Provenance.Observed, r.Forecast.Pools[0].Nodes = time.Unix(1, 0), 2
		}, "1 object · up to 2 nodes may be replaced · 2 unknowns"},
		{"live nodes, all compared", func(r *Report) {
			r.Provenance.Observed, r.Forecast.Pools[0].Nodes, r.Forecast.Unknown = time.Unix(1, 0), 2, nil
		}, "1 object · no node is replaced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := proposals()["offline"].report()
			tt.change(&r)
			if got := r.Headline(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
