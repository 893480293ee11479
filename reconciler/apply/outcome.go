package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Status is what became of one change.
type Status string

// The statuses.
const (
	// Applied: the target accepted the change.
	Applied Status = "applied"
	// Held: the plan holds the change until a confirmation, or until a time; Change.Hold has the reasons.
	Held Status = "held"
	// Skipped: the plan skips the change, and nothing releases it; Change.Hold has the reasons.
	Skipped Status = "skipped"
	// Failed: the change was tried, or could not be, and Err is the reason.
	Failed Status = "failed"
	// NotAttempted: the run did not begin the change; Err is the reason.
	NotAttempted Status = "not_attempted"
	// Conflict: another manager owns what would change; Err names it.
	Conflict Status = "conflict"
)

// Statuses are all of them.
func Statuses() []Status { return []Status{Applied, Held, Skipped, Failed, NotAttempted, Conflict} }

// Result is what became of one change.
type Result struct {
	plan.Change
	// Err is nil for Applied, Held and Skipped. It states why, and not what was being done to
	// what: Change has that.
	Err    error
	Status Status
}

// NotReady is a thing that was applied and not ready when the next wave
// started.
type NotReady struct {
	Key state.Key
	// Reason is a sentence for a person.
	Reason string
}

// Outcome is what a Run did.
type Outcome struct {
	// Results has one entry per change, in the plan's order.
	Results []Result
	// NotReady is in the order of the waves, and of the keys within one.
	NotReady []NotReady

	recordErrs []error
}

// With lists the results that have one of the statuses, in the plan's order.
func (o Outcome) With(statuses ...Status) []Result {
	var out []Result
	for _, r := range o.Results {
		if slices.Contains(statuses, r.Status) {
			out = append(out, r)
		}
	}
	return out
}

// Applied lists the changes that were made.
func (o Outcome) Applied() []Result { return o.With(Applied) }

// Held lists the changes that the plan holds.
func (o Outcome) Held() []Result { return o.With(Held) }

// Failed lists the changes that were made and refused, conflicts
// included.
func (o Outcome) Failed() []Result { return o.With(Failed, Conflict) }

// conflictWait is when to check again whether another manager has given up the fields:
// no event reports that.
const conflictWait = 5 * time.Minute

// Err is nil when everything that was not held is done, ready where a later
// wave needed it, and recorded. Otherwise it names the first failure and
// counts the others, and has the class with the earliest next run (Retry before Wait
// before Stalled) with the reason of the first failure of that class. Deletions that are not attempted are
// no failure of their own: what made them unsafe is, and the caller has that failure.
func (o Outcome) Err() error {
	errs := slices.Clone(o.recordErrs)
	for i, e := range errs {
		errs[i] = classified(e, state.Retry, "InventoryFailed", 0)
	}
	for _, r := range o.Results {
		if err := resultErr(r); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range o.NotReady {
		errs = append(errs, state.Failf(state.Retry, "NotReady", "%s is not ready: %s", n.Key, n.Reason))
	}
	if len(errs) == 0 {
		return nil
	}
	return soonest(errs)
}

// resultErr is the classified failure of one result, or nil.
func resultErr(r Result) error {
	switch {
	case r.Status == Conflict:
		return classified(named(r), state.Wait, "AlreadyOwned", conflictWait)
	case r.Status == Failed && errors.Is(r.Err, targets.ErrChanged):
		return classified(named(r), state.Retry, "Conflict", 0)
	case r.Status == Failed:
		return classified(named(r), state.Retry, "ApplyFailed", 0)
	case r.Status == NotAttempted && errors.Is(r.Err, errStopped):
		return classified(named(r), state.Retry, "Stopped", 0)
	}
	return nil
}

// Message is the text of Err, which does not repeat the change's action and key; empty
// without Err.
func (r Result) Message() string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}

// IsSchemaError reports whether the change was refused because what is declared does not fit the
// schema of its kind, such as a field that the schema does not have: a problem in the
// repository, see [targets.ErrSchema].
func (r Result) IsSchemaError() bool { return errors.Is(r.Err, targets.ErrSchema) }

// named is the error of a result behind the operation: what was being done to what, and
// where that was declared.
func named(r Result) error {
	verb := map[plan.Action]string{plan.Create: "creating", plan.Update: "updating", plan.Delete: "deleting"}[r.Change.Action]
	text := verb + " " + r.Change.Key.String()
	if o := r.Change.Origin(); o != (state.Origin{}) {
		text += " (" + o.String() + ")"
	}
	return fmt.Errorf("%s: %w", text, r.Err)
}

// classified gives err a class and reason unless it brings its own.
func classified(err error, class state.FailureClass, reason string, after time.Duration) error {
	if c, r, _ := state.Classify(err); c != state.Retry || r != unclassified {
		return err
	}
	return fail(class, reason, after, err)
}

// unclassified is the reason that state.Classify gives to an error without
// one.
const unclassified = "Failed"

func fail(class state.FailureClass, reason string, after time.Duration, err error) error {
	if class == state.Wait {
		return state.WaitFor(after, reason, err)
	}
	return state.Fail(class, reason, err)
}

// soonest joins the errors under the class with the earliest next run.
func soonest(errs []error) error {
	lead := slices.MinFunc(errs, func(a, b error) int {
		classA, _, afterA := state.Classify(a)
		classB, _, afterB := state.Classify(b)
		return cmp.Or(cmp.Compare(classA, classB), cmp.Compare(afterA, afterB))
	})
	class, reason, after := state.Classify(lead)
	return fail(class, reason, after, &outcomeError{errs: errs})
}

// outcomeError shows the first of several errors, because a condition's
// message has room for one, and keeps them all for errors.As.
type outcomeError struct{ errs []error }

func (e *outcomeError) Error() string {
	if len(e.errs) == 1 {
		return e.errs[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.errs[0], len(e.errs)-1)
}

func (e *outcomeError) Unwrap() []error { return e.errs }

// end lets each target that began record what the run left behind. It does so
// on a fresh context: a run that was stopped has more to record, not less.
func (r *execution) end(ctx context.Context, begun []string) {
	for _, name := range begun {
		endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		err := Recover(func() error { return r.targets[name].(targets.InventoryWriter).End(endCtx) })
		cancel()
		if err != nil {
			r.recordErrs = append(r.recordErrs, fmt.Errorf("recording what was changed in %s: %w", name, err))
		}
	}
}
