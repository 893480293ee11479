package aws

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Watch looks at AWS again and again until ctx ends, and reports the keys of
// the things that are not as wanted; those that are only ever compared are left
// out. A key means "look at it". Nothing is asked while nothing is wanted, or
// while changes are being made. drifted is called from one goroutine.
func (w *World) Watch(ctx context.Context, drifted func([]state.Key)) error {
	for pause(ctx, w.cfg.Clock, jittered(w.cfg.Poll)) {
		if keys := w.poll(ctx); len(keys) > 0 && ctx.Err() == nil {
			drifted(keys)
		}
	}
	return nil
}

// jittered spreads the looks of many controllers by a tenth to either side.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// poll is one look; two never overlap.
func (w *World) poll(ctx context.Context) []state.Key {
	w.polling.Lock()
	defer w.polling.Unlock()
	w.mu.Lock()
	m, applying := w.seen, w.applying
	w.mu.Unlock()
	if m.wanted.Len() == 0 || applying {
		return nil
	}
	o := w.observation(m, m.wanted)
	found, err := o.run(ctx)
	if err != nil {
		return nil // ctx has ended.
	}
	p := plan.Compute(m.wanted, found)
	w.tale.observed(o.wish, p, o.sights, false)
	w.tell()
	var keys []state.Key
	for _, c := range p.Changes {
		if !c.Standing() {
			keys = append(keys, c.Key)
		}
	}
	return keys
}
