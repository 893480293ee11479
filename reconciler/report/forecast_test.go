package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// step is a plan that updates a pool, its class and a role.
func step() plan.Plan {
	pool := item("cluster", "karpenter.sh", "NodePool", "gpu", "pools/gpu.yaml", 3, object{"spec": object{
		"template": object{"spec": object{"taints": []any{object{"key": "nvidia.com/gpu", "effect": "NoSchedule"}}}},
	}})
	class := item("cluster", "karpenter.k8s.aws", "EC2NodeClass", "gpu", "classes/gpu.yaml", 1, object{"spec": object{"blockDeviceMappings": []any{object{"ebs": object{"volumeSize": "200Gi"}}}}})
	role := aws("iam", "Role", "", "dev-nodes", object{"policies": []any{"AmazonSSMManagedInstanceCore"}})
	return plan.Compute(state.NewSet(pool, class, role), state.NewSet(
		live(pool, object{"spec": object{"template": object{"spec": object{"taints": []any{object{"key": "nvidia.com/gpu", "effect": "NoExecute"}}}}}}),
		live(class, object{"spec": object{"blockDeviceMappings": []any{object{"ebs": object{"volumeSize": "100Gi"}}}}}),
		live(role, object{"policies": []any{}})))
}

// nodesOf are n nodes of a pool, the first of which is the oldest.
func nodesOf(pool string, n int, reason string) []provision.Node {
	var out []provision.Node
	for i := range n {
		out = append(out, provision.Node{
			NodeClaim: fmt.Sprintf("%s-x7k%02d", pool, i), Name: fmt.Sprintf("ip-10-0-3-%d.eu-west-1.compute.internal", 10+i), Pool: pool,
			InstanceType: "g5.2xlarge", CapacityType: []string{"on-demand", "spot"}[i%2], Zone: "eu-west-1" + string(rune('a'+i%3)),
			Created: time.Date(2026, 10, 1+i%28, 8, 0, 0, 0, time.UTC), Reason: reason,
			Pods: []provision.Pod{{Namespace: "ml", Name: fmt.Sprintf("train-%d", 2*i)}, {Namespace: "ml", Name: fmt.Sprintf("train-%d", 2*i+1)}},
		})
	}
	return out
}

func usd(v float64) *float64 { return &v }

// prices are where the sums of the samples come from.
var prices = []provision.Price{
	{CapacityType: "on-demand", Basis: "other-region", Date: "2026-10-28"}, {CapacityType: "spot", Basis: "estimated", Date: "2026-10-28"},
}

var assumed = []string{
	"Karpenter marks a drifted node within 5 minutes.",
	"A replacement takes 1 to 5 minutes to come, one with GPUs up to 10, and capacity is there.",
	"Pools go on side by side; other disruption takes none of their budgets.",
}

const taints, volumes = "spec.template.spec.taints", "spec.blockDeviceMappings"

// replacing is a change of taints and volumes that replaces four of six nodes.
func replacing() *provision.Forecast {
	gpu := provision.Cost{
		Now: provision.Amount{OnDemand: 2.424, Spot: 0.81}, After: provision.Amount{OnDemand: 3.636, Spot: 1.118},
		Ceiling: usd(24.8), CeilingBefore: usd(12.4), Prices: prices,
	}
	cpu := provision.Cost{Now: provision.Amount{OnDemand: 4}, After: provision.Amount{OnDemand: 4}, Ceiling: usd(40), CeilingBefore: usd(40)}
	all := provision.Cost{
		Now: provision.Amount{OnDemand: 6.424, Spot: 0.81}, After: provision.Amount{OnDemand: 7.636, Spot: 1.118},
		Ceiling: usd(64.8), CeilingBefore: usd(52.4), Prices: prices,
	}
	return &provision.Forecast{
		Pools: []provision.Pool{
			{Name: "cpu", Nodes: 8, Cost: cpu, Pace: provision.Pace{AtOnce: 1, Limited: "10%"}},
			{
				Name: "gpu", Action: "update", Nodes: 6, Replaced: 4, Cost: gpu, Pace: provision.Pace{AtOnce: 1, Limited: "10%"},
				Changes: []provision.Change{
					{Object: "EC2NodeClass/gpu", Field: volumes, Reason: "NodeClassDrift"}, {Object: "NodePool/gpu", Field: "spec.limits"},
					{Object: "NodePool/gpu", Field: taints, Reason: "NodePoolDrifted"},
				},
			},
		},
		Replaced: nodesOf("gpu", 4, "NodePoolDrifted"),
		Rollout:  provision.Rollout{Nodes: 4, Pods: 8, MinMinutes: 20, MaxMinutes: 60, Assumed: assumed},
		Cost:     all,
	}
}

