package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/fluxcd/pkg/runtime/jitter"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// spread is by how much the time between two polls may differ from Config.Poll, as a part of it,
// so that many controllers do not send requests to AWS in the same second.
const spread = 0.1

// Watch reads AWS again and again until ctx ends, and reports the keys of the things that are not
// as declared; those that are read-only, and those of which nothing is known, when they have
// become so, differ in another way, or are not so any more. A key means "read it". Nothing is
// read while nothing is declared, or while changes are being made. drifted is called from one
// goroutine.
func (w *Target) Watch(ctx context.Context, drifted func([]state.Key)) error {
	for vary := jitter.Percent(spread, nil); sleep(ctx, w.cfg.Clock, vary(w.cfg.Poll)); {
		if keys := w.poll(ctx); len(keys) > 0 && ctx.Err() == nil {
			drifted(keys)
		}
	}
	return nil
}

// poll is one read; two never overlap.
func (w *Target) poll(ctx context.Context) []state.Key {
	w.polling.Lock()
	defer w.polling.Unlock()
	w.mu.Lock()
	m, applying := w.lastValid, w.previousRead.applying
	w.mu.Unlock()
	if m.items.Len() == 0 || applying {
		return nil
	}
	o := w.observation(m, m.items)
	found, err := o.run(ctx)
	if err != nil {
		return nil // ctx has ended.
	}
	p := plan.Compute(m.items, found)
	reported := p
	reported.Unknown = append(slices.Clip(p.Unknown), unreadQuotas(found)...)
	w.status.observed(o.desired, reported, o.live, false)
	w.reportStatus()
	return w.changed(p)
}

// changed are the keys of what can be corrected, and of what has changed since the
// last read among the rest.
func (w *Target) changed(p plan.Plan) []state.Key {
	now := statesOf(p)
	w.mu.Lock()
	before := w.previousRead.states
	w.previousRead.states = now
	w.mu.Unlock()
	report := map[state.Key]bool{}
	for k, is := range now {
		report[k] = before[k] != is
	}
	for k := range before {
		report[k] = report[k] || now[k] == ""
	}
	for _, c := range p.Changes {
		report[c.Key] = report[c.Key] || !c.ReadOnly()
	}
	maps.DeleteFunc(report, func(_ state.Key, is bool) bool { return !is })
	return slices.SortedFunc(maps.Keys(report), state.Key.Compare)
}

// statesOf are the states that no correction ends: the unknown, and how a thing
// differs that is only ever compared. Cluster objects are left out, which Watch
// does not read.
func statesOf(p plan.Plan) map[state.Key]string {
	out := map[state.Key]string{}
	for _, u := range p.Unknown {
		if u.Key != clusterKey(u.Key.Name) {
			out[u.Key] = "unknown"
		}
	}
	for _, c := range p.Changes {
		if c.ReadOnly() {
			out[c.Key] = string(c.Action) + state.Hash(c.Fields)
		}
	}
	return out
}
