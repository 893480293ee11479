package reconciler_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// decoding is a Loader of one object with a list of so many maps, which are made anew by
// each load.
type decoding struct {
	maps  int
	mu    sync.Mutex
	loads int
}

func (d *decoding) load(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
	d.mu.Lock()
	d.loads++
	d.mu.Unlock()
	list := make([]any, d.maps)
	for i := range list {
		list[i] = map[string]any{"a": int64(1)}
	}
	it := item("a", s.Revision)
	it.Object["spec"] = list
	return declared.Declared{Set: state.NewSet(it)}, nil
}

// tracked is a target that counts who is in its Observe at once.
type tracked struct {
	fakeTarget
	crowd *crowd
	trims int
}

func (w *tracked) Trim() { w.trims++ }

func (w *tracked) Apply(ctx context.Context, c plan.Change) error {
	if w.crowd.correcting != nil {
		w.crowd.correcting()
	}
	return w.fakeTarget.Apply(ctx, c)
}

type crowd struct {
	mu        sync.Mutex
	now, most int
	// inside is called by each, outside of the lock; may be nil.
	inside func()
	// correcting is called before each correction; may be nil.
	correcting func()
}

func (w *tracked) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	w.crowd.mu.Lock()
	w.crowd.now++
	w.crowd.most = max(w.crowd.most, w.crowd.now)
	w.crowd.mu.Unlock()
	if w.crowd.inside != nil {
		w.crowd.inside()
	}
	defer func() {
		w.crowd.mu.Lock()
		defer w.crowd.mu.Unlock()
		w.crowd.now--
	}()
	return w.fakeTarget.Observe(ctx, desired)
}

// loops are Loops of the same size.
type loops struct {
	all     []*reconciler.Loop
	targets []*tracked
	sources []*source
	loaders []*decoding
}

func newLoops(n, maps int, cache *reconciler.RevisionCache, c *crowd) *loops {
	f := &loops{}
	for range n {
		w, s, d := &tracked{fakeTarget: fakeTarget{objects: map[string]string{}}, crowd: c}, &source{revision: "r1"}, &decoding{maps: maps}
		f.targets, f.sources, f.loaders = append(f.targets, w), append(f.sources, s), append(f.loaders, d)
		f.all = append(f.all, reconciler.NewLoop(s, d.load, reconciler.NamedTarget{Name: "memory", Target: w}).WithRevisionCache(cache))
	}
	return f
}

