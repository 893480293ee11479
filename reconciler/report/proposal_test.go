package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

func TestProposalsReadAsTheGoldenFiles(t *testing.T) {
	for name, p := range proposals() {
		t.Run(name, func(t *testing.T) {
			forms := all(t, p.report())
			for form, got := range forms {
				golden.Compare(t, "testdata/proposal-"+name+"."+form, got)
				if strings.Contains(got, hunter) || strings.Contains(form, "json") && strings.Contains(got, "null") {
					t.Errorf("%s shows a secret, or has a null", form)
				}
				if regexp.MustCompile(`[a-z]+-[0-9]+-[0-9a-f]{40}|confirm=|confirmationToken":`).MatchString(got) {
					t.Errorf("%s offers a token that confirms", form)
				}
			}
			checkClosed(t, forms["md"], defaultLimit)
			if d := cmp.Diff(forms, all(t, proposals()[name].report())); d != "" {
				t.Errorf("differs the second time:\n%s", d)
			}
		})
	}
}

// checkClosed fails where Markdown is too long, or a fence, a span or a fold in it
// stays open.
func checkClosed(t *testing.T, md string, limit int) {
	t.Helper()
	if len(md) > limit {
		t.Errorf("%d bytes of %d", len(md), limit)
	}
	depth := 0
	for l := range strings.Lines(skeleton(t, md)) {
		depth += strings.Count(l, "<details>") - strings.Count(l, "</details>")
		if depth < 0 || depth > 1 {
			t.Fatalf("%d folds are open at %q", depth, l)
		}
	}
	if depth != 0 {
		t.Error("a fold stays open")
	}
}

