package prove

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
)

func TestAControlNamesAScenarioAndCases(t *testing.T) {
	for _, c := range controls.All() {
		if c.Test() != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			selected, err := ParseSelection(c.Finds)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(scenarios.All(), func(s scenarios.Scenario) bool { return selected.matches(0, s.Name) }) {
				t.Errorf("%s selects no scenario", c.Finds)
			}
		})
	}
}

var (
	patch  = point{Wire: trace.Kubernetes, Verb: "patch", Kind: "syncs.poolwright.dev/status", Area: system}
	remove = point{Wire: trace.Kubernetes, Verb: "delete", Kind: "configmaps", Area: apps}
	fetch  = point{Wire: trace.Git, Verb: "post", Kind: "git-upload-pack"}
)

func TestCasesAreTheFaultsThatCanHappenAtAPoint(t *testing.T) {
	var got []string
	for _, c := range cases(scenarios.Scenario{Name: "update"}, []point{patch, remove, fetch}) {
		got = append(got, c.String())
	}
	var want []string
	for _, fault := range []string{"kill-before", "kill-after", "drop"} {
		for _, p := range []string{"kubernetes patch syncs.poolwright.dev/status (controller)", "kubernetes delete configmaps (declared)", "git post git-upload-pack"} {
			want = append(want, "update/"+fault+"/"+p)
		}
	}
	want = append(want,
		"update/lose/kubernetes patch syncs.poolwright.dev/status (controller)", "update/lose/kubernetes delete configmaps (declared)",
		"update/replace/kubernetes delete configmaps (declared)", "update/keep/kubernetes delete configmaps (declared)")
	for _, fault := range []string{"gone", "slow", "error", "throttled"} {
		want = append(want, "update/"+fault+"/kubernetes", "update/"+fault+"/git") // no request was to a forge
	}
	want = append(want, "update/timeout/kubernetes", "update/truncated/git",
		"update/watches-closed/kubernetes", "update/webhook-hangs/kubernetes", "update/disk-full/git")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAScenarioMayNameItsFaultsAndWires(t *testing.T) {
	var got []string
	for _, c := range cases(scenarios.Scenario{Name: "two", Faults: []string{"pause", "drop"}, Wires: []trace.Wire{trace.Git}}, []point{patch, remove, fetch}) {
		got = append(got, c.String())
	}
	if diff := cmp.Diff([]string{"two/drop/git post git-upload-pack", "two/pause/git post git-upload-pack"}, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range scenarios.All() {
		for _, name := range c.Faults {
			if !slices.ContainsFunc(faultKinds(), func(f faultKind) bool { return f.name == name }) {
				t.Errorf("%s names the fault %s, which there is not", c.Name, name)
			}
		}
	}
}

func TestASelectionMatchesByScenarioFaultAndPoint(t *testing.T) {
	all := cases(scenarios.Scenario{Name: "update-and-prune"}, []point{patch, remove, fetch})
	for _, c := range []struct {
		name, selection string
		want            int
	}{
		{"an empty one matches all", "", len(all)},
		{"a scenario", "update", len(all)},
		{"another scenario", "first", 0},
		{"a fault", "/kill", 6},
		{"a point", "//git post", 3},
		{"a whole wire", "//^git$", 6},
		{"no case of a wire that has none", "/slow/forge", 0},
		{"a point whose kind has a slash", "/drop/syncs.poolwright.dev/status", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSelection(c.selection)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, one := range all {
				if s.selects(one) {
					got++
				}
			}
			if got != c.want {
				t.Errorf("it selects %d cases, want %d", got, c.want)
			}
		})
	}
	if _, err := ParseSelection("a/("); err == nil {
		t.Error("what is no regular expression is accepted")
	}
}

func TestThePointsOfAStretchAreDistinctAndOfThisCase(t *testing.T) {
	s := &fixture.Fixture{System: "pw-p0-1", Apps: "apps-p0-1"}
	request := func(verb, kind, namespace string) trace.Record {
		return trace.Record{Request: &trace.Request{Wire: trace.Kubernetes, Verb: verb, Kind: kind, Namespace: namespace}}
	}
	got := pointsOf(s, []trace.Record{
		request("list", "configmaps", ""), request("delete", "configmaps", s.Apps), request("delete", "configmaps", s.Apps),
		{Event: &trace.Event{Kind: trace.Committed}},
		request("patch", "syncs.poolwright.dev/status", s.System), request("patch", "syncs.poolwright.dev/status", "pw-p0-2"),
	})
	want := []point{remove, patch, {Wire: trace.Kubernetes, Verb: "list", Kind: "configmaps"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	comment := func() trace.Record {
		return trace.Record{Request: &trace.Request{Wire: trace.Forge, Verb: "patch", Kind: "comments"}}
	}
	if got := pointsOf(s, []trace.Record{comment(), comment()}); len(got) != 2 || got[0].Nth != 0 || got[1].String() != "forge patch comments #2" {
		t.Errorf("the changes at a forge are the points %v", got)
	}
	for _, p := range got {
		q := trace.Request{Wire: p.Wire, Verb: p.Verb, Kind: p.Kind, Namespace: map[area]string{system: s.System, apps: s.Apps}[p.Area]}
		if back, ok := pointOf(s, &q); !ok || back != p {
			t.Errorf("%s is %s in its fixture", p, back)
		}
	}
}

// proved is a report with one of each outcome.
func proved() Report {
	r := Report{
		Observed: cases(scenarios.Scenario{Name: "first-apply"}, []point{patch, remove}), Seconds: 61.4,
		Controls: []ControlResult{
			{Name: "write-ahead", Summary: "The inventory is saved first.", Found: true, By: []string{"first-apply/drop/x: converges", "first-apply/drop/y: idle"}},
			{Name: "version", Summary: "A deletion has a version."},
		},
	}
	r.Results = []Result{
		{Case: proveCase{Scenario: "first-apply", Fault: noFault}, Outcome: Held, Points: []point{patch, remove}},
		{Case: proveCase{"first-apply", "kill-before", patch}, Outcome: Held, Seconds: 3},
		{Case: proveCase{"first-apply", "kill-before", remove}, Outcome: NotReached},
		{Case: proveCase{"first-apply", "drop", patch}, Outcome: Violated, Violations: []oracle.Violation{{Rule: "idle", Detail: "patch a"}}},
		{Case: proveCase{"first-apply", "drop", remove}, Outcome: Failed, Error: "no API server"},
	}
	return r
}

func TestAReportFailsForEachThingThatIsWrong(t *testing.T) {
	if err := (Report{Results: []Result{{Outcome: Held}, {Outcome: NotReached}}, Controls: []ControlResult{{Found: true}}}).Err(); err != nil {
		t.Error(err)
	}
	for name, r := range map[string]Report{
		"a violation":               {Results: []Result{{Outcome: Violated}}},
		"a case that failed":        {Results: []Result{{Outcome: Failed}}},
		"a control that was missed": {Controls: []ControlResult{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			if r.Err() == nil {
				t.Error("it is no error")
			}
		})
	}
}

func TestAReportIsPrinted(t *testing.T) {
	var text, page strings.Builder
	if err := WriteText(&text, proved()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/report.txt", text.String())
	numbers := strings.Builder{}
	writeNumbers(&numbers, proved(), measured{time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), "linux with 2 CPUs"}, "")
	golden.Compare(t, "testdata/numbers.md", numbers.String())
	if err := WriteMarkdown(&page, proved(), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), ""); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios.All() {
		if !strings.Contains(page.String(), "`"+s.Name+"`") || !strings.Contains(List(), s.Name) {
			t.Errorf("the page or the list lacks the scenario %s", s.Name)
		}
	}
}
