package reconciler_test

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// A decoder that panics on hostile content fails for its own Sync, and holds nothing that the
// others need.
func TestALoaderThatPanicsIsAnErrorOfItsOwnLoop(t *testing.T) {
	d, panics := &decoding{maps: 16000}, true
	load := func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		if panics {
			panic("a decoder's fault in " + s.Revision)
		}
		return d.load(ctx, s)
	}
	cache := reconciler.NewRevisionCache(1<<20, 1<<20)
	start := func() *reconciler.Loop {
		return reconciler.NewLoop(&source{revision: "r1"}, load, reconciler.NamedTarget{Name: "memory", Target: &fakeTarget{objects: map[string]string{}}}).WithRevisionCache(cache)
	}
	failed := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*apply.PanicError](err); !ok {
			t.Fatalf("got %v", err)
		}
	}
	for range 5 { // More than are loaded at once.
		_, err := start().RunOnce(t.Context(), reconciler.Options{})
		failed(err)
	}
	panics = false
	loop := start()
	if _, err := loop.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	panics = true
	for range 5 { // It is not kept, and each takes all the memory that there is for those.
		failed(loop.Load(t.Context(), false))
	}
	panics = false
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
}

// A revision that another one follows before it was compared with the targets takes no room of
// others, not even until the collector has found it.
func TestARevisionThatWasNeverPlannedLeavesTheCacheAtOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const maps, itemBytes = 1000, 2 << 10
	one, err := (&decoding{maps: maps}).load(t.Context(), gitsource.Snapshot{Revision: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	size := itemBytes + manifest.DecodedValue(one.Set.Items()[0].Object)
	cache := reconciler.NewRevisionCache(8*size+size/2, math.MaxInt64)
	f, other := newLoops(6, maps, cache, &crowd{}), newLoops(1, maps, cache, &crowd{})
	f.run(t, "r1")
	for _, f.sources[0].revision = range []string{"r2", "r3"} {
		if _, err := f.all[0].Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if other.run(t, "r1"); other.loaders[0].loads != 1 {
		t.Errorf("the revision of another Loop was loaded %d times: there was no room for it", other.loaders[0].loads)
	}
}