func TestTheHeadlineOfAProposalNamesGuardsQuotasAndDrift(t *testing.T) {
	all := proposals()
	short := all["limits"]
	short.Proposed = join(short.Proposed, plan.Plan{Unknown: []plan.Unknown{{Key: quotaNote("").Notes[0].Key, Reason: "denied"}}})
	nameless := all["empty"]
	nameless.Proposed = join(tainting(), quotaNote("Service Quotas names no such quota in eu-west-1: what the pools may use is unknown"))
	nameless.Proposed.Notes[len(nameless.Proposed.Notes)-1].NotFound = true
	unread := all["empty"]
	unread.Proposed = join(tainting(), quotaWarning("the vCPU quotas cannot be compared with the NodePools: denied: give role poolwright the action servicequotas:ListServiceQuotas"))
	unread.Proposed.Notes[len(unread.Proposed.Notes)-1].QuotaUnknown = true
	before := all["empty"]
	before.Proposed, before.Drift = tainting(), quotaWarning("NodePool gpu may ask for more")
	was := before
	was.Drift = quotaNote(quotaUsed)
	other := before
	other.Proposed = join(tainting(), quotaNote("of 128 vCPUs, 0 are used"))
	twice := all["guarded"]
	twice.guards = append(guards(), guards()...)
	twice.guards = append(twice.guards, GuardResult{Rule: "ReviewExceeded", Result: "held", Text: "x"})
	tests := []struct {
		name string
		p    proposed
		want string
	}{
		{"a guard that holds", all["guarded"], "held by MaxNodesReplaced · 1 object · 4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h · quota ok"},
		{"several, each once", twice, "held by MaxNodesReplaced, ReviewExceeded · 1 object · 4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"a quota that is too small", all["quota"], "1 object · no node is replaced · quota short · max $12.40 → $24.80/h"},
		{"a guard that holds what one is too small for", all["quota-held"], "1 held by QuotaExceeded · 1 object · no node is replaced · quota short · max $12.40 → $24.80/h"},
		{"one that could not be observed", short, "2 objects · no node is replaced · max $12.40 → $24.80/h · 1 unknown"},
		{"one that has no name", nameless, "1 object · no node is replaced"},
		{"one that may not be read", unread, "1 object · no node is replaced · 1 warning"},
		{"one that is too small anyway", before, "1 object · no node is replaced · quota short before"},
		{"one that is, beside another that the change reaches", other, "1 object · no node is replaced · quota short before"},
		{"one of which only the drift is known", was, "1 object · no node is replaced · quota ok"},
		{"problems, and no forecast", all["problems"], "2 problems · held by lint · 1 object · effect on nodes and cost not computed"},
		{"nothing but drift", all["drift-only"], "no changes · 2 drifted before"},
		{"nothing at all", all["empty"], "no changes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.p.report()
			if got := r.Headline(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			var back Report
			raw := render(t, func(b *bytes.Buffer) error { return r.JSON(b) })
			if err := json.Unmarshal([]byte(raw), &back); err != nil || back.Summary.Headline != tt.want {
				t.Errorf("JSON says %q, %v", back.Summary.Headline, err)
			}
		})
	}
}

func TestTheSignReportsWhetherSomethingMustBeDone(t *testing.T) {
	for name, want := range map[string]string{
		"taints": "⛔", "volume": "⚠️", "ami": "⚠️", "removed": "⛔", "limits": "⚠️", "cheaper": "⚠️", "unschedulable": "⛔", "quota": "⛔", "quota-held": "⛔",
		"guarded": "⛔", "offline-taints": "⚠️", "offline-removed": "⛔", "foreign": "⚠️", "lossy": "⛔", "stuck": "⛔", "workload": "⚠️", "drift-only": "✅", "problems": "⛔", "secret": "✅", "offline": "⚠️", "empty": "✅", "many": "⛔",
	} {
		if got := proposals()[name].report().sign(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestAProposalMasksSecretsOfBothPlansInBoth(t *testing.T) {
	token := hunter + "token-4711"
	secret := between("", "Secret", "git", object{"kind": "Secret", "stringData": object{"password": token}}, object{"kind": "Secret", "stringData": object{"password": "other"}})
	quoting := join(tainting(), plan.Plan{Notes: []plan.Note{{Key: state.Key{Target: "aws", Kind: "Role", Name: "a"}, Text: "the answer was " + token}}})
	quoting.Changes[0].Hold = hold.Reasons{{Rule: hold.DeletionLosses, Facts: hold.Facts{Detail: "refused: " + token, Nodes: &hold.Nodes{Uncertain: token, Unknown: token}}}}
	for name, p := range map[string]plan.Proposal{"a secret of the drift": {Proposed: quoting, Drift: secret}, "a secret of the change": {Proposed: secret, Drift: quoting}} {
		t.Run(name, func(t *testing.T) {
			r := NewProposal(p, []state.Problem{{Message: "bad: " + token}}, nil)
			const shape = "ghp_0123456789abcdefABCDEF"
			r.GuardResults = []GuardResult{{Rule: "lint", Result: "held", Text: "found " + shape}}
			r.Provenance = &Provenance{Cluster: "https://u:" + shape + "@host", Base: shape, HeadCommit: shape, MergeBase: shape, BaseCommit: shape}
			for form, got := range all(t, r) {
				if strings.Contains(got, token) || strings.Contains(got, shape) {
					t.Errorf("%s shows it:\n%s", form, got)
				}
			}
		})
	}
}

// proposing puts one string in every place of a proposal.
func proposing(s string) Report {
	key := func(name string) state.Key {
		return state.Key{Target: "kubernetes", Group: s, Kind: "Thing" + s, Namespace: s, Name: name + s}
	}
	content := object{s: s, "list": []any{s, object{"name": s, "v": s}}, "text": "a\nb\n" + s}
	created := state.Item{Key: key("new"), Object: content, Origin: state.Origin{File: s, Line: 1}}
	deleted := state.Item{Key: key("old"), Object: content, DeletionImpact: loss.DeletionImpact{Impact: s + "!"}}
	lost := state.Item{Key: key("lost"), Object: content, Origin: state.Origin{File: s, Line: 4}}
	found := state.Item{Key: lost.Key, Observation: state.Observation{Unknown: s + "?", Notes: []finding.Finding{{Text: s + "."}, {Text: warning + s + "."}}}}
	desired := []state.Item{created, lost}
	for c := 'a'; c < 'i'; c++ { // Too much to be told briefly.
		desired = append(desired, state.Item{Key: key("next-" + string(c)), Object: content, Origin: created.Origin})
	}
	p := plan.Compute(state.NewSet(desired...), state.NewSet(deleted, found), plan.ConfirmLosses(""))
	r := NewProposal(plan.Proposal{Proposed: p, Drift: p}, []state.Problem{{Origin: state.Origin{File: s + ".yaml", Line: 2}, Message: s + "."}}, nil)
	r.Forecast = ruined(s)
	r.GuardResults = []GuardResult{{Rule: "rule" + s, Result: "held", Text: s + "."}, {Rule: "lint" + s, Result: "warning", Text: s + "."}}
	r.Provenance = &Provenance{Cluster: "c" + s, Base: "b" + s, BaseCommit: "1" + s, HeadCommit: "2" + s, MergeBase: "3" + s, Observed: time.Date(2026, 11, 20, 19, 2, 0, 0, time.UTC)}
	return r
}

func TestHostileNamesOfAProposalStayInCode(t *testing.T) {
	markdown := func(s string, limit int) string {
		return render(t, func(b *bytes.Buffer) error { return proposing(s).Markdown(b, Options{Limit: limit}) })
	}
	const ample = 100_000_000
	want := bones(t, markdown("-x", ample))
	for name, s := range hostile {
		if strings.TrimSpace(s) == "" {
			continue // Names of nothing are left out.
		}
		s = s[:min(len(s), 3000)]
		t.Run(name, func(t *testing.T) {
			md := markdown(s, ample)
			if d := cmp.Diff(want, bones(t, md)); d != "" {
				t.Errorf("content stands outside of code (-harmless +hostile):\n%s", d)
			}
			if strings.Contains(md, "<!--") {
				t.Error("a comment that could imitate a marker")
			}
			for _, limit := range []int{minLimit, 2000, 5000, 20_000, defaultLimit} {
				checkClosed(t, markdown(s, limit), limit)
			}
			r := proposing(s)
			for form, got := range all(t, r) {
				if form == "txt" || form == "json" {
					checkPrintable(t, form, got)
				}
			}
			if v := r.Headline(); strings.Contains(v, "\n") || len([]rune(v)) > 600 {
				t.Errorf("the verdict is %q", v)
			}
		})
	}
}

func FuzzNamesOfAProposalNeverLeaveTheirCode(f *testing.F) {
	for _, s := range hostile {
		f.Add(s[:min(len(s), 300)], uint16(1000))
	}
	f.Fuzz(func(t *testing.T, s string, spare uint16) {
		if strings.TrimSpace(sanitize.Escape(s)) == "" || len(s) > 3000 {
			t.Skip("names of nothing are left out, and long ones only slow the search")
		}
		markdown := func(s string, limit int) string {
			return render(t, func(b *bytes.Buffer) error { return proposing(s).Markdown(b, Options{Limit: limit}) })
		}
		const ample = 100_000_000
		if d := cmp.Diff(bones(t, markdown("-x", ample)), bones(t, markdown(s, ample))); d != "" {
			t.Errorf("content stands outside of code (-harmless +hostile):\n%s", d)
		}
		limit := minLimit + int(spare)
		checkClosed(t, markdown(s, limit), limit)
	})
}

// The limits are those of GitHub and Gitea as the adapters state them.
func TestAHugeProposalKeepsToTheLimitsOfForges(t *testing.T) {
	lines := func(s string) object {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "line %d of %s\n", i, s)
		}
		return object{"data": object{"config": b.String()}}
	}
	f := replacing()
	f.Replaced = nodesOf("gpu", 500, "NodePoolDrifted")
	for i := range f.Replaced[:100] {
		f.Replaced[i].Blockers = []provision.Blocker{{Kind: "pdb", Pod: f.Replaced[i].Pods[0], PodDisruptionBudgets: []string{"ml/train"}}}
	}
	f.Drifted = nodesOf("cpu", 300, "AMIDrift")
	var problems []state.Problem
	for i := range 300 {
		problems = append(problems, state.Problem{Origin: state.Origin{File: "a.yaml", Line: i}, Message: "field \"x\" is unknown"})
	}
	p := proposed{Proposal: plan.Proposal{Proposed: join(between("", "ConfigMap", "big", lines("old"), lines("new")), numerous(5000)), Drift: numerous(2000)}, forecast: f, guards: guards(), problems: problems}
	r := p.report()
	for _, limit := range []int{minLimit, 4000, 65536 - 1024, 65536, 256 << 10} {
		for _, o := range []Options{{Limit: limit}, {Limit: limit, Lines: -1}} {
			md := render(t, func(b *bytes.Buffer) error { return r.Markdown(b, o) })
			checkClosed(t, md, limit)
			if !strings.HasPrefix(md, "### ⛔ 300 problems · held by `MaxNodesReplaced` · 5001 objects") || !strings.Contains(md, "this text has reached its limit") {
				t.Errorf("limit %d: %.300s", limit, md)
			}
			if limit < 60_000 {
				continue
			}
			for _, want := range []string{"**Problems (300)**", "Never replaced without", "Nodes replaced (400, with 800 pods; 100 never)", "**Changes: 1667 to create", "Field by field", "Already drifted before this change (2000 objects, 300 nodes)", "drifted objects not shown", "changes of 5001 not shown in full"} {
				if !strings.Contains(md, want) {
					t.Errorf("limit %d lacks %q", limit, want)
				}
			}
			if len(md) < limit*8/10 && o.Lines < 0 {
				t.Errorf("only %d of %d bytes are used", len(md), limit)
			}
		}
	}
}

func TestContentStaysWhileOnlyTheClusterBreathes(t *testing.T) {
	of := func(change func(r *Report, f *provision.Forecast)) string {
		p := proposals()["taints"]
		p.forecast.Drifted = nodesOf("cpu", 2, "AMIDrift")
		p.forecast.PodScheduling = placing().PodScheduling
		p.forecast.Unknown = []provision.Unknown{{Code: "OfferingsRefused", Object: "NodePool/gpu", Text: "NodePool gpu: EC2 refused g5.xlarge spot in eu-west-1a, last at 11:20."}}
		r := p.report()
		if change != nil {
			change(&r, r.Forecast)
		}
		return r.Content()
	}
	was := of(nil)
	if len(was) < 12 {
		t.Fatalf("content is %q", was)
	}
	for name, change := range map[string]func(r *Report, f *provision.Forecast){
		"another moment":              func(r *Report, _ *provision.Forecast) { r.Provenance.Observed = r.Provenance.Observed.Add(time.Hour) },
		"pods of a node come and go":  func(_ *Report, f *provision.Forecast) { f.Replaced[1].Pods = f.Replaced[1].Pods[:1] },
		"another pod keeps the node":  func(_ *Report, f *provision.Forecast) { f.Replaced[0].Blockers[0].Pod.Name = "train-9" },
		"a budget is used up for now": func(_ *Report, f *provision.Forecast) { f.Pools[1].Disruption.AllowedDisruptions = 2 },
		"a pool elsewhere grows": func(_ *Report, f *provision.Forecast) {
			f.Pools[0].Nodes, f.Cost.Now.OnDemand, f.Cost.After.OnDemand = 9, 7, 8.212
		},
		"more pods wait either way": func(_ *Report, f *provision.Forecast) {
			f.PodScheduling.Unschedulable = f.PodScheduling.Unschedulable[1:]
		},
		"another pod finds a node": func(_ *Report, f *provision.Forecast) {
			f.PodScheduling.NewlySchedulable[0].Name, f.PodScheduling.NewlySchedulable[0].Similar = "api-7", 3
		},
		"a node that had drifted is gone":       func(_ *Report, f *provision.Forecast) { f.Drifted = f.Drifted[1:] },
		"more of a quota is in use":             func(r *Report, _ *provision.Forecast) { r.Notes[0].Text = "of 64 vCPUs, 16 are used" },
		"what was there before is counted anew": func(r *Report, _ *provision.Forecast) { r.Drift.Notes[1].Text = "12 others have it" },
		"prices are read anew": func(_ *Report, f *provision.Forecast) {
			f.Cost.Prices = []provision.Price{{CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-21"}, {CapacityType: "spot", Basis: "spot-price-history", Date: "2026-11-21"}}
		},
		"EC2 refuses another offering": func(_ *Report, f *provision.Forecast) {
			f.Unknown[0].Text = "NodePool gpu: EC2 refused g5.2xlarge spot in eu-west-1b, last at 11:40."
		},
		"less than a cent": func(_ *Report, f *provision.Forecast) { f.Cost.After.OnDemand += 0.0001 },
	} {
		if got := of(change); got != was {
			t.Errorf("%s changes the content", name)
		}
	}
	for name, change := range map[string]func(r *Report, f *provision.Forecast){
		"the head moves": func(r *Report, _ *provision.Forecast) {
			r.Provenance.HeadCommit = "9999999999999999999999999999999999999999"
		},
		"the base moves": func(r *Report, _ *provision.Forecast) {
			r.Provenance.BaseCommit = "9999999999999999999999999999999999999999"
		},
		"it is planned offline":    func(r *Report, _ *provision.Forecast) { r.Provenance.Observed = time.Time{} },
		"another node is replaced": func(_ *Report, f *provision.Forecast) { f.Replaced[1].NodeClaim = "gpu-new" },
		"one node more": func(_ *Report, f *provision.Forecast) {
			f.Replaced = append(f.Replaced, nodesOf("gpu", 6, "NodePoolDrifted")[5])
		},
		"another reason":         func(_ *Report, f *provision.Forecast) { f.Replaced[1].Reason = "AMIDrift" },
		"nothing keeps the node": func(_ *Report, f *provision.Forecast) { f.Replaced[0].Blockers = nil },
		"another budget keeps it": func(_ *Report, f *provision.Forecast) {
			f.Replaced[0].Blockers[0].PodDisruptionBudgets = []string{"ml/other"}
		},
		"a cent":            func(_ *Report, f *provision.Forecast) { f.Cost.After.OnDemand += 0.01 },
		"a longer roll-out": func(_ *Report, f *provision.Forecast) { f.Rollout.MaxMinutes = 90 },
		"more of a warning": func(r *Report, _ *provision.Forecast) { r.Drift.Notes[0].Text = "needs 65 vCPUs" },
		"a new pod fits": func(_ *Report, f *provision.Forecast) {
			f.PodScheduling.Unschedulable = f.PodScheduling.Unschedulable[:1]
		},
		"a pod without a node more": func(_ *Report, f *provision.Forecast) { f.PodScheduling.NewlyUnschedulable[0].Similar++ },
		"a guard holds": func(r *Report, _ *provision.Forecast) {
			r.GuardResults = []GuardResult{{Rule: "MaxNodesReplaced", Result: "held", Text: "x"}}
		},
		"a quota is too small":      func(r *Report, _ *provision.Forecast) { r.Quota = "short" },
		"a problem":                 func(r *Report, _ *provision.Forecast) { r.Problems = []Problem{{Message: "x"}} },
		"a thing drifts":            func(r *Report, _ *provision.Forecast) { r.Drift.Changes = r.Drift.Changes[1:] },
		"a drifted field moves":     func(r *Report, _ *provision.Forecast) { r.Drift.Changes[0].Fields[0].Before = int64(51) },
		"another change":            func(r *Report, _ *provision.Forecast) { r.Changes[0].Fields[0].After = "PreferNoSchedule" },
		"EC2 refuses nothing more":  func(_ *Report, f *provision.Forecast) { f.Unknown = nil },
		"something is unknown":      func(_ *Report, f *provision.Forecast) { f.Unknown = []provision.Unknown{{Text: "why"}} },
		"a pool's nodes drift anew": func(_ *Report, f *provision.Forecast) { f.Drifted = nil },
	} {
		if got := of(change); got == was {
			t.Errorf("%s does not change the content", name)
		}
	}
}

func TestMakingAProposalChangesNeitherPlan(t *testing.T) {
	of := func() plan.Proposal { return plan.Proposal{Proposed: removal(), Drift: removal()} }
	p := of()
	r := NewProposal(p, nil, nil)
	all(t, r)
	if d := cmp.Diff(of(), p); d != "" {
		t.Errorf("the plans changed:\n%s", d)
	}
	if len(r.Holds) != 2 || r.ConfirmationToken != "" || !r.Holds[0].Confirmable {
		t.Errorf("holds %+v", r.Holds)
	}
	two := hold.Reasons{
		{Rule: hold.DeletionLosses, Token: &hold.Token{Purpose: "deletions", Digest: "1"}}, {Rule: hold.ReviewExceeded, Facts: hold.Facts{Nodes: &hold.Nodes{Reviewed: &hold.Reviews{}}}, Token: &hold.Token{Purpose: "nodes", Digest: "2"}},
	}
	both := plan.Plan{Changes: removal().Changes[:2]}
	both.Changes[1].Hold = two
	if got := NewProposal(plan.Proposal{Proposed: both}, nil, nil); len(got.Holds) != 2 || got.ConfirmationToken != "" {
		t.Errorf("two tokens: %+v", got.Holds)
	}
	if got := New(both, nil); len(got.Holds) != 2 || got.ConfirmationToken != both.Confirmation() || strings.Count(got.ConfirmationToken, ",") != 1 {
		t.Errorf("two tokens of a plan: %+v, %s", got.Holds, got.ConfirmationToken)
	}
	waits := func(c Change) bool { return c.Reason != "" }
	if !slices.ContainsFunc(r.Drift.Changes, waits) {
		t.Errorf("drift %+v", r.Drift.Changes)
	}
}

// BenchmarkProposal is what a comment of 5,000 changes and 500 nodes takes.
func BenchmarkProposal(b *testing.B) {
	f := replacing()
	f.Replaced = nodesOf("gpu", 500, "NodePoolDrifted")
	p := proposed{Proposal: plan.Proposal{Proposed: numerous(5000), Drift: numerous(500)}, forecast: f}
	for b.Loop() {
		r := p.report()
		var out bytes.Buffer
		if err := r.Markdown(&out, Options{}); err != nil || r.Content() == "" {
			b.Fatal(err)
		}
	}
}
