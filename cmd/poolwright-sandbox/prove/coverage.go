package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// perRequest are the faults that every request must have met.
var perRequest = []string{"kill-before", "kill-after", "drop"}

// wireCoverage counts the kinds of requests of a wire, and how many of them met each of perRequest.
type wireCoverage struct {
	wire    trace.Wire
	kinds   int
	reached [3]int
}

func (c wireCoverage) sum() int {
	n := 0
	for _, reached := range c.reached {
		n += reached
	}
	return n
}

// wireCoverages are those of all wires, and last their sum.
func (r *Report) wireCoverages() []wireCoverage {
	// A scenario may be one that meets none of these faults, so the points are those of recordings.
	type kind struct {
		verb, kind string
		dryRun     bool
	}
	met := map[trace.Wire]map[kind]*[3]bool{}
	at := func(p point) *[3]bool {
		if met[p.Wire] == nil {
			met[p.Wire] = map[kind]*[3]bool{}
		}
		if met[p.Wire][kind{p.Verb, p.Kind, p.DryRun}] == nil {
			met[p.Wire][kind{p.Verb, p.Kind, p.DryRun}] = &[3]bool{}
		}
		return met[p.Wire][kind{p.Verb, p.Kind, p.DryRun}]
	}
	for _, result := range r.Results {
		for _, p := range result.Points {
			at(p)
		}
		if n := slices.Index(perRequest, result.Case.Fault); n >= 0 && result.Outcome.reached() {
			at(result.Case.Point)[n] = true
		}
	}
	sum := wireCoverage{wire: "all"}
	var out []wireCoverage
	for _, wire := range []trace.Wire{trace.Kubernetes, trace.AWS, trace.Git, trace.Forge} {
		c := wireCoverage{wire: wire, kinds: len(met[wire])}
		for _, faults := range met[wire] {
			for n, reached := range faults {
				if reached {
					c.reached[n]++
				}
			}
		}
		sum.kinds += c.kinds
		for n := range perRequest {
			sum.reached[n] += c.reached[n]
		}
		out = append(out, c)
	}
	return append(out, sum)
}

// reached reports whether the fault of a case happened.
func (o Outcome) reached() bool { return o == Held || o == Violated || o == Failed }

// count is how many cases there were, and how many of each outcome.
func (r *Report) count() string {
	byOutcome := map[Outcome]int{}
	for _, result := range r.Results {
		byOutcome[result.Outcome]++
	}
	var parts []string
	for _, o := range []Outcome{Held, Violated, Failed, NotReached, Skipped} {
		if byOutcome[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", byOutcome[o], o))
		}
	}
	return fmt.Sprintf("%d cases (%s)", len(r.Results), strings.Join(parts, ", "))
}
