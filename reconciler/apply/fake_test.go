package apply

import (
	"context"
	"fmt"
	"sync"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// journal keeps the order in which things happened in all fake targets.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf(format, args...))
}

func (j *journal) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.events...)
}

// target is a target in memory. Its hooks may be nil.
type fakeTarget struct {
	name    string
	journal *journal
	begin   func([]plan.Change) error
	correct func(context.Context, plan.Change) error
	ready   func(context.Context, []state.Key) (map[state.Key]string, error)
	end     func(context.Context) error

	mu     sync.Mutex
	intent map[state.Key]bool
	writes []state.Key
	ended  int
}

func newFakeTarget(name string, j *journal) *fakeTarget {
	return &fakeTarget{name: name, journal: j, intent: map[state.Key]bool{}}
}

func (w *fakeTarget) Desired(context.Context, state.Set) (state.Set, error) { return state.Set{}, nil }
func (w *fakeTarget) Observe(context.Context, state.Set) (state.Set, error) { return state.Set{}, nil }

func (w *fakeTarget) Apply(ctx context.Context, c plan.Change) error {
	w.journal.add("start %s %s", c.Action, c.Key.Name)
	defer w.journal.add("end %s %s", c.Action, c.Key.Name)
	if w.correct != nil {
		if err := w.correct(ctx, c); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, c.Key)
	return nil
}

func (w *fakeTarget) Begin(_ context.Context, changes []plan.Change) error {
	w.journal.add("begin %s", w.name)
	if w.begin != nil {
		if err := w.begin(changes); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		w.intent[c.Key] = true
	}
	return nil
}

func (w *fakeTarget) End(ctx context.Context) error {
	w.journal.add("finish %s", w.name)
	w.mu.Lock()
	w.ended++
	w.mu.Unlock()
	if w.end != nil {
		return w.end(ctx)
	}
	return nil
}

func (w *fakeTarget) Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
	w.journal.add("ready %s %d", w.name, len(keys))
	if w.ready != nil {
		return w.ready(ctx, keys)
	}
	return nil, nil
}

// bare is a target with none of the extra abilities.
type bare struct{ targets.Target }

func change(action plan.Action, in, name string, wave int) plan.Change {
	item := &state.Item{
		Key:    state.Key{Target: in, Kind: "Thing", Name: name},
		Wave:   wave,
		Object: map[string]any{"name": name},
		Origin: state.Origin{File: name + ".yaml", Line: 3},
	}
	c := plan.Change{Key: item.Key, Action: action}
	if action != plan.Delete {
		c.After = item
	}
	if action != plan.Create {
		before := *item
		before.Origin = state.Origin{}
		c.Before = &before
	}
	return c
}

func held(c plan.Change) plan.Change {
	c.Hold = hold.Reasons{{Rule: hold.DeletionLosses}}
	return c
}

func drifted(c plan.Change) plan.Change {
	c.Drift = true
	return c
}

func statuses(o Outcome) map[string]Status {
	out := map[string]Status{}
	for _, r := range o.Results {
		out[r.Change.Key.Name] = r.Status
	}
	return out
}

func one(w *fakeTarget) map[string]targets.Target { return map[string]targets.Target{w.name: w} }
