package drift

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// An object that has been corrected three times within a minute is not corrected
// for a minute, then for twice as long each time, up to half an hour; an hour without a
// correction starts over.
const (
	flapLimit  = 3
	flapWindow = time.Minute
	flapMin    = time.Minute
	flapMax    = 30 * time.Minute
	flapReset  = time.Hour
)

// flaps counts how often the same object is corrected, so that two managers that set
// different values do not write as fast as they can.
type flaps struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	of    map[state.Key]*flap
	// swept is when those that start over were last removed.
	swept time.Time
}

type flap struct {
	times   []time.Time
	until   time.Time
	backoff time.Duration
}

func newFlaps(c clock.PassiveClock) *flaps {
	return &flaps{clock: c, of: map[state.Key]*flap{}, swept: c.Now()}
}

// Allow returns an error while an object is not corrected. Only drift counts: a
// new revision is always applied.
func (f *flaps) Allow(c plan.Change, rivals []string) error {
	if !c.Drift {
		return nil
	}
	left := f.remaining(c.Key)
	if left <= 0 {
		return nil
	}
	if c.Action == plan.Create {
		return state.WaitFor(left, "Flapping", fmt.Errorf(
			"it is deleted again as soon as %q has created it; not corrected for %s: find out who deletes it, or take it out of the repository",
			v1alpha1.FieldManager, left.Round(time.Second)))
	}
	rivals = slices.Compact(slices.Sorted(slices.Values(rivals)))
	by := "another manager"
	if len(rivals) > 0 {
		by = `"` + strings.Join(rivals, `", "`) + `"`
	}
	var paths []string
	for _, field := range c.Fields {
		paths = append(paths, field.Path)
	}
	return state.WaitFor(left, "Flapping", fmt.Errorf(
		"%q and %s keep overwriting each other at %s; not corrected for %s: take the field out of one of the two",
		v1alpha1.FieldManager, by, strings.Join(paths[:min(len(paths), 3)], ", "), left.Round(time.Second)))
}

// remaining is how long the object is still left alone.
func (f *flaps) remaining(k state.Key) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.of[k]; one != nil {
		return one.until.Sub(f.clock.Now())
	}
	return 0
}

// Corrected counts one more time that an object was put back.
func (f *flaps) Corrected(c plan.Change) {
	if !c.Drift {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	f.sweep(now)
	one := f.of[c.Key]
	if one == nil {
		one = &flap{}
		f.of[c.Key] = one
	}
	if now.Sub(one.until) > flapReset {
		one.backoff = 0
	}
	one.times = append(slices.DeleteFunc(one.times, func(t time.Time) bool { return now.Sub(t) > flapWindow }), now)
	if len(one.times) < flapLimit && one.backoff == 0 {
		return
	}
	one.backoff = min(max(2*one.backoff, flapMin), flapMax)
	one.until, one.times = now.Add(one.backoff), nil
}

// sweep removes, once in flapReset, the objects that start over, so that the map holds no more
// than were put back within two of them.
func (f *flaps) sweep(now time.Time) {
	if now.Sub(f.swept) < flapReset {
		return
	}
	f.swept = now
	maps.DeleteFunc(f.of, func(_ state.Key, one *flap) bool {
		return now.Sub(one.until) > flapReset && !slices.ContainsFunc(one.times, func(t time.Time) bool { return now.Sub(t) <= flapWindow })
	})
}
