package report

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// sanitized is the report as it is shown: what the caller set has secrets masked by their
// shape and lists that are not null; guards that hold come first. Every renderer goes
// through it, so that these fields may be set to whatever was found.
func (r Report) sanitized() Report {
	r.Forecast = forecast.Sanitized(r.Forecast)
	if r.GuardResults != nil {
		r.GuardResults = append([]GuardResult{}, r.GuardResults...)
		for i, g := range r.GuardResults {
			r.GuardResults[i] = GuardResult{Key: g.Key, Rule: sanitize.Redact(g.Rule), Result: g.Result, Text: sanitize.Redact(g.Text)}
		}
		slices.SortStableFunc(r.GuardResults, func(a, b GuardResult) int { return severity(a) - severity(b) })
	}
	if r.Provenance != nil {
		b := *r.Provenance
		b.Cluster, b.Base, b.MergeBase = sanitize.Redact(b.Cluster), sanitize.Redact(b.Base), sanitize.Redact(b.MergeBase)
		b.BaseCommit, b.HeadCommit = sanitize.Redact(b.BaseCommit), sanitize.Redact(b.HeadCommit)
		r.Provenance = &b
	}
	return r
}

func severity(g GuardResult) int {
	switch g.Result {
	case GuardHeld:
		return 0
	case GuardWarning:
		return 1
	case GuardOK:
	}
	return 2
}
