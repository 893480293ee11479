package pullrequest

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// driftResolved ends a tail that showed drift.
const driftResolved = "The drift that was shown here is gone.\n"

// driftShare is the part of a comment that drift may take.
const driftShare = 4

// drifted is what differs live and stays so, read anew when the Sync reports
// something else about it, and now and then.
func (p *pullRequestRun) drifted(ctx context.Context) drift {
	if p.sync.Spec.Drift != v1alpha1.DriftReport {
		return drift{known: true}
	}
	switch conditionOf(p.sync, "Drifted").Status {
	case metav1.ConditionTrue:
	case metav1.ConditionFalse:
		p.s.drift = drift{known: true}
		return p.s.drift
	default:
		return p.s.drift
	}
	same := p.s.drift.driftHash == p.s.live.hash && p.now.Sub(p.s.drift.at) < planValidity
	if same || !p.stable() {
		return p.s.drift
	}
	reading, cancel := context.WithTimeout(ctx, PlanTime+maxWait)
	defer cancel()
	r, err := p.s.Planner.Drift(reading)
	if err != nil {
		log(ctx).Info("Cannot read drift", "why", failure.Text(err))
		return p.s.drift
	}
	fresh := drift{known: true, driftHash: p.s.live.hash, at: p.now}
	if r = differing(r); !r.Empty() {
		fresh.content = r.Content()
		fresh.text = p.driftText(r)
	}
	p.s.drift = fresh
	return fresh
}

// differing is what a report has of drift, whether it is one of a change or only of live
// objects, as a report of its own.
func differing(r report.Report) report.Report {
	if r.Drift == nil {
		return r
	}
	out := report.Report{Changes: r.Drift.Changes, Unknown: r.Drift.Unknown}
	out.Summary.Unknown = len(out.Unknown)
	for _, c := range out.Changes {
		switch {
		case c.ReadOnly:
			out.Summary.ReadOnly++
			out.Summary.Skipped++
			continue
		case c.Action == "create":
			out.Summary.Create++
		case c.Action == "delete":
			out.Summary.Delete++
		default:
			out.Summary.Update++
		}
		switch {
		case c.Skipped:
			out.Summary.Skipped++
		case c.Reason != "":
			out.Summary.Held++
		}
	}
	return out
}

// driftText shows drift below what is reported of a merge.
func (p *pullRequestRun) driftText(r report.Report) string {
	var out strings.Builder
	out.WriteString("**Live objects differ from what is applied.** This Sync only reports it (`spec.drift: Report`); to put it back would take this.\n\n")
	if err := r.Markdown(&out, report.Options{Limit: p.s.Forge.Limit() / driftShare}); err != nil {
		return "**Live objects differ from what is applied**, and it cannot be shown: " + forge.PlainText(failure.Text(err), reasonWidth) + "\n"
	}
	return out.String()
}

// driftComment is the number of the merged pull request whose comment shows drift, 0 for none:
// the newest that touched this cluster, or where nothing is known of any, the newest.
func (p *pullRequestRun) driftComment(merged []forge.PullRequest, found drift) int64 {
	if p.sync.Spec.Drift != v1alpha1.DriftReport || len(merged) == 0 {
		return 0
	}
	known := false
	for _, pr := range slices.Backward(merged) {
		rec := p.s.records[int64(pr.Number)]
		if rec == nil && p.now.Sub(pr.Merged) >= recent {
			continue
		}
		known = true
		if rec == nil || !rec.unaffected() {
			return int64(pr.Number)
		}
	}
	if known || found.text == "" {
		return 0
	}
	return int64(merged[len(merged)-1].Number)
}
