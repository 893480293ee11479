package backoff

import (
	"math"
	"testing"
	"time"
)

func TestABackOffDoublesUpToItsBound(t *testing.T) {
	for others, want := range map[int]time.Duration{
		0: 5 * time.Minute, 1: 10 * time.Minute, 2: 20 * time.Minute, 3: 40 * time.Minute, 4: 80 * time.Minute,
		5: 2 * time.Hour, 6: 2 * time.Hour, math.MaxInt32: 2 * time.Hour, -1: 5 * time.Minute,
	} {
		if got := After(others); got != want {
			t.Errorf("after %d others it is %s, not %s", others, got, want)
		}
	}
}
