// Package limits bounds what pull requests cost, however many are opened, pushed to and by
// whom: which are planned, how much of the planner an author uses, how many passes over a
// repository run at a time, and how long a failure is waited for.
package limits

import "time"

const (
	// HalfLife is after which time half of what was used is dropped.
	HalfLife = 10 * time.Minute
	// FairShare is how much more an author may have used of the planner than another
	// before the other comes first whatever it is about.
	FairShare = 30 * time.Second
	// MaxAuthorUsage is what an author may have used before plans of theirs wait: with that
	// half-life a planner that never rests reaches a little more than 14 minutes.
	MaxAuthorUsage = 10 * time.Minute
	// MaxPullRequestUsage is the same for one pull request.
	MaxPullRequestUsage = 5 * time.Minute
)

// Usage is how long plans were worked on of late, of which half is dropped every
// [HalfLife]. The zero value is none.
type Usage struct {
	duration time.Duration
	at       time.Time
}

// Of is what is left of it.
func (u Usage) Of(now time.Time) time.Duration {
	took := u.duration
	for age := now.Sub(u.at); age >= HalfLife && took > 0; age -= HalfLife {
		took /= 2
	}
	return took
}

// Plus counts a plan.
func (u Usage) Plus(now time.Time, took time.Duration) Usage {
	return Usage{duration: u.Of(now) + took, at: now}
}

// ByAuthor is the usage of each author.
type ByAuthor map[string]Usage

// Of is what is left of an author's.
func (b ByAuthor) Of(author string, now time.Time) time.Duration { return b[author].Of(now) }

// Add counts a plan, and drops authors who have not used anything of late.
func (b ByAuthor) Add(author string, now time.Time, took time.Duration) {
	b[author] = b[author].Plus(now, took)
	for other := range b {
		if b.Of(other, now) < time.Second {
			delete(b, other)
		}
	}
}