// removing is a pool that goes with its nodes, and pods that fit nowhere else.
func removing() *provision.Forecast {
	f := &provision.Forecast{
		Pools: []provision.Pool{
			{Name: "old", Action: "delete", Nodes: 2, Cost: provision.Cost{Now: provision.Amount{OnDemand: 2.424}, CeilingBefore: usd(12.4)}},
			{Name: "new", Action: "create", Cost: provision.Cost{Ceiling: usd(30), Floor: 1.2}},
		},
		Removed: []provision.Removal{{Pool: "old", Nodes: nodesOf("old", 2, "NodePoolRemoved"), Pods: 4}},
		Cost:    provision.Cost{Now: provision.Amount{OnDemand: 2.424}, Floor: 1.2, Ceiling: usd(30), CeilingBefore: usd(12.4), Prices: prices[:1]},
	}
	f.Removed[0].Nodes[1].Blockers = []provision.Blocker{{Kind: "pdb", Pod: provision.Pod{Namespace: "ml", Name: "train-2"}, Budgets: []string{"ml/train"}, Forced: 24 * time.Hour}}
	f.Fit.Unscheduled = []provision.Placement{{Pod: provision.Pod{Namespace: "ml", Name: "train-0"}, Like: 3,
		Why: `incompatible with nodepool "new", daemonset overhead={"cpu":"150m"}, did not tolerate taint (taint=nvidia.com/gpu:NoSchedule)`}}
	return f
}

// weighing changes a weight, for which no node is replaced.
func weighing() *provision.Forecast {
	cost := provision.Cost{Now: provision.Amount{OnDemand: 4}, After: provision.Amount{OnDemand: 4}, Prices: prices[:1]}
	return &provision.Forecast{
		Pools: []provision.Pool{{
			Name: "cpu", Action: "update", Nodes: 8, Cost: cost, Pace: provision.Pace{AtOnce: 1, Limited: "10%"},
			Changes: []provision.Change{{Object: "NodePool/cpu", Field: "spec.weight"}},
		}},
		Cost: cost,
	}
}

// blocking is a change whose nodes are kept by a PodDisruptionBudget, by
// annotations, by a budget of none, by a limit and, for a while, by a window.
func blocking() *provision.Forecast {
	f := replacing()
	train := func(n int) provision.Pod { return provision.Pod{Namespace: "ml", Name: fmt.Sprintf("train-%d", n)} }
	f.Replaced[0].Blockers = []provision.Blocker{
		{Kind: "pdb", Pod: train(0), Budgets: []string{"ml/train"}}, {Kind: "pdb", Pod: train(1), Budgets: []string{"ml/train"}},
	}
	f.Replaced[1].Blockers = []provision.Blocker{{Kind: "do-not-disrupt", Pod: train(2), Forced: 90 * time.Minute}}
	f.Replaced[2].Blockers, f.Replaced[2].Name = []provision.Blocker{{Kind: "starting"}}, ""
	f.Replaced[3].Blockers = []provision.Blocker{{Kind: "node"}}
	change := []provision.Change{{Object: "EC2NodeClass/gpu", Field: volumes, Reason: "NodeClassDrift"}}
	f.Pools = append(f.Pools,
		provision.Pool{Name: "batch", Nodes: 3, Replaced: 3, Changes: change, Pace: provision.Pace{Limited: "0"}},
		provision.Pool{Name: "nights", Nodes: 20, Replaced: 2, Changes: change, Pace: provision.Pace{
			Limited: "0 (0 6 * * 1-5 for 14h)", Waits: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC),
		}},
		provision.Pool{Name: "tight", Nodes: 1, Replaced: 1, Changes: change, Pace: provision.Pace{
			AtOnce: 1, Full: "The limit of 8 nvidia.com/gpu leaves no room for a replacement: 8 are in use, and the smallest node allowed has 1.",
		}},
	)
	f.Replaced = append(f.Replaced, nodesOf("batch", 3, "NodeClassDrift")...)
	f.Replaced = append(f.Replaced, nodesOf("nights", 2, "NodeClassDrift")...)
	f.Replaced = append(f.Replaced, nodesOf("tight", 1, "NodeClassDrift")...)
	f.Drifted = nodesOf("cpu", 2, "AMIDrift")
	f.Rollout = provision.Rollout{Nodes: 10, Blocked: 3, Pods: 20, MinMinutes: 184, MaxMinutes: 230, Never: true, Assumed: assumed}
	return f
}

