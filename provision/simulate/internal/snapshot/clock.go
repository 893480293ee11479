package snapshot

import (
	"time"

	"k8s.io/utils/clock"
)

// FixedClock is a clock that stands still.
type FixedClock struct {
	clock.RealClock
	// At is what it reads.
	At time.Time
}

// Now is At.
func (c FixedClock) Now() time.Time { return c.At }

// Since counts to At.
func (c FixedClock) Since(t time.Time) time.Duration { return c.At.Sub(t) }
