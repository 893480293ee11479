package benchmark

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Comparison is what several systems took in the same rounds, for one number of objects.
type Comparison struct {
	Objects int
	// Systems are their names in the order of the columns.
	Systems []string
	// Rounds are, by system, what each round measured.
	Rounds map[string][]Round
	// Bare is what a bare server-side apply of the same objects took in each round.
	Bare []time.Duration
	// Load is the load average of the machine at the beginning of each round.
	Load []float64
}

// newComparison is a comparison of systems without any round.
func newComparison(objects int, systems []System) *Comparison {
	c := &Comparison{Objects: objects, Rounds: map[string][]Round{}}
	for _, s := range systems {
		c.Systems = append(c.Systems, s.Name)
	}
	return c
}

// AddRound measures the systems of a comparison once, one after another. Each round begins with another
// system, so that none always has the warmer API server. Progress gets a line for each.
func (e *Environment) AddRound(ctx context.Context, c *Comparison, systems []System, progress io.Writer) error {
	before := load()
	r, _, err := e.NewRepository(ctx, c.Objects)
	if err != nil {
		return err
	}
	bare, err := e.ApplyBare(ctx, r)
	if err != nil {
		return err
	}
	n, rounds := len(c.Bare), map[string]Round{}
	for i := range systems {
		s := systems[(n+i)%len(systems)]
		round, err := e.Round(ctx, s, c.Objects)
		if err != nil {
			return err
		}
		rounds[s.Name] = round
		_, _ = fmt.Fprintf(progress, "%d objects, round %d, load %.1f, %s: processor time of the first apply %.2f s, no difference %.2f s, one change %.2f s; time %.2f s (bare %.2f s), %.2f s, %.2f s, edit %.3f s\n",
			c.Objects, n+1, before, s.Name, cpuSeconds(round[FirstApply]), cpuSeconds(round[NoChange]), cpuSeconds(round[OneChange]),
			seconds(round[FirstApply]), bare.Seconds(), seconds(round[NoChange]), seconds(round[OneChange]), seconds(round[LiveEdit]))
	}
	// A round counts once it is whole.
	for name, round := range rounds {
		c.Rounds[name] = append(c.Rounds[name], round)
	}
	c.Bare, c.Load = append(c.Bare, bare), append(c.Load, before)
	return nil
}

// load is the load average of the last minute, 0 where it cannot be read.
func load() float64 {
	average, err := Load()
	if err != nil {
		return 0
	}
	return average
}

// Load is the load average of the machine in the last minute.
func Load() (float64, error) {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("reading the load average: %w", err)
	}
	first, _, _ := strings.Cut(string(content), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the load average: %w", err)
	}
	return average, nil
}

func seconds(all []Usage) float64 {
	return NewStatistics(all, func(u Usage) float64 { return u.Wall.Seconds() }).Median
}

func cpuSeconds(all []Usage) float64 {
	return NewStatistics(all, func(u Usage) float64 { return u.CPU.Seconds() }).Median
}

// Statistics are the median of some measurements, and the least and the most of them.
type Statistics struct{ Median, Min, Max float64 }

// NewStatistics returns the statistics of a measure of some usages.
func NewStatistics(all []Usage, of func(Usage) float64) Statistics {
	var values []float64
	for _, u := range all {
		values = append(values, of(u))
	}
	return statistics(values)
}

// statistics are zero of no values.
func statistics(values []float64) Statistics {
	if len(values) == 0 {
		return Statistics{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Statistics{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Usages are all that was measured of an operation of a system.
func (c *Comparison) Usages(system string, o Operation) []Usage {
	var all []Usage
	for _, round := range c.Rounds[system] {
		all = append(all, round[o]...)
	}
	return all
}