// fitting is a change by which some pods find a node and others none.
func placing() *provision.Forecast {
	f := weighing()
	pod := func(name string) provision.Pod { return provision.Pod{Namespace: "web", Name: name} }
	const why = `incompatible with nodepool "cpu", no instance type satisfied resources {"cpu":"65"} and requirements`
	f.Fit = provision.Fit{
		Scheduled:   []provision.Placement{{Pod: pod("api-1"), Like: 11, Pool: "cpu"}, {Pod: pod("cron-1")}},
		Unscheduled: []provision.Placement{{Pod: pod("big-1"), Like: 2, Why: why}, {Pod: pod("big-9"), Why: why}, {Pod: pod("gpu-1"), Why: "no pool has nvidia.com/gpu"}},
		Waiting:     []provision.Placement{{Pod: pod("lost-1"), Why: why}},
	}
	return f
}

// doubting is a change of which much cannot be told.
func doubting() *provision.Forecast {
	f := weighing()
	f.Pools[0].Changes = []provision.Change{{Object: "EC2NodeClass/cpu", Field: "spec.amiSelectorTerms"}}
	f.Unknown = []string{
		"EC2NodeClass cpu: spec.amiSelectorTerms changes, and which images it then finds AWS alone can tell: nodes with another image are replaced as well (AMIDrift).",
		"Instance type u-6tb1.metal: the catalog has no price of it, so that it is left out of the costs.",
	}
	return f
}

// forecasted is a report with a forecast.
func forecasted(p plan.Plan, f *provision.Forecast) Report {
	r := New(p, nil)
	r.Forecast = f
	return r
}

func TestForecastsReadAsTheGoldenFiles(t *testing.T) {
	for name, f := range map[string]*provision.Forecast{
		"replacing": replacing(), "removing": removing(), "weighing": weighing(), "blocking": blocking(), "placing": placing(), "doubting": doubting(),
		"hostile": ruined(`x|y @org/team <!-- a --> </details><b>*_[l](http://e)` + "`` \x1b[31m\u202e"), "none": {},
	} {
		for form, got := range all(t, forecasted(step(), f)) {
			golden(t, "forecast-"+name+"."+form, got)
		}
	}
}

