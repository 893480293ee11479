package hold_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/gpu/hold"
)

func TestAPoolIsHeldLongerEachTimeItFailsAgain(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(start)
	book := hold.NewBook(clock)
	for i, want := range []time.Duration{0, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 2 * time.Hour, 2 * time.Hour} {
		failures, until := book.Failed("gpu", "NoDriver: no driver")
		if failures != i+1 {
			t.Errorf("failure %d counts as %d", i+1, failures)
		}
		if want == 0 {
			if _, held := book.Held("gpu"); held || !until.IsZero() {
				t.Errorf("the first failure holds until %s", until)
			}
			continue
		}
		if got := until.Sub(clock.Now()); got != want {
			t.Errorf("failure %d holds for %s, want %s", i+1, got, want)
		}
		clock.SetTime(until.Add(-time.Nanosecond))
		if at, held := book.Held("gpu"); !held || !at.Equal(until) {
			t.Errorf("failure %d: held is %t until %s just before its end", i+1, held, at)
		}
		clock.SetTime(until)
		if _, held := book.Held("gpu"); held {
			t.Errorf("failure %d: held at its end", i+1)
		}
	}
	if failures, _, last := book.State("gpu"); failures != 8 || last != "NoDriver: no driver" {
		t.Errorf("%d failures, %q", failures, last)
	}
	if _, held := book.Held("another"); held {
		t.Error("another pool is held")
	}
}
