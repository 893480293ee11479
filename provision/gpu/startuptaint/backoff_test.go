package startuptaint_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

func TestAPoolIsHeldLongerEachTimeItFailsAgain(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(start)
	book := startuptaint.NewFailureBackoff(clock)
	for i, want := range []time.Duration{0, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 2 * time.Hour, 2 * time.Hour} {
		failures, until := book.Failed("gpu", "NoDriver: no driver")
		if failures != i+1 {
			t.Errorf("failure %d counts as %d", i+1, failures)
		}
		if want == 0 {
			if _, held := book.Active("gpu"); held || !until.IsZero() {
				t.Errorf("the first failure holds until %s", until)
			}
			continue
		}
		if got := until.Sub(clock.Now()); got != want {
			t.Errorf("failure %d holds for %s, want %s", i+1, got, want)
		}
		clock.SetTime(until.Add(-time.Nanosecond))
		if at, held := book.Active("gpu"); !held || !at.Equal(until) {
			t.Errorf("failure %d: held is %t until %s just before its end", i+1, held, at)
		}
		clock.SetTime(until)
		if _, held := book.Active("gpu"); held {
			t.Errorf("failure %d: held at its end", i+1)
		}
	}
	if failures, _, last := book.State("gpu"); failures != 8 || last != "NoDriver: no driver" {
		t.Errorf("%d failures, %q", failures, last)
	}
	if _, held := book.Active("another"); held {
		t.Error("another pool is held")
	}
}

func TestABatchOfFailuresIsOneLesson(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	book := startuptaint.NewFailureBackoff(clock)
	var failures int
	var until time.Time
	for range 10 {
		failures, until = book.Failed("gpu", "no driver")
		clock.Step(time.Second)
	}
	// The second of them began the hold, one second after the first.
	if want := clock.Now().Add(-9*time.Second + 5*time.Minute); failures != 10 || !until.Equal(want) {
		t.Errorf("ten at once: %d failures, held until %s, want %s", failures, until, want)
	}
	clock.SetTime(until)
	if failures, again := book.Failed("gpu", "no driver"); failures != 11 || again.Sub(until) != 10*time.Minute {
		t.Errorf("the next after the hold: %d failures, held for %s", failures, again.Sub(until))
	}
}

func TestANodeThatAdvertisesItsGPUsEndsTheRowAndTheHold(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	book := startuptaint.NewFailureBackoff(clock)
	for _, pool := range []string{"b", "a", "b"} {
		book.Failed(pool, "no driver")
	}
	if diff := cmp.Diff([]string{"a", "b"}, book.Pools()); diff != "" {
		t.Error(diff)
	}
	if _, held := book.Active("b"); !held {
		t.Fatal("not held after two failures")
	}
	book.Reset("b")
	if _, held := book.Active("b"); held {
		t.Error("still held")
	}
	if failures, until, last := book.State("b"); failures != 0 || !until.IsZero() || last != "" {
		t.Errorf("the row goes on with %d, %s, %q", failures, until, last)
	}
	if diff := cmp.Diff([]string{"a"}, book.Pools()); diff != "" {
		t.Error(diff)
	}
	if failures, until := book.Failed("b", "no driver"); failures != 1 || !until.IsZero() {
		t.Errorf("the first of the next row is number %d and holds until %s", failures, until)
	}
}

func TestAnotherProcessGoesOnWithTheRow(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(now)
	for name, c := range map[string]struct {
		failures int
		until    time.Time
		held     bool
		next     time.Duration
	}{
		"after one failure, the next begins a hold":             {1, time.Time{}, false, 5 * time.Minute},
		"a hold goes on, and a failure in it adds nothing":      {3, now.Add(time.Minute), true, time.Minute},
		"a hold that is over is followed by a longer one":       {3, now.Add(-time.Minute), false, 20 * time.Minute},
		"a time that no hold can reach is cut":                  {3, now.Add(1000 * time.Hour), true, 2 * time.Hour},
		"a number of failures beyond reason is the longest one": {1 << 40, now, false, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			book := startuptaint.NewFailureBackoff(clock)
			book.Restore([]gpu.PoolState{{Pool: "gpu", Failures: c.failures, BackoffUntil: c.until, LastFailure: "before"}})
			if _, held := book.Active("gpu"); held != c.held {
				t.Errorf("held is %t", held)
			}
			if failures, _, last := book.State("gpu"); failures != c.failures || last != "before" {
				t.Errorf("took over %d, %q", failures, last)
			}
			if failures, until := book.Failed("gpu", "now"); failures != c.failures+1 || until.Sub(now) != c.next {
				t.Errorf("the next failure is number %d and holds for %s, want %s", failures, until.Sub(now), c.next)
			}
		})
	}
}

// Whoever led last knows better than this process.
func TestWhatIsRestoredReplacesWhatWasBefore(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	until := now.Add(10 * time.Minute)
	for name, c := range map[string]struct {
		reported []gpu.PoolState
		failures int
		until    time.Time
	}{
		"a row that grew":           {[]gpu.PoolState{{Pool: "gpu", Failures: 3, BackoffUntil: until}}, 3, until},
		"a row that was ended":      {[]gpu.PoolState{{Pool: "other", Failures: 1}}, 0, time.Time{}},
		"a pool without failures":   {[]gpu.PoolState{{Pool: "gpu", BackoffUntil: until}}, 0, time.Time{}},
		"nothing is to be recorded": {nil, 0, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			book := startuptaint.NewFailureBackoff(clocktesting.NewFakeClock(now))
			book.Restore([]gpu.PoolState{{Pool: "gpu", Failures: 2, BackoffUntil: now.Add(time.Minute)}})
			book.Restore(c.reported)
			if failures, until, _ := book.State("gpu"); failures != c.failures || !until.Equal(c.until) {
				t.Errorf("%d failures, held until %s", failures, until)
			}
			if _, held := book.Active("gpu"); held != (c.failures > 0) {
				t.Errorf("held is %t", held)
			}
		})
	}
}

func TestTheBookMayBeUsedFromManyGoroutines(t *testing.T) {
	book := startuptaint.NewFailureBackoff(clocktesting.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			book.Failed("gpu", "no driver")
			book.Active("gpu")
			book.Pools()
		})
	}
	all.Wait()
	if failures, _, _ := book.State("gpu"); failures != 50 {
		t.Errorf("counted %d of 50", failures)
	}
}
