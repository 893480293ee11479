// Package attack searches for repositories and pull requests that are within the documented limits
// and cost the most memory and time: of the process that renders them, and of the controller that
// takes their results. Each trial is run by the real code, in processes of its own.
//
// It refuses to decide by texts: what must hold is data (Budgets),
// and what breaks it shrinks to the smallest derivation. Start reading at Search.Run.
package attack

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/attack/grammar"
)

// Search is for trials that cost the most.
type Search struct {
	// Seed decides what is derived and how that is mutated.
	Seed uint64
	// Trials is how many are measured, and Shrinking how many more for each violation.
	Trials, Shrinking int
	// Start are derivations to begin with, in the place of new ones.
	Start []grammar.Derivation
	// Make completes a trial, as by other limits; nil for those of the product.
	Make func(c Trial) Trial
	// Budgets are those of a trial; nil for Default.
	Budgets func(c Trial) Budgets
	// Measure runs a trial, as Process.Measure does.
	Measure func(ctx context.Context, c Trial) (Measure, error)
	// Progress is called after each trial; nil for nobody.
	Progress func(Case)
}

// Case is a trial with what it came to.
type Case struct {
	Trial      Trial       `json:"trial"`
	Measure    Measure     `json:"measure"`
	Violations []Violation `json:"violations,omitempty"`
}

// Result is what a search found.
type Result struct {
	// Measured is how many trials were, those of shrinking included.
	Measured int
	// MostExpensive is the case that costs the most, by objective.
	MostExpensive map[string]Case
	// Violations are the shrunk cases, one for each violation.
	Violations map[Violation]Case
}

// objectives are what a trial may cost the most of. Times are processor time, which a busy
// machine does not change much.
var objectives = []struct {
	name string
	of   func(m Measure) int64
}{
	{"memory of the child", func(m Measure) int64 { return m.Child.Memory }},
	{"time of the child", func(m Measure) int64 { return int64(m.Child.CPU) }},
	{"bytes of the result", func(m Measure) int64 { return m.Output }},
	{"memory of the result", func(m Measure) int64 { return m.Decoded }},
	{"memory of the parent", func(m Measure) int64 { return m.Parent.Memory }},
	{"time of the parent", func(m Measure) int64 { return int64(m.Parent.CPU) }},
}

// coarse is a measure in steps of a quarter of an octave: two runs of one trial seldom differ
// in it, so that a seed leads the same way again.
func coarse(n int64) int64 {
	if n < 4 {
		return max(n, 0)
	}
	exponent := bits.Len64(uint64(n)) - 3
	return int64(exponent)<<2 + n>>exponent&3 + 4
}

// kept is how many of the most expensive of each objective are mutated.
const kept = 4

// initialTrials is how many trials are derived anew before any is mutated, and of how many later
// ones one is.
const initialTrials = 12

// Run searches. An error is of the machinery.
func (s Search) Run(ctx context.Context) (Result, error) {
	random := rand.New(rand.NewPCG(s.Seed, 0)) //nolint:gosec // A seed must lead the same way again.
	out := Result{MostExpensive: map[string]Case{}, Violations: map[Violation]Case{}}
	best := make([][]Case, len(objectives))
	for i := range s.Trials {
		c := s.complete(s.propose(random, best, i))
		found, err := s.measure(ctx, c)
		if err != nil {
			return out, fmt.Errorf("trial %d of seed %d: %w", i, s.Seed, err)
		}
		out.Measured++
		for o, objective := range objectives {
			best[o] = keep(best[o], found, func(m Measure) int64 { return coarse(objective.of(m)) })
			out.MostExpensive[objective.name] = best[o][0]
		}
		if err := s.shrinkAll(ctx, found, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// propose is the next trial: new, or one of the most expensive, mutated.
func (s Search) propose(random *rand.Rand, best [][]Case, i int) Trial {
	followed := random.IntN(3) == 0
	if i < len(s.Start) {
		return Trial{Repository: s.Start[i], Followed: followed}
	}
	if len(s.Start) == 0 && i < initialTrials || random.IntN(initialTrials) == 0 {
		return Trial{Repository: grammar.New(random), Followed: followed}
	}
	pick := func() Trial {
		of := best[random.IntN(len(best))]
		return of[random.IntN(len(of))].Trial
	}
	from, other := pick(), pick()
	next := grammar.Mutate(random, from.Repository, other.Repository)
	for range random.IntN(3) {
		next = grammar.Mutate(random, next, other.Repository)
	}
	return Trial{Repository: next, Followed: from.Followed}
}

func (s Search) complete(c Trial) Trial {
	if s.Make != nil {
		return s.Make(c)
	}
	return c
}

// keep is the list with a case, the most expensive first, without the cheapest beyond so many.
func keep(list []Case, c Case, of func(Measure) int64) []Case {
	at := slices.IndexFunc(list, func(o Case) bool { return of(c.Measure) > of(o.Measure) })
	if at < 0 {
		at = len(list)
	}
	list = slices.Insert(slices.Clone(list), at, c)
	return list[:min(len(list), kept)]
}

func (s Search) measure(ctx context.Context, c Trial) (Case, error) {
	m, err := s.Measure(ctx, c)
	if err != nil {
		return Case{}, err
	}
	budgets := Default
	if s.Budgets != nil {
		budgets = s.Budgets
	}
	out := Case{Trial: c, Measure: m, Violations: m.Violations(budgets(c))}
	if s.Progress != nil {
		s.Progress(out)
	}
	return out, nil
}

// shrinkAll shrinks a case for each violation that was not found before.
func (s Search) shrinkAll(ctx context.Context, c Case, out *Result) error {
	for _, v := range c.Violations {
		if _, known := out.Violations[v]; known {
			continue
		}
		small, n, err := s.shrink(ctx, c, v)
		if err != nil {
			return err
		}
		out.Measured += n
		out.Violations[v] = small
	}
	return nil
}

// shrink takes steps to smaller derivations for as long as they break the same promise.
func (s Search) shrink(ctx context.Context, c Case, v Violation) (small Case, measured int, err error) {
	for again := true; again; {
		again = false
		for _, smaller := range grammar.Smaller(c.Trial.Repository) {
			if measured >= s.Shrinking {
				return c, measured, nil
			}
			next := c.Trial
			next.Repository = smaller
			found, err := s.measure(ctx, next)
			if err != nil {
				return c, measured, err
			}
			if measured++; slices.Contains(found.Violations, v) {
				c, again = found, true
				break
			}
		}
	}
	return c, measured, nil
}