// run runs all Loops at once, and fails where one does not lead its target to want.
func (f *loops) run(t *testing.T, want string) {
	t.Helper()
	var all sync.WaitGroup
	for i, loop := range f.all {
		all.Go(func() {
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
				t.Errorf("Loop %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for i, w := range f.targets {
		if w.objects["a"] != want {
			t.Errorf("world %d holds %q", i, w.objects["a"])
		}
	}
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func unbounded() *reconciler.RevisionCache {
	return reconciler.NewRevisionCache(math.MaxInt64, math.MaxInt64)
}

func TestLargeRevisionsOfManyLoopsStayWithinOneCache(t *testing.T) {
	const capacity = 16 << 20
	for name, c := range map[string]struct {
		loops, maps int
		cache       *reconciler.RevisionCache
		beyond      bool
	}{
		"ten that are too large to be kept":       {loops: 10, maps: 16000, cache: reconciler.NewRevisionCache(capacity, 8<<20)},
		"thirty of which some can be kept":        {loops: 30, maps: 3500, cache: reconciler.NewRevisionCache(capacity, 8<<20)},
		"without a bound ten take more than that": {loops: 10, maps: 16000, cache: unbounded(), beyond: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := live()
			f := newLoops(c.loops, c.maps, c.cache, &crowd{})
			f.run(t, "r1")
			grew := live() - before
			t.Logf("%d Loops hold %d KiB", c.loops, grew>>10)
			if (grew > capacity) != c.beyond {
				t.Errorf("the heap grew by %d MiB", grew>>20)
			}
			for _, s := range f.sources {
				s.revision = "r2"
			}
			f.run(t, "r2")
			for i, w := range f.targets {
				w.objects["a"] = "by hand"
				if _, err := f.all[i].CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil || w.objects["a"] != "r2" {
					t.Errorf("world %d holds %q: %v", i, w.objects["a"], err)
				}
			}
			if grew := live() - before; (grew > capacity) != c.beyond {
				t.Errorf("after corrections the heap grew by %d MiB", grew>>20)
			}
			runtime.KeepAlive(f)
		})
	}
}

func TestRunsOfUncachedRevisionsStayWithinTheirBound(t *testing.T) {
	// Each of them alone takes more than all may.
	bounded := &crowd{}
	newLoops(6, 16000, reconciler.NewRevisionCache(1<<20, 1<<20), bounded).run(t, "r1")
	if bounded.most != 1 {
		t.Errorf("%d runs held a large revision at once", bounded.most)
	}
	// The control: unbounded ones do not wait for each other.
	var both sync.WaitGroup
	both.Add(2)
	free := &crowd{inside: func() { both.Done(); both.Wait() }}
	newLoops(2, 16000, unbounded(), free).run(t, "r1")
	if free.most != 2 {
		t.Errorf("%d unbounded runs worked at once", free.most)
	}
}

func TestASmallRevisionIsNeverEvictedForLargeOnes(t *testing.T) {
	cache := reconciler.NewRevisionCache(16<<20, 8<<20)
	small, large := newLoops(1, 10, cache, &crowd{}), newLoops(20, 4000, cache, &crowd{})
	for range 3 {
		small.run(t, "r1")
		large.run(t, "r1")
		if _, err := small.all[0].CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	again := 0
	for i, d := range large.loaders {
		again += d.loads - 1
		if d.loads > 1 && large.targets[i].trims == 0 {
			t.Error("a revision was evicted, and its files were not dropped")
		}
	}
	if small.loaders[0].loads != 1 || small.targets[0].trims != 0 || again == 0 {
		t.Errorf("the small revision was loaded %d times, and the large ones %d times again", small.loaders[0].loads, again)
	}
}

// The active revision is in no cache: what others put there cannot take it, nor what its
// target remembers of it, away from a run.
func TestARunKeepsItsRevisionWhateverOthersLoad(t *testing.T) {
	cache := reconciler.NewRevisionCache(16<<20, 8<<20)
	var others *loops
	one := newLoops(1, 3500, cache, &crowd{})
	one.run(t, "r1")
	one.targets[0].trims = 0
	one.targets[0].objects["a"] = "by hand"
	one.targets[0].crowd.correcting = func() {
		others = newLoops(40, 3000, cache, &crowd{})
		others.run(t, "r1")
		if one.targets[0].trims != 0 {
			t.Error("what the run under way needs was dropped")
		}
	}
	one.run(t, "r1")
	one.targets[0].crowd.correcting = nil
	if others == nil {
		t.Fatal("nothing was corrected")
	}
	if one.targets[0].trims != 1 || one.loaders[0].loads != 1 {
		t.Errorf("after the run the cache had no room, and its world was trimmed %d times", one.targets[0].trims)
	}
	one.run(t, "r1")
	if one.loaders[0].loads != 2 {
		t.Errorf("a revision that is not kept was loaded %d times", one.loaders[0].loads)
	}
	runtime.KeepAlive(others)
}

func TestWhatIsLoadedAgainIsWhatWasPlanned(t *testing.T) {
	w, v, s := &fakeTarget{objects: map[string]string{}}, &variable{value: "1"}, &source{revision: "r1"}
	loop := reconciler.NewLoop(s, nil, reconciler.NamedTarget{Name: "memory", Target: w}).WithRevisionCache(reconciler.NewRevisionCache(0, 1)).WithInputs(
		func(context.Context) (string, reconciler.Loader, error) {
			then := &variable{value: v.value}
			return v.value, then.load, nil
		})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	v.value, s.revision = "2", "r2"
	if found, err := loop.Fetch(t.Context()); err != nil || !found.Changed {
		t.Fatal(found.Changed, err)
	}
	for _, step := range []struct {
		do   func() (reconciler.Result, error)
		want string
	}{
		{func() (reconciler.Result, error) {
			return loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{})
		}, "r1 with 1"},
		{func() (reconciler.Result, error) { return loop.RunOnce(t.Context(), reconciler.Options{}) }, "r2 with 2"},
	} {
		w.objects["a"] = "by hand"
		if _, err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": step.want}, w.objects); diff != "" {
			t.Error(diff)
		}
	}
}

// A revision that could not be planned leaves the one before it in force, though the targets
// were asked about both.
func TestTheRevisionBeforeIsCorrectedAfterANewOneCouldNotBePlanned(t *testing.T) {
	for name, capacity := range map[string]int64{"kept between runs": 1 << 30, "loaded again": 0} {
		t.Run(name, func(t *testing.T) {
			var active string
			w, s := &tracked{fakeTarget: fakeTarget{objects: map[string]string{}}, crowd: &crowd{}}, &source{revision: "r1"}
			load := func(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
				d := things("a", s.Revision)
				d.BeforeDesired = func() { active = s.Revision }
				return d, nil
			}
			loop := reconciler.NewLoop(s, load, reconciler.NamedTarget{Name: "memory", Target: w}).WithRevisionCache(reconciler.NewRevisionCache(capacity, 1))
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil || active != "r1" {
				t.Fatal(active, err)
			}
			s.revision, w.observe = "r2", errors.New("down")
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err == nil || active != "r2" {
				t.Fatal(active, err)
			}
			w.observe, w.objects["a"] = nil, "by hand"
			if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil || active != "r1" || w.objects["a"] != "r1" {
				t.Errorf("active is %q, the world holds %q: %v", active, w.objects["a"], err)
			}
		})
	}
}

func TestWhoWaitsForMemoryCanBeInterruptedAndHoldsNone(t *testing.T) {
	f := newLoops(3, 10, reconciler.NewRevisionCache(0, 1), &crowd{})
	for _, loop := range f.all {
		if _, err := loop.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.all[0].Load(t.Context(), false); err != nil || !f.all[0].Loaded(false) || f.all[1].Loaded(false) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := f.all[1].Load(ctx, false)
	if class, _, _ := state.Classify(err); !errors.Is(err, context.Canceled) || class != state.Retry {
		t.Errorf("%s: %v", class, err)
	}
	waited := make(chan error, 1)
	go func() { waited <- f.all[2].Load(t.Context(), false) }()
	f.all[0].Unload()
	if err := <-waited; err != nil || f.all[0].Loaded(false) {
		t.Error("the memory was not given back", err)
	}
	f.all[2].Unload()
	f.run(t, "r1")
}

// What a Loop holds of the memory for large revisions is not what it waits for.
func TestALoopThatLoadsAnotherRevisionGivesUpTheOneItHas(t *testing.T) {
	f := newLoops(1, 10, reconciler.NewRevisionCache(0, 1), &crowd{})
	f.run(t, "r1")
	f.sources[0].revision = "r2"
	if found, err := f.all[0].Fetch(t.Context()); err != nil || !found.Changed {
		t.Fatal(found.Changed, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, planned := range []bool{true, false, true} {
		if err := f.all[0].Load(ctx, planned); err != nil || !f.all[0].Loaded(planned) {
			t.Fatalf("planned %v: %v", planned, err)
		}
	}
	f.all[0].Unload()
	f.run(t, "r2")
}
