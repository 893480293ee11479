package limits

import "time"

// The bounds of waiting after failures: exponential from the first to the last.
const (
	// FirstPause follows the first failure.
	FirstPause = 5 * time.Second
	// LastPause is the longest.
	LastPause = 5 * time.Minute
	// maxRateLimit is how long a forge's response that its rate limit is used up counts.
	maxRateLimit = time.Hour
)

// Backoff counts failures in a row. The zero value is none.
type Backoff struct {
	// Failures is how many there were in a row, Until the end of the pause after them.
	Failures int
	Until    time.Time
}

// Failed counts one more failure. A known moment to come back, until, overrules the
// exponential pause.
func (b *Backoff) Failed(now, until time.Time) {
	pause := min(FirstPause<<min(b.Failures, 10), LastPause)
	b.Failures++
	b.Until = now.Add(pause)
	if until.After(now) {
		b.Until = until
		if late := now.Add(maxRateLimit); until.After(late) {
			b.Until = late
		}
	}
}
