package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Headline is the report in one escaped line of plain text: what is wrong with the
// change and what it is and, with a forecast, what it does to nodes, pods and money;
// then quotas, what is not known, and of a proposal how much had drifted before. It
// names at most one thing of a repository, a pool, shortened, and the rules that hold
// the change.
//
// It is at most 140 characters long, which is what forges show of a line beside a
// commit. Of a longer one the parts that matter least are left out or shortened:
// first what had drifted before, then that quotas suffice, the maximum, the share of
// spot, why nodes stay, what is not known, and names.
func (r Report) Headline() string {
	if r = r.sanitized(); r.detailed() {
		return headline.Shorten(r.phrases(markup.PlainText()))
	}
	return markup.Clip(r.headline(), headline.Width)
}

// detailed reports whether there is more to state in a line than how much changes.
func (r Report) detailed() bool { return r.Forecast != nil || r.proposal() }

// phrases are the parts of the headline, what matters most first.
func (r Report) phrases(v markup.Style) []headline.Phrase {
	out := r.extent(v)
	if n := len(r.foreign()); n > 0 {
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%d not managed by this Sync", n)})
	}
	if !r.idle() {
		out = append(out, r.effects(v)...)
	}
	if n := r.Summary.ReadOnly; n > 0 {
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%d read-only", n), Rank: headline.RankUnknown})
	}
	if n := r.Summary.Unknown; n > 0 {
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%d unknown", n), Rank: headline.RankUnknown})
	}
	if f := r.Forecast; f != nil && len(f.Unknown) > 0 && !r.idle() {
		out = append(out, headline.Phrase{Text: plural.Count(len(f.Unknown), "unknown"), Rank: headline.RankWarning})
	}
	if n := r.driftedBefore(); n > 0 {
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%d drifted before", n), Rank: headline.RankDrift})
	}
	return out
}

// effects are what the change does to nodes, pods, quotas and money.
func (r Report) effects(v markup.Style) []headline.Phrase {
	var out []headline.Phrase
	f := r.Forecast
	switch {
	case f != nil:
		out = r.view(Options{}, v).Phrases(f)
	case slices.ContainsFunc(r.Changes, Change.affectsNodes):
		out = append(out, headline.Phrase{Text: "effect on nodes and cost not computed"})
	}
	if r.Quota == quotaShort {
		out = append(out, headline.Phrase{Text: "quota short"})
	}
	if n := r.warned(); n > 0 {
		out = append(out, headline.Phrase{Text: plural.Count(n, "warning"), Rank: headline.RankWarning})
	}
	if f != nil {
		out = append(out, r.view(Options{}, v).Money(f.Cost)...)
	}
	switch r.Quota {
	case quotaOK:
		out = append(out, headline.Phrase{Text: "quota ok", Rank: headline.RankQuota})
	case quotaShortBefore:
		out = append(out, headline.Phrase{Text: "quota short before", Rank: headline.RankQuota})
	case quotaShort: // Above, before the warnings.
	}
	return out
}

// affectsNodes reports whether nodes may come or go for the change.
func (c Change) affectsNodes() bool {
	return !c.ReadOnly && (c.Group == "karpenter.sh" || c.Group == "karpenter.k8s.aws")
}

// warned counts the warnings that the headline does not name: not those of quotas that are short.
func (r Report) warned() int {
	n := 0
	for _, note := range r.Notes {
		if note.Severity == finding.Warning && (note.QuotaUnknown || !isQuota(note.Object)) {
			n++
		}
	}
	return n
}

// extent is how much the plan changes, and what keeps it from being all.
func (r Report) extent(v markup.Style) []headline.Phrase {
	objects, inAWS := 0, 0
	for _, c := range r.Changes {
		switch {
		case c.ReadOnly:
		case c.Target == state.TargetAWS:
			inAWS++
		default:
			objects++
		}
	}
	var out []headline.Phrase
	add := func(text string) { out = append(out, headline.Phrase{Text: text}) }
	if r.Summary.Problems > 0 {
		add(plural.Count(r.Summary.Problems, "problem"))
	}
	held := ""
	if r.Summary.Held > 0 {
		held = fmt.Sprintf("%d held", r.Summary.Held)
	}
	if rules := r.guardsThatHold(v); len(rules) > 0 {
		by := headline.Phrase{Text: cmp.Or(held, "held") + " by " + markup.Names(rules)}
		if len(rules) > 1 {
			by.Brief, by.Rank = cmp.Or(held, "held")+" by "+plural.Count(len(rules), "rule"), headline.RankName
		}
		out, held = append(out, by), ""
	}
	if objects > 0 {
		add(plural.Count(objects, "object"))
	}
	if inAWS > 0 {
		add(fmt.Sprintf("%d AWS", inAWS))
	}
	if objects+inAWS == 0 {
		add("no changes")
	}
	if held != "" {
		add(held)
	}
	return out
}

// headline is the report in a line.
func (r Report) headline() string {
	s := r.Summary
	var out string
	changes, known := s.Create+s.Update+s.Delete, s.Unchanged+s.ReadOnly
	switch {
	case changes > 0:
		out = fmt.Sprintf("Plan: %d to create, %d to update, %d to delete", s.Create, s.Update, s.Delete)
	case s.Unknown > 0 && known == 0:
		// "No changes" would be claimed of what nobody has observed.
		out = fmt.Sprintf("Plan: incomplete, nothing could be compared (%s)", plural.Count(s.Unknown, "object"))
	case s.Unknown > 0:
		out = fmt.Sprintf("Plan: incomplete, %d of %d objects could not be compared; %d as declared", s.Unknown, s.Unknown+known, s.Unchanged)
	default:
		out = "Plan: no changes"
		if s.Unchanged > 0 {
			out += ", " + plural.Count(s.Unchanged, "object") + " as declared"
		}
	}
	if s.Held > 0 {
		out += fmt.Sprintf(" (%d held)", s.Held)
	}
	if skipped := s.Skipped - s.ReadOnly; skipped > 0 {
		out += fmt.Sprintf(" (%d skipped)", skipped)
	}
	if s.ReadOnly > 0 {
		out += fmt.Sprintf("; %d read-only", s.ReadOnly)
	}
	if s.Unknown > 0 && changes > 0 {
		out += fmt.Sprintf("; %d unknown", s.Unknown)
	}
	if s.Warnings > 0 {
		out += "; " + plural.Count(s.Warnings, "warning")
	}
	return out
}

// outcomeLine counts what became of the changes; empty for a plan alone.
func (r Report) outcomeLine() string {
	t := r.Summary.Outcome
	if t == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("%d applied", t.Applied)}
	for _, p := range []struct {
		n    int
		what string
	}{{t.Held, "held"}, {t.Failed, "failed"}, {t.Conflict, "in conflict"}, {t.NotAttempted, "not attempted"}, {t.Skipped - t.ReadOnly, "skipped"}, {t.ReadOnly, "read-only"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return "Outcome: " + strings.Join(parts, ", ")
}
