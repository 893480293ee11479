// Package backoff has how long a NodePool is backed off whose nodes fail again and again. What a failure is, and what
// the back-off keeps from happening, is up to its callers. Start reading at After.
package backoff

import "time"

const (
	// Initial is the length of the first back-off; each later one is twice as long.
	Initial = 5 * time.Minute
	// Max bounds it.
	Max = 2 * time.Hour
)

// After is the length of a back-off that follows that many others.
func After(others int) time.Duration {
	length := Initial
	for range others {
		if length *= 2; length >= Max {
			return Max
		}
	}
	return length
}
