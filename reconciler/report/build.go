package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// New reports what the plan would do, and the problems of the repository that
// it was made from.
func New(p plan.Plan, problems []state.Problem) Report {
	return builder{mask.New(p)}.build(p, problems)
}

// NewOutcome reports what became of the plan. The outcome must be that of the
// same plan.
func NewOutcome(p plan.Plan, problems []state.Problem, o apply.Outcome) Report {
	b := builder{mask.New(p)}
	r := b.build(p, problems)
	r.Summary.Outcome = &OutcomeCounts{ReadOnly: r.Summary.ReadOnly}
	for i, res := range o.Results {
		if i >= len(r.Changes) {
			break
		}
		r.Changes[i].Status = r.Summary.Outcome.add(res.Status)
		if res.Err != nil {
			r.Changes[i].Error = b.Text(res.Message())
		}
	}
	for _, n := range o.NotReady {
		r.NotReady = append(r.NotReady, NotReady{Object: b.object(n.Key), Reason: b.Text(n.Reason)})
	}
	return r
}

func (b builder) build(p plan.Plan, problems []state.Problem) Report {
	r := Report{
		Summary:           Summary{Unchanged: p.Unchanged, Unknown: len(p.Unknown)},
		Changes:           make([]Change, 0, len(p.Changes)),
		Unknown:           make([]Unknown, 0, len(p.Unknown)),
		Notes:             make([]Note, 0, len(p.Notes)),
		Ignored:           b.ignored(p.Ignored),
		Problems:          make([]Problem, 0, len(problems)),
		Holds:             b.holds(p.Changes),
		ConfirmationToken: p.Confirmation(),
	}
	for _, c := range p.Changes {
		r.Changes = append(r.Changes, b.change(c))
		r.Summary.add(c)
	}
	r.Summary.Hash = r.digest()
	for _, u := range p.Unknown {
		r.Unknown = append(r.Unknown, Unknown{Object: b.object(u.Key), File: b.Text(u.Origin.File), Line: u.Origin.Line, Reason: b.Text(u.Reason), Code: u.Code})
	}
	for _, n := range p.Notes {
		note := Note{Object: b.object(n.Key), File: b.Text(n.Origin.File), Line: n.Origin.Line, Severity: cmp.Or(n.Severity, finding.Note), NotOurs: n.NotOurs, NotFound: n.NotFound, QuotaUnknown: n.QuotaUnknown, Code: n.Code, Facts: n.Facts.Texts(b.Text), Text: b.Text(n.Text)}
		if n.Severity == finding.Warning {
			r.Notes = slices.Insert(r.Notes, r.Summary.Warnings, note)
			r.Summary.Warnings++
		} else {
			r.Notes = append(r.Notes, note)
		}
	}
	for _, p := range problems {
		r.Summary.Problems += p.Count()
		r.Problems = append(r.Problems, Problem{File: b.Text(p.Origin.File), Line: p.Origin.Line, Code: p.Code, Facts: p.Facts.Texts(b.Text), Message: b.Text(p.Message)})
	}
	r.Quota = quotaOf(r.Notes, r.Unknown)
	return r
}

// add counts a change that has the status after a run, and returns what that is in a report.
func (t *OutcomeCounts) add(s apply.Status) string {
	switch s {
	case apply.Applied:
		t.Applied++
	case apply.Failed:
		t.Failed++
	case apply.Conflict:
		t.Conflict++
	case apply.NotAttempted:
		t.NotAttempted++
		return statusNotAttempted
	case apply.Skipped:
		t.Skipped++
	case apply.Held:
		t.Held++
	}
	return string(s)
}

// add counts a change.
func (s *Summary) add(c plan.Change) {
	if c.Skipped() {
		s.Skipped++
	}
	if c.ReadOnly() {
		s.ReadOnly++
		return
	}
	switch c.Action {
	case plan.Create:
		s.Create++
	case plan.Update:
		s.Update++
	case plan.Delete:
		s.Delete++
	}
	if c.Held() {
		s.Held++
	}
}

func (r Report) digest() string {
	changes := slices.Clone(r.Changes)
	for i := range changes {
		changes[i].Findings = nil // They are the Notes.
	}
	raw, err := json.Marshal(changes)
	if err != nil {
		return ""
	}
	return state.Hash(string(raw))[:12]
}

func isQuota(o Object) bool { return o.Target == state.TargetAWS && o.Kind == "Quota" }

