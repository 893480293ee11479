package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// begin records the intent in every target, before any of it is written anywhere; in
// one that has nothing to do, what its observation has changed in the record, such as
// an allowance that was withdrawn. Where one refuses, it skips the changes and returns
// false.
func (r *run) begin(ctx context.Context, todo []int) bool {
	err := r.intend(ctx, todo)
	if err != nil {
		r.recordErrs = append(r.recordErrs, err)
		r.skip(todo, errNotRecorded)
	}
	return err == nil
}

func (r *run) intend(ctx context.Context, todo []int) error {
	intents := map[string][]plan.Change{}
	for _, i := range todo {
		c := r.results[i].Change
		intents[c.Key.Target] = append(intents[c.Key.Target], c)
	}
	for _, name := range r.recorders() {
		if len(intents[name]) == 0 && slices.Contains(r.begun, name) {
			continue
		}
		rec, _ := r.targets[name].(targets.Recorder)
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if err := Recover(func() error { return rec.Begin(ctx, intents[name]) }); err != nil {
			return fmt.Errorf("recording what is about to change in %s: %w", name, err)
		}
		if !slices.Contains(r.begun, name) {
			r.begun = append(r.begun, name)
		}
	}
	return nil
}

// recorders names the targets that keep an inventory, in their order.
func (r *run) recorders() []string {
	return slices.SortedFunc(func(yield func(string) bool) {
		for name, t := range r.targets {
			if _, ok := t.(targets.Recorder); ok && !yield(name) {
				return
			}
		}
	}, r.byOrder)
}

func (r *run) byOrder(a, b string) int {
	return cmp.Or(cmp.Compare(rank(r.opts.Order, a), rank(r.opts.Order, b)), cmp.Compare(a, b))
}

// end lets each target that began record what the run left behind. It does so
// on a fresh context: a run that was stopped has more to record, not less.
func (r *run) end(ctx context.Context, begun []string) {
	for _, name := range begun {
		endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		err := Recover(func() error { return r.targets[name].(targets.Recorder).End(endCtx) })
		cancel()
		if err != nil {
			r.recordErrs = append(r.recordErrs, fmt.Errorf("recording what was changed in %s: %w", name, err))
		}
	}
}

// await waits until what the phase applied is ready. What is not ready in time
// is noted, and the run goes on: the things that depend on it fail by
// themselves, and those that do not must not wait for it.
func (r *run) await(ctx context.Context, ph phase) {
	waiter, ok := r.targets[ph.target].(targets.Waiter)
	if !ok {
		return
	}
	var keys []state.Key
	for _, i := range ph.changes {
		if r.results[i].Status == Applied {
			keys = append(keys, r.results[i].Change.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	waitCtx, cancel := context.WithTimeout(ctx, r.opts.ReadyTimeout)
	defer cancel()
	var late map[state.Key]string
	err := Recover(func() (err error) { late, err = waiter.Ready(waitCtx, keys); return err })
	if ctx.Err() != nil {
		return // Stopped, not late.
	}
	if err != nil && len(late) == 0 {
		// Nothing is known of any of them.
		late = make(map[state.Key]string, len(keys))
		for _, k := range keys {
			late[k] = "readiness unknown: " + err.Error()
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(late), state.Key.Compare) {
		r.notReady = append(r.notReady, NotReady{Key: k, Reason: late[k]})
	}
}

// PanicError is a panic, as of a target, turned into the error of what was being
// done.
type PanicError struct {
	// Value is what it panicked with. It may hold anything, secrets
	// included: do not print it.
	Value any
	// Stack is where it panicked, for a log.
	Stack []byte
}

// Error shows the panic's text when the Go runtime wrote it, otherwise only
// the type of the value.
func (e *PanicError) Error() string {
	if err, ok := e.Value.(runtime.Error); ok {
		return "panic: " + err.Error()
	}
	return fmt.Sprintf("panic with a %T", e.Value)
}

// Recover calls f and turns its panic into a PanicError with the class Retry and the reason
// Panic, so that one Sync's input does not end the process.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = state.Fail(state.Retry, "Panic", &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return f()
}
