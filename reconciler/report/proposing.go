package report

import (
	"regexp"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// NewProposal reports what a step would change and, apart from it, what differs
// already; problems are those of the repository after the step. Secrets of either
// plan are masked in both. The Forecast, the Guards and the Binding are for the
// caller to set.
//
// A deletion that waits is shown without the word that confirms it: the word is
// made of the deletions there are when the step is applied, which may be others.
func NewProposal(p plan.Proposal, problems []state.Problem) Report {
	step, drift := wordless(p.Step), wordless(p.Drift)
	m := newMask(step, drift)
	r := build(m, step, problems)
	was := build(m, drift, nil)
	r.Drift = &Drift{Changes: was.Changes, Unknown: was.Unknown}
	return r
}

// word is how the reason of a hold names what confirms it.
var word = regexp.MustCompile(`; confirm with poolwright\.dev/confirm: [0-9a-f]+`)

// wordless says of what waits for a confirmation that it will, and not for which.
func wordless(p plan.Plan) plan.Plan {
	later := func(reason string) string {
		return word.ReplaceAllString(reason, "; it will wait until it is confirmed, by a word that the Sync's status will name")
	}
	p.Changes, p.Holds = slices.Clone(p.Changes), slices.Clone(p.Holds)
	for i := range p.Changes {
		p.Changes[i].Hold = later(p.Changes[i].Hold)
	}
	for i := range p.Holds {
		p.Holds[i] = later(p.Holds[i])
	}
	slices.Sort(p.Holds)
	p.Holds = slices.Compact(p.Holds)
	return p
}
