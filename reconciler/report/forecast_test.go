package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// forecasted is a report with a forecast.
func forecasted(p plan.Plan, f *provision.Forecast) Report {
	r := New(p, nil)
	r.Forecast = f
	return r
}

func TestForecastsReadAsTheGoldenFiles(t *testing.T) {
	for name, f := range map[string]*provision.Forecast{
		"replacing": replacing(), "removing": removing(), "weighing": weighing(), "blocking": blocking(), "placing": placing(), "doubting": uncertain(),
		"hostile": ruined(`x|y @org/team <!-- a --> </details><b>*_[l](http://e)` + "`` \x1b[31m\u202e"), "none": {},
	} {
		for form, got := range all(t, forecasted(step(), f)) {
			golden.Compare(t, "testdata/forecast-"+name+"."+form, got)
		}
	}
}

func TestTheHeadlineIsOneLineOfWhatMatters(t *testing.T) {
	large := replacing()
	large.Cost.Max = nil
	large.Cost.After.OnDemand = 12345.678
	cheaper := replacing()
	cheaper.Cost = provision.Cost{Now: provision.Amount{Spot: 2}, After: provision.Amount{Spot: 1.996}}
	two := removing()
	two.Removed = append(two.Removed, provision.RemovedPool{Pool: "older", Nodes: nodesOf("older", 1, ""), Pods: 0}, provision.RemovedPool{Pool: "empty"})
	stuck := replacing()
	for i := range stuck.Replaced {
		stuck.Replaced[i].Blockers = []provision.Blocker{{Kind: "node"}}
	}
	stuck.Rollout = provision.Rollout{Nodes: 4, Blocked: 4, Incomplete: true}
	busy := replacing()
	busy.Pools[1].Disruption = provision.PoolDisruption{Budget: "10%"}
	invalid := replacing()
	invalid.Rollout.Incomplete = true
	const start = "2 objects · 1 AWS · "
	tests := []struct {
		name string
		f    *provision.Forecast
		want string
	}{
		{"nodes, money with spot, and the maximum", replacing(), start + "4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"a pool goes", removing(), start + "2 nodes removed with pool old · 4 pods fit no node · −$2.42/h · max $12.40 → $30.00/h"},
		{"several pools go", two, start + "3 nodes removed with 2 pools · 4 pods fit no node · −$2.42/h · max $12.40 → $30.00/h"},
		{"nothing is replaced", weighing(), start + "no node is replaced"},
		{"nothing is known to be replaced", uncertain(), start + "no node is known to be replaced · 2 unknowns"},
		{"some are never replaced", blocking(), start + "4 of 10 nodes replaced in 3–3.9 h · never: 6 nodes (2 blocked, 3 blocked by a budget, 1 at the limit) · +$1.52/h"},
		{"all are blocked", stuck, start + "0 of 4 nodes replaced · never: 4 nodes blocked · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"a pool with nodes on their way is not closed", busy, start + "4 nodes replaced in 20–60 min · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"some never, and which is not stated", invalid, start + "4 nodes replaced in 20–60 min · never: some of them · +$1.52/h (+$0.31 spot) · max $52.40 → $64.80/h"},
		{"large sums, and a maximum that goes", large, start + "4 nodes replaced in 20–60 min · +$12,339.56/h (+$0.31 spot) · max $52.40/h → none"},
		{"small sums, of spot alone", cheaper, start + "4 nodes replaced in 20–60 min · −$0.0040/h spot"},
		{"no forecast", nil, "Plan: 0 to create, 3 to update, 0 to delete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := forecasted(step(), tt.f).Headline(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTheHeadlineNamesWhatKeepsThePlanIncomplete(t *testing.T) {
	p, problems := sample()
	r := New(p, problems)
	r.Forecast = weighing()
	if got, want := r.Headline(), "2 problems · 8 objects · 1 AWS · 1 held · no node is replaced"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r = forecasted(plan.Plan{Unchanged: 3}, weighing())
	if got, want := r.Headline(), "no changes · no node is replaced"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
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
			out.WriteString(codeless(t, l) + "\n")
		}
	}
	if open != "" {
		t.Fatalf("a fence stays open in %q", md)
	}
	return out.String()
}

// codeless is a line of Markdown without its code spans. It fails where one does not
// end.
func codeless(t *testing.T, l string) string {
	t.Helper()
	var out strings.Builder
	for {
		at := aSpan.FindStringIndex(l)
		if at == nil {
			return out.String() + l
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
		out["md"], out["verdict"] = b.String(), r.Headline()
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
				if len(md) > limit || !strings.HasPrefix(md, "### ⛔ 2 objects") {
					t.Errorf("%d bytes of %d: %.200q", len(md), limit, md)
				}
				if rest := skeleton(t, md); strings.Count(rest, "<details>") != strings.Count(rest, "</details>") {
					t.Errorf("details stay open within %d bytes", limit)
				}
			}
		})
	}
}

func FuzzNamesOfAForecastNeverLeaveTheirCode(f *testing.F) {
	for _, s := range hostile {
		f.Add(s[:min(len(s), 300)], uint16(1000))
	}
	markdown := func(t *testing.T, s string, limit int) string {
		return render(t, func(b *bytes.Buffer) error {
			return forecasted(step(), ruined(s)).Markdown(b, Options{Limit: limit})
		})
	}
	f.Fuzz(func(t *testing.T, s string, spare uint16) {
		const ample = 100_000_000
		if s == "" {
			t.Skip("an empty source of prices is told in words of the report's own, so that the two differ rightly")
		}
		if len(s) > 5000 {
			t.Skip("a report holds each name dozens of times: longer ones only slow the search")
		}
		if d := cmp.Diff(skeleton(t, markdown(t, "-x", ample)), skeleton(t, markdown(t, s, ample))); d != "" {
			t.Errorf("content stands outside of code (-harmless +hostile):\n%s", d)
		}
		limit := minLimit + int(spare)
		if got := markdown(t, s, limit); len(got) > limit || !strings.HasPrefix(got, "### ⛔ 2 objects") {
			t.Errorf("%d bytes of %d: %.200q", len(got), limit, got)
		}
		checkPrintable(t, "txt", render(t, func(b *bytes.Buffer) error { return forecasted(step(), ruined(s)).Text(b, Options{}) }))
	})
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
		{"by default", Options{}, 8, 8},
		{"more when requested, but of what everybody reads", Options{Lines: 20}, 20, 8},
		{"fewer when requested", Options{Lines: 5}, 5, 5},
		{"all when requested", Options{Lines: -1}, 500, 100},
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
	if len(back.Forecast.Replaced) != 10 || back.Summary.Headline != forecasted(step(), blocking()).Headline() {
		t.Errorf("read back %+v", back.Summary)
	}
}

// BenchmarkForecast is a change that replaces 500 nodes with 5,000 pods.
func BenchmarkForecast(b *testing.B) {
	f := replacing()
	f.Replaced = nodesOf("gpu", 500, "NodePoolDrifted")
	for i := range f.Replaced {
		for n := range 8 {
			f.Replaced[i].Pods = append(f.Replaced[i].Pods, provision.Pod{Namespace: "web", Name: fmt.Sprintf("api-%d-%d", i, n)})
		}
	}
	r := forecasted(step(), f)
	for b.Loop() {
		var out bytes.Buffer
		for _, err := range []error{r.Text(&out, Options{}), r.Markdown(&out, Options{}), r.JSON(&out)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
