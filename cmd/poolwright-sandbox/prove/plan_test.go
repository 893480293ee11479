package prove

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// recorded is a report of two scenarios that both fetch, and both write a status.
func recorded() Report {
	var r Report
	for _, scenario := range []string{"first-apply", "update-and-prune"} {
		r.Results = append(r.Results, Result{Case: proveCase{Scenario: scenario, Fault: noFault}, Outcome: Held, Points: []point{patch, fetch}})
	}
	return r
}

func opened(t *testing.T, r Report, selection string) []string {
	t.Helper()
	selected, err := ParseSelection(selection)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range r.open(selected) {
		out = append(out, c.String())
	}
	return out
}

func TestAFaultHappensToARequestThatReadsInOneScenarioAndToOneThatWritesInEach(t *testing.T) {
	const status, fetched = "kubernetes patch syncs.poolwright.dev/status (controller)", "git post git-upload-pack"
	r := recorded()
	want := []string{"first-apply/drop/" + status, "update-and-prune/drop/" + status, "first-apply/drop/" + fetched}
	if diff := cmp.Diff(want, opened(t, r, "/drop")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"update-and-prune/drop/" + fetched}, opened(t, r, "update/drop/git")); diff != "" {
		t.Errorf("of the only scenario that is selected: %s", diff)
	}
	if diff := cmp.Diff([]string{"first-apply/gone/kubernetes", "update-and-prune/gone/kubernetes"}, opened(t, r, "/gone/kubernetes")); diff != "" {
		t.Errorf("of a whole wire: %s", diff)
	}

	met := Result{Case: proveCase{"first-apply", "drop", fetch}, Outcome: NotReached}
	r.Results = append(r.Results, met)
	if diff := cmp.Diff([]string{"update-and-prune/drop/" + fetched}, opened(t, r, "/drop/git")); diff != "" {
		t.Errorf("after it was not reached: %s", diff)
	}
	r.Results[2].Outcome = Held
	if got := opened(t, r, "/drop/git"); got != nil {
		t.Errorf("after it was reached, %v are left", got)
	}
}

func TestARunGoesOnWithTheResultsThatWereKept(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	first := Result{Case: proveCase{"first-apply", "drop", fetch}, Outcome: Violated}
	again := Result{Case: first.Case, Outcome: Held}
	control := ControlResult{Name: "write-ahead", Found: true}
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	// Each run has its first result after 7 s, and a control after another minute.
	for n, want := range []Report{{}, {Results: []Result{first}, Seconds: 7}, {Results: []Result{again}, Controls: []ControlResult{control}, Seconds: 14}} {
		kept, err := openResults(name, clk.Now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, kept.before); diff != "" {
			t.Errorf("what was there the %d. time: %s", n+1, diff)
		}
		clk.Step(7 * time.Second)
		if n == 0 {
			kept.keep(record{Result: &first})
		} else {
			kept.keep(record{Result: &again})
			clk.Step(time.Minute)
			kept.keep(record{Control: &control})
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openResults(filepath.Join(name, "below a file"), clk.Now); err == nil {
		t.Error("a file that cannot be opened is no error")
	}
}

func TestTheCoverageOfAWireCountsEachKindOfRequestOnce(t *testing.T) {
	r := recorded()
	r.Results = append(r.Results,
		Result{Case: proveCase{"first-apply", "drop", patch}, Outcome: Held}, Result{Case: proveCase{"update-and-prune", "drop", patch}, Outcome: Held},
		Result{Case: proveCase{"first-apply", "kill-after", patch}, Outcome: Violated}, Result{Case: proveCase{"first-apply", "kill-before", patch}, Outcome: NotReached},
		Result{Case: proveCase{"first-apply", "gone", point{Wire: trace.Git}}, Outcome: Held},
	)
	var got []wireCoverage
	for _, c := range r.wireCoverages() {
		if c.kinds > 0 {
			got = append(got, c)
		}
	}
	want := []wireCoverage{
		{wire: trace.Kubernetes, kinds: 1, reached: [3]int{0, 1, 1}}, {wire: trace.Git, kinds: 1}, {wire: "all", kinds: 2, reached: [3]int{0, 1, 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(wireCoverage{})); diff != "" {
		t.Error(diff)
	}
}
