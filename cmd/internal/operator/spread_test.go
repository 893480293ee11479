package operator

import (
	"testing"
	"time"
)

func TestIntervalsSpreadByATenthAtMost(t *testing.T) {
	different := map[time.Duration]bool{}
	for range 100 {
		got := spread(time.Minute)
		if got < 54*time.Second || got > 66*time.Second {
			t.Fatalf("spread to %s", got)
		}
		different[got] = true
	}
	if len(different) < 2 {
		t.Error("all intervals are the same")
	}
}