func TestTheVerdictIsOneLineOfWhatMatters(t *testing.T) {
	large := replacing()
	large.Cost.Ceiling = nil
	large.Cost.After.OnDemand = 12345.678
	cheaper := replacing()
	cheaper.Cost = provision.Cost{Now: provision.Amount{Spot: 2}, After: provision.Amount{Spot: 1.996}}
	two := removing()
	two.Removed = append(two.Removed, provision.Removal{Pool: "older", Nodes: nodesOf("older", 1, ""), Pods: 0}, provision.Removal{Pool: "empty"})
	stuck := replacing()
	for i := range stuck.Replaced {
		stuck.Replaced[i].Blockers = []provision.Blocker{{Kind: "node"}}
	}
	stuck.Rollout = provision.Rollout{Nodes: 4, Blocked: 4, Never: true}
	busy := replacing()
	busy.Pools[1].Pace = provision.Pace{Limited: "10%"}
	odd := replacing()
	odd.Rollout.Never = true
	const start = "2 objects · 1 AWS · "
	tests := []struct {
		name string
		f    *provision.Forecast
		want string
	}{
		{"nodes, money with spot, and the ceiling", replacing(), start + "4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · ceiling $52.40 → $64.80/h"},
		{"a pool goes", removing(), start + "2 nodes die with pool old · 4 pods without a node · −$2.42/h · ceiling $12.40 → $30.00/h"},
		{"several pools go", two, start + "3 nodes die with 2 pools · 4 pods without a node · −$2.42/h · ceiling $12.40 → $30.00/h"},
		{"nothing is replaced", weighing(), start + "no node is replaced"},
		{"nothing is known to be replaced", doubting(), start + "no node is known to be replaced · 2 things cannot be told"},
		{"some are never replaced", blocking(), start + "4 of 10 nodes replaced in 3–3.9 h · never: 6 nodes (2 blocked, 3 closed by a budget, 1 without room beside) · +$1.52/h (+$0.31 spot) · ceiling $52.40 → $64.80/h"},
		{"all are blocked", stuck, start + "0 of 4 nodes replaced · never: 4 nodes blocked · +$1.52/h (+$0.31 spot) · ceiling $52.40 → $64.80/h"},
		{"a pool with nodes on their way is not closed", busy, start + "4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · ceiling $52.40 → $64.80/h"},
		{"some never, and which is not said", odd, start + "4 nodes replaced in 20–60 min · never: some of them · +$1.52/h (+$0.31 spot) · ceiling $52.40 → $64.80/h"},
		{"large sums, and a ceiling that goes", large, start + "4 nodes replaced in 20–60 min · +$12,339.56/h (+$0.31 spot) · ceiling $52.40/h → none"},
		{"small sums, of spot alone", cheaper, start + "4 nodes replaced in 20–60 min · −$0.0040/h spot"},
		{"no forecast", nil, "Plan: 0 to create, 3 to update, 0 to delete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := forecasted(step(), tt.f).Verdict(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTheVerdictSaysWhatKeepsThePlanFromBeingAll(t *testing.T) {
	p, problems := sample()
	r := New(p, problems)
	r.Forecast = weighing()
	if got, want := r.Verdict(), "2 problems · 8 objects · 1 AWS · 1 held · no node is replaced"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r = forecasted(plan.Plan{Unchanged: 3}, weighing())
	if got, want := r.Verdict(), "no changes · no node is replaced"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRangesOfTimeGrowWiderWhenRounded(t *testing.T) {
	for want, in := range map[string][2]int{
		"20–60 min": {20, 60}, "7 min": {7, 7}, "20–180 min": {20, 180}, "1.6–3.1 h": {100, 181}, "0–4 h": {5, 240}, "1.9–3.1 days": {2800, 4321},
	} {
		if got := span(in[0], in[1]); got != want {
			t.Errorf("%v: got %q, want %q", in, got, want)
		}
	}
}

// ruined puts one string wherever a forecast has content.
func ruined(s string) *provision.Forecast {
	f := blocking()
	merge(f, removing())
	merge(f, placing())
	f.Unknown = append(f.Unknown, doubting().Unknown...)
	raw, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil
	}
	spoiled, err := json.Marshal(spoil(tree, s))
	if err != nil {
		return nil
	}
	out := &provision.Forecast{}
	if err := json.Unmarshal(spoiled, out); err != nil {
		return nil
	}
	return out
}

func merge(f, more *provision.Forecast) {
	f.Pools = append(f.Pools, more.Pools...)
	f.Removed = append(f.Removed, more.Removed...)
	f.Fit.Scheduled = append(f.Fit.Scheduled, more.Fit.Scheduled...)
	f.Fit.Unscheduled = append(f.Fit.Unscheduled, more.Fit.Unscheduled...)
	f.Fit.Waiting = append(f.Fit.Waiting, more.Fit.Waiting...)
}

// spoil appends s to every string but times and the words that decide.
func spoil(v any, s string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "created" && k != "waits" && k != "kind" && k != "action" {
				v[k] = spoil(e, s)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = spoil(e, s)
		}
	case string:
		if strings.HasPrefix(v, "0 (") || v == "0" || v == "10%" {
			return v + " " + s
		}
		return v + s
	}
	return v
}

var (
	aSpan = regexp.MustCompile("`+")
)

// skeleton is what of Markdown stands outside of code. It fails where a fence or
// a span does not end as it began.
func skeleton(t *testing.T, md string) string {
	t.Helper()
	var out strings.Builder
	open := ""
	for l := range strings.SplitSeq(md, "\n") {
		ticks := l[:len(l)-len(strings.TrimLeft(l, "`"))]
		switch {
		case open != "":
			if l == open {
				open = ""
			}
		case len(ticks) >= 3 && (l == ticks+"text" || l == ticks+"diff"):
			open = ticks
			out.WriteString("(fence)\n")
		default:
			for {
				at := aSpan.FindStringIndex(l)
				if at == nil {
					break
				}
				end := -1
				for _, next := range aSpan.FindAllStringIndex(l[at[1]:], -1) {
					if next[1]-next[0] == at[1]-at[0] {
						end = at[1] + next[1]
						break
					}
				}
				if end < 0 {
					t.Fatalf("a code span stays open in %q", l)
				}
				out.WriteString(l[:at[0]] + "(code)")
				l = l[end:]
			}
			out.WriteString(l + "\n")
		}
	}
	if open != "" {
		t.Fatalf("a fence stays open in %q", md)
	}
	return out.String()
}

// Whatever the names are, what stands outside of code is the same.
func TestHostileNamesOfAForecastStayInCode(t *testing.T) {
	render := func(s string, limit int) map[string]string {
		r := forecasted(step(), ruined(s))
		out := all(t, r)
		var b bytes.Buffer
		if err := r.Markdown(&b, Options{Limit: limit, Lines: -1}); err != nil {
			t.Fatal(err)
		}
		out["md"], out["verdict"] = b.String(), r.Verdict()
		return out
	}
	const ample = 100_000_000
	want := skeleton(t, render("-x", ample)["md"])
	for name, s := range hostile {
		if s == "" {
			continue // Prices then have words of ours.
		}
		s = s[:min(len(s), 3000)]
		t.Run(name, func(t *testing.T) {
			got := render(s, ample)
			for _, form := range []string{"txt", "json", "verdict"} {
				checkPrintable(t, form, got[form])
			}
			if strings.Contains(got["verdict"], "\n") || len([]rune(got["verdict"])) > 500 {
				t.Errorf("the verdict is %q", got["verdict"])
			}
			md := got["md"]
			if strings.Contains(md, "<!--") {
				t.Error("a comment that could imitate a marker")
			}
			if d := cmp.Diff(want, skeleton(t, md)); d != "" {
				t.Errorf("content stands outside of code (-harmless +hostile):\n%s", d)
			}
			for _, limit := range []int{minLimit, 2000, 5000, 20_000, defaultLimit} {
				md := render(s, limit)["md"]
				if len(md) > limit || !strings.HasPrefix(md, "### 2 objects") {
					t.Errorf("%d bytes of %d: %.200q", len(md), limit, md)
				}
				if rest := skeleton(t, md); strings.Count(rest, "<details>") != strings.Count(rest, "</details>") {
					t.Errorf("details stay open within %d bytes", limit)
				}
			}
		})
	}
}

func TestAForecastOfManyNodesIsCutByAStatedRule(t *testing.T) {
	f := replacing()
	f.Replaced = nodesOf("gpu", 500, "NodePoolDrifted")
	for i := range f.Replaced[:100] {
		f.Replaced[i].Blockers = []provision.Blocker{{Kind: "node"}}
	}
	r := forecasted(step(), f)
	tests := []struct {
		name   string
		o      Options
		rows   int
		points int
	}{
		{"by default", Options{}, 40, 8},
		{"fewer when asked for", Options{Lines: 5}, 5, 5},
		{"all when asked for", Options{Lines: -1}, 500, 100},
	}
	row, point := regexp.MustCompile(`(?m)^    \d+ +gpu-x7k`), regexp.MustCompile(`(?m)^  gpu-x7k\d+ \(ip`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := render(t, func(b *bytes.Buffer) error { return r.Text(b, tt.o) })
			rows, points := len(row.FindAllString(got, -1)), len(point.FindAllString(got, -1))
			if rows != tt.rows || points != tt.points {
				t.Errorf("%d nodes and %d blocked ones are shown, want %d and %d", rows, points, tt.rows, tt.points)
			}
			if left := fmt.Sprintf("… and %d more", 500-tt.rows); tt.rows < 500 && !strings.Contains(got, left) {
				t.Errorf("lacks %q", left)
			}
		})
	}
	small := render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{Limit: 2000}) })
	if !strings.Contains(small, "of the consequences not shown: this text has reached its limit") && !strings.Contains(small, "more line") {
		t.Errorf("does not say that it leaves something out:\n%s", small)
	}
}

