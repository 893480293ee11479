package preview

import (
	"context"
	"sync"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Cached is a target that is used for many merges from one base: what was observed of the
// same desired state no longer ago than maxAge is not observed again. A hundred pull
// requests into one branch have one base, and most have the same desired state in AWS. at
// learns how old what is returned is.
func Cached(target targets.Target, maxAge time.Duration, at *ObservedAt, now func() time.Time) targets.Target {
	return &cachedTarget{Target: target, maxAge: maxAge, observedAt: at, now: now}
}

type cachedTarget struct {
	targets.Target
	maxAge     time.Duration
	observedAt *ObservedAt
	now        func() time.Time

	mu           sync.Mutex
	observations map[string]observation
}

// maxObservations is how many of these are cached: that of the base, and of what the
// last heads declare.
const maxObservations = 8

type observation struct {
	at  time.Time
	set state.Set
}

// Observe implements targets.Target.
func (c *cachedTarget) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	key, now := state.Hash(desired.Items()), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.observations[key]; ok && now.Sub(found.at) < c.maxAge {
		c.observedAt.Add(found.at)
		return found.set, nil
	}
	set, err := c.Target.Observe(ctx, desired)
	if err != nil {
		return set, err
	}
	fresh := map[string]observation{key: {now, set}}
	for k, old := range c.observations {
		if now.Sub(old.at) < c.maxAge {
			fresh[k] = old
		}
	}
	for len(fresh) > maxObservations {
		oldest := ""
		for k, old := range fresh {
			if oldest == "" || old.at.Before(fresh[oldest].at) {
				oldest = k
			}
		}
		delete(fresh, oldest)
	}
	c.observations = fresh
	return set, nil
}
