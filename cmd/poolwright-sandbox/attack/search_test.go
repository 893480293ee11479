package attack

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/attack/grammar"
)

var (
	seed    = flag.Uint64("seed", 1, "the seed of the search")
	trials  = flag.Int("trials", 14, "how many trials are measured")
	seconds = flag.Int("seconds", 2, "how many seconds of processor time a child may take")
)

// brief has children end early: what takes longer is as good a finding.
func brief(c Trial) Trial {
	c.Limits.CPU = time.Duration(*seconds) * time.Second
	return c
}

func TestNoTrialOfASeedBreaksAPromise(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts some hundred processes")
	}
	outcomes := map[string]int{}
	s := Search{Seed: *seed, Trials: *trials, Shrinking: 60, Make: brief, Measure: self(t).Measure, Progress: func(c Case) {
		outcomes[strings.TrimSpace(c.Measure.Stage+" "+c.Measure.Reason)]++
		if testing.Verbose() {
			t.Logf("%s", written(t, c))
		}
	}}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range out.Violations {
		t.Errorf("%s: %s\nkeep it in testdata, and mend it", what, written(t, c))
	}
	for objective, c := range out.MostExpensive {
		t.Logf("most expensive in %s: %s", objective, written(t, c))
	}
	t.Logf("%d trials ended as %v", out.Measured, outcomes)
	if outcomes[""] == 0 || outcomes["rendering LimitExceeded"] == 0 {
		t.Error("the trials are all too small, or all too large")
	}
}

func written(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestCasesThatBrokeAPromiseBreakNoneAnyMore runs what searches have found and shrunk.
func TestCasesThatBrokeAPromiseBreakNoneAnyMore(t *testing.T) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			// A budget is less than the product's where a trial was refused by its process alone.
			c := struct {
				Trial
				Budgets Budgets `json:"budgets"`
			}{}
			if err := json.Unmarshal(raw, &c); err != nil || !c.Repository.Valid() {
				t.Fatalf("%v, or not of the grammar: it was kept by another one", err)
			}
			m, err := self(t).Measure(t.Context(), c.Trial)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(written(t, m))
			for _, v := range append(m.Violations(Default(c.Trial)), m.Violations(c.Budgets)...) {
				t.Error(v)
			}
		})
	}
}

// TestALimitThatIsSwitchedOffIsFound is the control. The limit is less than the product's, so
// that few trials are enough. The first is within the limit.
func TestALimitThatIsSwitchedOffIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts some sixty processes")
	}
	values := grammar.Derivation{Rule: "items", N: []int{100}, Of: []grammar.Derivation{{Rule: "numbers", N: []int{8, 4}}}}
	start := grammar.Derivation{Rule: "plain", Of: []grammar.Derivation{{Rule: "documents", N: []int{100}, Of: []grammar.Derivation{{Rule: "widget", Of: []grammar.Derivation{values}}}}}}
	for name, c := range map[string]struct {
		on      child.Limits
		budgets Budgets
		want    Violation
	}{
		"the memory of a child": {child.Limits{Memory: 192 << 20}, Budgets{ChildMemory: 224 << 20}, ChildMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n, with := broken(t, c.on, c.budgets, c.want, start); with != nil {
				t.Errorf("trial %d breaks it with the limit: %s", n, written(t, with))
			}
			n, without := broken(t, child.Limits{}, c.budgets, c.want, start)
			if without == nil {
				t.Fatalf("none of %d trials exceeds it without the limit", n)
			}
			t.Logf("trial %d: %s", n, written(t, without))
		})
	}
}

// controlTrials is how many are measured for a control.
const controlTrials = 10

// broken searches with limits for a trial that breaks a promise: which one, and how many were
// measured.
func broken(t *testing.T, limits child.Limits, budgets Budgets, want Violation, start grammar.Derivation) (n int, found *Case) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := Search{
		Seed: 1, Trials: controlTrials, Start: []grammar.Derivation{start}, Measure: self(t).Measure, Budgets: func(Trial) Budgets { return budgets },
		Make: func(trial Trial) Trial {
			trial.Followed, trial.Limits = false, limits
			return brief(trial)
		},
		Progress: func(c Case) {
			if n++; slices.Contains(c.Violations, want) {
				found = &c
				stop()
			}
		},
	}
	if _, err := s.Run(ctx); err != nil && found == nil {
		t.Fatal(err)
	}
	return n, found
}

