package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// NewProposal reports what a change would do and, apart from it, what differs
// already; problems are those of the repository after the change. Secrets of either
// plan are masked in both, in the forecast, which may be nil, and in the guards. The Provenance is
// for the caller to set.
//
// What waits for a confirmation is shown without its token: that is made of what there
// is when the change is applied, which may be something else.
func NewProposal(p plan.Proposal, problems []state.Problem, forecast *provision.Forecast, guards ...GuardResult) Report {
	b := builder{mask.New(p.Proposed, p.Drift)}
	r := b.build(p.Proposed, problems)
	r.ConfirmationToken = ""
	was := b.build(p.Drift, nil)
	// What a quota has with the change or without, only the drift reports.
	switch {
	case r.Quota == quotaShort:
	case was.Quota == quotaShort:
		r.Quota = quotaShortBefore
	default:
		r.Quota = quotaOf(slices.Concat(r.Notes, was.Notes), slices.Concat(r.Unknown, was.Unknown))
	}
	sufficientQuota := func(n Note) bool { return isQuota(n.Object) && n.Severity != finding.Warning }
	r.Drift = &Drift{Changes: was.Changes, Unknown: was.Unknown, Notes: slices.DeleteFunc(was.Notes, sufficientQuota)}
	// They may quote errors, which may quote what the objects keep secret.
	r.GuardResults = slices.Clone(guards)
	for i, g := range r.GuardResults {
		r.GuardResults[i].Text = b.Text(g.Text)
	}
	if forecast != nil {
		masked := *forecast
		masked.Unknown = slices.Clone(masked.Unknown)
		for i, u := range masked.Unknown {
			masked.Unknown[i].Text = b.Text(u.Text)
		}
		r.Forecast = &masked
	}
	return r
}

// proposal reports whether the report is one of a change.
func (r Report) proposal() bool { return r.Drift != nil }

// idle reports whether a change does nothing that anybody would have to read.
func (r Report) idle() bool {
	if !r.proposal() || !r.Empty() || r.Summary.Warnings > 0 || len(r.Holds) > 0 {
		return false
	}
	if slices.ContainsFunc(r.GuardResults, func(g GuardResult) bool { return g.Result != GuardOK }) {
		return false
	}
	f := r.Forecast
	return f == nil || forecast.Empty(f)
}

func (r Report) idleLine() string {
	if r.idle() {
		return "Nothing changes in this cluster."
	}
	return ""
}

// driftIntro explains what had drifted.
const driftIntro = "These differences from the base branch exist with the change and without it, and are not counted above. Each is shown from the live value to that of the base branch."

// driftTitle counts what had drifted; empty for nothing.
func (r Report) driftTitle() string {
	if !r.proposal() {
		return ""
	}
	var parts []string
	made, compared := Report{Changes: r.Drift.Changes}.divided()
	nodes := 0
	if r.Forecast != nil {
		nodes = len(r.Forecast.Drifted)
	}
	if len(made) > 0 {
		parts = append(parts, plural.Count(len(made), "object"))
	}
	if nodes > 0 {
		parts = append(parts, plural.Count(nodes, "node"))
	}
	for _, p := range []struct {
		n    int
		what string
	}{{len(compared), "read-only"}, {len(r.Drift.Unknown), "unknown"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	noted := r.Drift.noteCounts()
	switch {
	case len(parts)+len(noted) == 0:
		return ""
	case len(parts) == 0:
		return "Already so before this change (" + strings.Join(noted, ", ") + ")"
	case len(parts)+len(noted) == 1 && len(made) > 0:
		parts[0] = strconv.Itoa(len(made))
	}
	parts = append(parts, noted...)
	return "Already drifted before this change (" + strings.Join(parts, ", ") + ")"
}

// foreign are the changes that meet something that is not ours.
func (r Report) foreign() []Change {
	if !r.proposal() {
		return nil
	}
	theirs := map[Object]bool{}
	for _, n := range r.Notes {
		if n.NotOurs {
			theirs[n.Object] = true
		}
	}
	var out []Change
	for _, c := range r.Changes {
		if !c.ReadOnly && c.Action != "delete" && theirs[c.Object] {
			out = append(out, c)
		}
	}
	return out
}

// offline reports whether no cluster was read.
func (r Report) offline() bool { return r.Provenance != nil && r.Provenance.Observed.IsZero() }

// noteCounts counts the notes.
func (d *Drift) noteCounts() []string {
	warnings := 0
	for _, n := range d.Notes {
		if n.Severity == finding.Warning {
			warnings++
		}
	}
	var out []string
	if warnings > 0 {
		out = append(out, plural.Count(warnings, "warning"))
	}
	if n := len(d.Notes) - warnings; n > 0 {
		out = append(out, plural.Count(n, "note"))
	}
	return out
}

// lines are what could not be compared, then the notes.
func (d *Drift) lines(v markup.Style) (unknown, notes []string) {
	unknown = unknownLines(d.Unknown, v)
	if !v.Stacks {
		for i, l := range unknown {
			unknown[i] = "unknown: " + l
		}
	}
	for _, n := range d.Notes {
		l := withOrigin(v, nameWithOrigin(n.Object, n.File, n.Line), n.Text)
		if n.Severity == finding.Warning {
			l = warning + l
		}
		notes = append(notes, l)
	}
	return unknown, notes
}

// driftedBefore counts what had drifted and is ours to put back.
func (r Report) driftedBefore() int {
	if !r.proposal() {
		return 0
	}
	made, _ := Report{Changes: r.Drift.Changes}.divided()
	return len(made)
}

// line is what the report holds for; empty where that is not known.
func (b *Provenance) line(v markup.Style) string {
	if b == nil {
		return ""
	}
	var out []string
	if b.Cluster != "" {
		out = append(out, "Cluster "+v.Short(b.Cluster))
	}
	if b.Base != "" || b.BaseCommit != "" {
		head := "the working copy"
		if b.HeadCommit != "" {
			head = v.Short(shortCommit(b.HeadCommit))
		}
		out = append(out, revision(v, b.Base, b.BaseCommit)+" ← "+head)
	}
	if b.MergeBase != "" && b.MergeBase != b.BaseCommit {
		out = append(out, "merge base "+v.Short(shortCommit(b.MergeBase)))
	}
	if b.Observed.IsZero() {
		out = append(out, "offline: neither a cluster nor AWS was read")
	} else {
		out = append(out, "live state of "+moment(b.Observed))
	}
	return strings.Join(out, " · ")
}