func TestAForecastShowsNoSecret(t *testing.T) {
	const token = "ghp_0123456789abcdefABCDEF"
	f := ruined(" " + token)
	for form, got := range all(t, forecasted(step(), f)) {
		if strings.Contains(got, token) {
			t.Errorf("%s shows it", form)
		}
	}
}

func TestAForecastIsTheSameBytesEveryTimeAndStaysAsItWas(t *testing.T) {
	f := blocking()
	want := all(t, forecasted(step(), f))
	for range 10 {
		if d := cmp.Diff(want, all(t, forecasted(step(), f))); d != "" {
			t.Fatalf("differs (-first +now):\n%s", d)
		}
	}
	if d := cmp.Diff(blocking(), f); d != "" {
		t.Errorf("rendering changed it:\n%s", d)
	}
}

func TestJSONOfAForecastHasNoNullsAndCanBeReadBack(t *testing.T) {
	got := all(t, forecasted(step(), &provision.Forecast{Pools: []provision.Pool{{Name: "a"}}}))["json"]
	if strings.Contains(got, "null") {
		t.Error(got)
	}
	var back Report
	if err := json.Unmarshal([]byte(all(t, forecasted(step(), blocking()))["json"]), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Forecast.Replaced) != 10 || back.Summary.Verdict != forecasted(step(), blocking()).Verdict() {
		t.Errorf("read back %+v", back.Summary)
	}
}
