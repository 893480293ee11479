package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestErrHasTheEarliestTimeOfTheNextRun(t *testing.T) {
	fix := state.Failf(state.Stalled, "Invalid", "spec.limits is wrong")
	wait := state.WaitFor(time.Minute, "Throttled", errors.New("slow down"))
	retry := state.Failf(state.Retry, "Unreachable", "connection refused")
	tests := []struct {
		name    string
		results []Result
		class   state.FailureClass
		reason  string
		after   time.Duration
		text    string
	}{
		{name: "one refused object", results: []Result{{Err: fix, Status: Failed}},
			class: state.Stalled, reason: "Invalid", text: "creating Thing/x (x.yaml:3): spec.limits is wrong"},
		{name: "retry goes before wait and fix, the first failure is shown",
			results: []Result{{Err: fix, Status: Failed}, {Err: wait, Status: Failed}, {Err: retry, Status: Failed}},
			class:   state.Retry, reason: "Unreachable", text: "spec.limits is wrong (and 2 more)"},
		{name: "wait goes before fix", results: []Result{{Err: fix, Status: Failed}, {Err: wait, Status: Failed}},
			class: state.Wait, reason: "Throttled", after: time.Minute, text: "(and 1 more)"},
		{name: "an error without a class", results: []Result{{Err: errors.New("boom"), Status: Failed}},
			class: state.Retry, reason: "ApplyFailed", text: "boom"},
		{name: "a conflict", results: []Result{{Err: fmt.Errorf("spec.x of argocd: %w", targets.ErrConflict), Status: Conflict}},
			class: state.Wait, reason: "AlreadyOwned", after: conflictWait, text: "argocd"},
		{name: "a thing that moved on", results: []Result{{Err: fmt.Errorf("deleting: %w", targets.ErrChanged), Status: Failed}},
			class: state.Retry, reason: "Conflict", text: "changed since"},
		{name: "a panic", results: []Result{{Err: Recover(func() error { panic("secret") }), Status: Failed}},
			class: state.Retry, reason: "Panic", text: "panic with a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.results {
				tt.results[i].Change = change(plan.Create, "w", "x", 0)
			}
			err := Outcome{Results: tt.results}.Err()
			class, reason, after := state.Classify(err)
			if class != tt.class || reason != tt.reason || after != tt.after {
				t.Errorf("got %s %s %s, want %s %s %s", class, reason, after, tt.class, tt.reason, tt.after)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("text %q lacks %q", err, tt.text)
			}
		})
	}
}

func TestErrIsNilWhenNothingIsLeftToTry(t *testing.T) {
	o := Outcome{Results: []Result{
		{Change: change(plan.Create, "w", "a", 0), Status: Applied},
		{Change: change(plan.Delete, "w", "b", 0), Status: Held},
		{Change: change(plan.Delete, "w", "c", 0), Status: NotAttempted, Err: errIncomplete},
	}}
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

func TestErrReportsAnOutcomeThatCouldNotBeRecorded(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	w.end = func(context.Context) error { return errors.New("conflict on shard 3") }
	got := Run(t.Context(), plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "a", 0)}}, one(w), Options{})
	_, reason, _ := state.Classify(got.Err())
	if len(got.Applied()) != 1 || reason != "InventoryFailed" || !strings.Contains(got.Err().Error(), "shard 3") {
		t.Errorf("reason %q, err %v", reason, got.Err())
	}
}

func TestAPanicShowsItsTextOnlyWhenTheRuntimeWroteIt(t *testing.T) {
	var list []int
	at := 3
	own := Recover(func() error { panic(fmt.Errorf("password %s", "hunter2")) })
	theirs := Recover(func() error { list[at]++; return nil })
	if strings.Contains(own.Error(), "hunter2") {
		t.Errorf("the panic's value leaks: %v", own)
	}
	if !strings.Contains(theirs.Error(), "index out of range") {
		t.Errorf("the runtime's text is lost: %v", theirs)
	}
	var p *PanicError
	if !errors.As(theirs, &p) || !strings.Contains(string(p.Stack), "TestAPanicShows") {
		t.Errorf("no stack of the panic in %v", theirs)
	}
}

func TestTheOperationIsNamedByItsData(t *testing.T) {
	key := state.Key{Target: "aws", Group: "sqs", Kind: "Queue", Namespace: "eu-west-1", Name: "dev"}
	item := state.Item{Key: key, Origin: state.Origin{File: "cluster.yaml", Line: 9}}
	cause := errors.New("denied")
	for name, c := range map[string]struct {
		action plan.Action
		err    error
		why    string
		want   string
	}{
		"a creation":                       {plan.Create, cause, "denied", "creating Queue.sqs/eu-west-1/dev (cluster.yaml:9): denied"},
		"an update":                        {plan.Update, cause, "denied", "updating Queue.sqs/eu-west-1/dev (cluster.yaml:9): denied"},
		"a deletion":                       {plan.Delete, cause, "denied", "deleting Queue.sqs/eu-west-1/dev (cluster.yaml:9): denied"},
		"a step of it failed":              {plan.Create, fmt.Errorf("reading the account: %w", cause), "reading the account: denied", "creating Queue.sqs/eu-west-1/dev (cluster.yaml:9): reading the account: denied"},
		"the error of another object":      {plan.Create, fmt.Errorf("creating Queue.sqs/eu-west-1/dev-2: %w", cause), "creating Queue.sqs/eu-west-1/dev-2: denied", "creating Queue.sqs/eu-west-1/dev (cluster.yaml:9): creating Queue.sqs/eu-west-1/dev-2: denied"},
		"an error that repeats the change": {plan.Create, fmt.Errorf("creating Queue.sqs/eu-west-1/dev: %w", cause), "creating Queue.sqs/eu-west-1/dev: denied", "creating Queue.sqs/eu-west-1/dev (cluster.yaml:9): creating Queue.sqs/eu-west-1/dev: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Result{Change: plan.Change{Key: key, Action: c.action, Before: &item, After: &item}, Status: Failed, Err: c.err}
			if got := r.Message(); got != c.why {
				t.Errorf("why %q, want %q", got, c.why)
			}
			all := Outcome{Results: []Result{r}}.Err()
			if all.Error() != c.want || !errors.Is(all, cause) {
				t.Errorf("outcome %q, want %q", all, c.want)
			}
		})
	}
	if why := (Result{}).Message(); why != "" {
		t.Errorf("without an error: %q", why)
	}
}