// quotaOf is what was observed of quotas: nothing where none was, or where one of them
// could not be.
func quotaOf(notes []Note, unknown []Unknown) quotaState {
	observed, lost := false, slices.ContainsFunc(unknown, func(u Unknown) bool { return isQuota(u.Object) })
	for _, n := range notes {
		if !isQuota(n.Object) {
			continue
		}
		if n.Severity == finding.Warning && !n.QuotaUnknown {
			return quotaShort
		}
		observed, lost = true, lost || n.NotFound || n.QuotaUnknown
	}
	if observed && !lost {
		return quotaOK
	}
	return ""
}

// builder makes Reports of plans whose secrets it masks.
type builder struct{ *mask.Mask }

func (b builder) object(k state.Key) Object {
	return Object{Target: k.Target, Group: k.Group, Kind: k.Kind, Namespace: k.Namespace, Name: b.Text(k.Name)}
}

func (b builder) change(c plan.Change) Change {
	origin := c.Origin()
	out := Change{
		Object: b.object(c.Key), Action: string(c.Action), Drift: c.Drift,
		File: b.Text(origin.File), Line: origin.Line, Reason: b.Text(c.Hold.String()), Skipped: c.Skipped(), ReadOnly: c.ReadOnly(),
	}
	switch c.Action {
	case plan.Create:
		out.Desired = b.Object(c.After)
	case plan.Update:
		out.Fields = b.Diff(c)
	case plan.Delete:
	}
	for _, f := range about(c) {
		f.Facts, f.Text = f.Facts.Texts(b.Text), b.Text(f.Text)
		out.Findings, out.Notes = append(out.Findings, f), append(out.Notes, f.Text)
	}
	return out
}

// The codes of what is found of a change.
const (
	codeDeletionImpact finding.Code = "DeletionImpact"
	codeManagedByOther finding.Code = "ManagedByOther"
)

// about is what is found of a thing that changes.
func about(c plan.Change) []finding.Finding {
	if c.Before == nil {
		return nil
	}
	var out []finding.Finding
	if c.Action == plan.Delete && c.Before.Impact != "" {
		var losses []string
		for _, kind := range slices.Sorted(maps.Keys(c.Before.Losses)) {
			losses = append(losses, fmt.Sprintf("%s=%d", kind, c.Before.Losses[kind]))
		}
		out = append(out, finding.New(codeDeletionImpact, "%s", c.Before.Impact).With(finding.NewFact("losses", losses)))
	}
	if f := c.Before.ContentUnknown(); f.Code != "" {
		out = append(out, f)
	}
	if c.Before.Owner != (owner.Reference{}) {
		out = append(out, finding.New(codeManagedByOther, "also managed by %s", finding.NewFact("owner", c.Before.Owner.String())))
	}
	return out
}

// holds groups the changes that wait by their reasons. What is read-only
// waits for nothing.
func (b builder) holds(changes []plan.Change) []Hold {
	out, at := []Hold{}, map[string]int{}
	for _, c := range changes {
		if c.ReadOnly() {
			continue
		}
		for _, reason := range c.Hold {
			key := reason.Key()
			if _, known := at[key]; !known {
				at[key] = len(out)
				out = append(out, Hold{Key: key, Rule: reason.Rule, Reason: b.Text(reason.String()), Facts: b.facts(reason.Facts), Confirmable: reason.Token != nil})
			}
			h := &out[at[key]]
			h.Objects = append(h.Objects, b.object(c.Key))
		}
	}
	slices.SortStableFunc(out, func(x, y Hold) int {
		one := func(h Hold) int { return min(len(h.Facts.Object), 1) }
		return cmp.Or(cmp.Compare(one(x), one(y)), strings.Compare(x.Reason, y.Reason))
	})
	return out
}

// facts masks the texts among what a rule found.
func (b builder) facts(f hold.Facts) hold.Facts {
	f.Object, f.Detail = b.Text(f.Object), b.Text(f.Detail)
	if f.Nodes != nil {
		nodes := *f.Nodes
		nodes.Unknown, nodes.Uncertain = b.Text(nodes.Unknown), b.Text(nodes.Uncertain)
		f.Nodes = &nodes
	}
	if f.Quota != nil {
		quota := *f.Quota
		quota.Unknown, quota.Pools, quota.IncreasedPools = b.Text(quota.Unknown), b.texts(quota.Pools), b.texts(quota.IncreasedPools)
		f.Quota = &quota
	}
	return f
}

func (b builder) texts(of []string) []string {
	out := make([]string, 0, len(of))
	for _, text := range of {
		out = append(out, b.Text(text))
	}
	return out
}