// weighed measures a trial by its files alone, as no process does.
func weighed(_ context.Context, c Trial) (Measure, error) {
	var out Measure
	for _, content := range grammar.Files(c.Repository, grammar.Sizes{FileBytes: 1 << 16, TotalBytes: 1 << 18, Files: 100, Objects: 200}) {
		out.Output += int64(len(content))
		out.Decoded += int64(strings.Count(content, "NodePool")) << 20
		out.Child.Memory += int64(strings.Count(content, "topologyKey"))
	}
	return out, nil
}

func TestASeedLeadsTheSameWayAgainAndClimbs(t *testing.T) {
	run := func(seed uint64, n int) (Result, []Case) {
		var all []Case
		s := Search{Seed: seed, Trials: n, Measure: weighed, Budgets: func(Trial) Budgets { return Budgets{} }, Progress: func(c Case) { all = append(all, c) }}
		out, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out, all
	}
	few, first := run(3, 60)
	again, second := run(3, 60)
	if diff := cmp.Diff(first, second) + cmp.Diff(few, again); diff != "" {
		t.Errorf("a seed leads two ways: %s", diff)
	}
	if other, _ := run(4, 60); cmp.Equal(few, other) {
		t.Error("two seeds lead the same way")
	}
	most := int64(0)
	for _, c := range first[:initialTrials] {
		most = max(most, c.Measure.Child.Memory)
	}
	if got := few.MostExpensive["memory of the child"].Measure.Child.Memory; got <= most {
		t.Errorf("mutations found %d, no more than the %d that was there at first", got, most)
	}
}

func TestAViolationShrinksToWhatIsNeededForIt(t *testing.T) {
	s := Search{Seed: 5, Trials: 80, Shrinking: 2000, Measure: weighed, Budgets: func(Trial) Budgets { return Budgets{Decoded: 5 << 20} }}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	small, ok := out.Violations[ParentHeap]
	if !ok {
		t.Fatal("nothing was found")
	}
	// One pool is there always: five more are needed, of one file.
	if small.Measure.Decoded != 6<<20 || small.Trial.Repository.Weight() > 30 {
		t.Errorf("shrunk to %s", written(t, small))
	}
}

func TestAMeasureBreaksThePromisesThatItExceeds(t *testing.T) {
	all := Default(Trial{})
	for name, c := range map[string]struct {
		m    Measure
		want []Violation
	}{
		"nothing":                           {Measure{}, nil},
		"a limit that is named":             {Measure{FailureClass: "stalled", Reason: "LimitExceeded"}, nil},
		"a child that crashes":              {Measure{FailureClass: "stalled", Reason: "RenderFailed"}, []Violation{Unexplained}},
		"what would be tried for ever":      {Measure{FailureClass: "retry", Reason: "Failed"}, []Violation{Unexplained}},
		"a busy machine":                    {Measure{FailureClass: "retry", Reason: "Failed", Child: Usage{Wall: 95 * time.Second, CPU: time.Second}}, nil},
		"a controller that ends":            {Measure{FailureClass: crashed}, []Violation{Crash}},
		"a child beyond its memory":         {Measure{Child: Usage{Memory: 1 << 30}}, []Violation{ChildMemory}},
		"children beyond their time":        {Measure{Child: Usage{CPU: time.Hour}}, []Violation{ChildTime}},
		"a result that is too large":        {Measure{Decoded: 97 << 20}, []Violation{ParentHeap}},
		"a controller beyond its memory":    {Measure{Parent: Usage{Memory: 400 << 20}}, []Violation{ParentPeak}},
		"a controller that works too long":  {Measure{Parent: Usage{CPU: time.Minute}}, []Violation{ParentTime}},
		"a neighbor that is not rendered":   {Measure{Neighbor: "waited in vain"}, []Violation{NeighborFailed}},
		"two promises that are both broken": {Measure{Decoded: 97 << 20, Neighbor: "x"}, []Violation{ParentHeap, NeighborFailed}},
	} {
		if diff := cmp.Diff(c.want, c.m.Violations(all)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAMeasureInStepsGrowsWithIt(t *testing.T) {
	last := int64(-1)
	for n := range int64(5000) {
		got := coarse(n)
		if got < last || got > last+1 {
			t.Fatalf("%d is %d after %d", n, got, last)
		}
		last = got
	}
}
