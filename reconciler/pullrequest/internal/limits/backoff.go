package limits

import "time"

// The bounds of waiting after failures: exponential from the first to the last.
const (
	// MinBackoff follows the first failure.
	MinBackoff = 5 * time.Second
	// MaxBackoff is the longest.
	MaxBackoff = 5 * time.Minute
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
	pause := min(MinBackoff<<min(b.Failures, 10), MaxBackoff)
	b.Failures++
	b.Until = now.Add(pause)
	if until.After(now) {
		b.Until = until
		if late := now.Add(maxRateLimit); until.After(late) {
			b.Until = late
		}
	}
}
