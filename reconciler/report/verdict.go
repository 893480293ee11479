package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision"
)

// Verdict is the report in one harmless line of plain text: what is wrong with the
// change and what it is and, with a forecast, what it does to nodes, pods and money;
// then quotas, and of a proposal how much had drifted before. It names at most one
// thing of a repository, a pool, shortened, and the rules that hold the change.
func (r Report) Verdict() string {
	if r = r.shown(); r.told() {
		return r.verdict(plainVoice())
	}
	return r.headline()
}

// told reports whether there is more to say in a line than how much changes.
func (r Report) told() bool { return r.Forecast != nil || r.proposal() }

func (r Report) verdict(v voice) string {
	f := r.Forecast
	parts := r.extent(v)
	switch {
	case r.idle():
	case f == nil:
		parts = append(parts, "nodes and money not told")
	default:
		fate := judge(f)
		parts = append(parts, fate.nodes(f, v)...)
		if n := podsIn(f.Fit.Unscheduled); n > 0 {
			parts = append(parts, conjugated(n, "pod", "fit")+" no node")
		}
		parts = append(parts, money(f.Cost, v)...)
	}
	if q := r.quota(); q != "" && !r.idle() {
		parts = append(parts, "quota "+q)
	}
	if f != nil && len(f.Unknown) > 0 && !r.idle() {
		parts = append(parts, count(len(f.Unknown), "thing")+" cannot be told")
	}
	if n := r.driftedBefore(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d drifted before", n))
	}
	return strings.Join(parts, " · ")
}

// quota is what a guard says of quotas, or else the sightings.
func (r Report) quota() string {
	for _, g := range r.Guards {
		switch {
		case g.Rule == "quota" && g.Result == "ok":
			return quotaOK
		case g.Rule == "quota":
			return quotaShort
		}
	}
	switch r.Quota {
	case quotaOK, quotaShort, quotaShortBefore:
		return r.Quota
	}
	return ""
}

// sign stands for the verdict, see [Report.Markdown].
func (r Report) sign() string {
	f := r.Forecast
	if f == nil {
		f = &provision.Forecast{}
	}
	dying := slices.ContainsFunc(f.Removed, func(x provision.Removal) bool { return len(x.Nodes) > 0 })
	stop := len(r.Problems)+len(r.Holds)+len(f.Fit.Unscheduled)+judge(f).count() > 0 || f.Rollout.Never || dying ||
		r.quota() == quotaShort || len(r.guardsThatHold(plainVoice())) > 0
	look := dearer(f.Cost) || r.Summary.Delete+r.Summary.Warnings+len(r.Unknown)+len(f.Replaced)+len(f.Removed)+len(f.Unknown) > 0 ||
		slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Result != "ok" })
	switch {
	case r.idle():
		return "✅"
	case stop:
		return "⛔"
	case look:
		return "⚠️"
	}
	return "✅"
}

// dearer reports whether more is paid, or may be.
func dearer(c provision.Cost) bool {
	more := c.After.Total() - c.Now.Total()
	unbounded := c.Ceiling == nil && c.CeilingBefore != nil
	return more > 0 && !nothing(more) || unbounded || c.Ceiling != nil && c.CeilingBefore != nil && *c.Ceiling > *c.CeilingBefore
}

// extent is how much the plan changes, and what keeps it from being all.
func (r Report) extent(v voice) []string {
	objects, inAWS := 0, 0
	for _, c := range r.Changes {
		switch {
		case c.Compared:
		case c.Target == "aws":
			inAWS++
		default:
			objects++
		}
	}
	var out []string
	if r.Summary.Problems > 0 {
		out = append(out, count(r.Summary.Problems, "problem"))
	}
	held := ""
	if r.Summary.Held > 0 {
		held = fmt.Sprintf("%d held", r.Summary.Held)
	}
	if rules := r.guardsThatHold(v); len(rules) > 0 {
		out, held = append(out, cmp.Or(held, "held")+" by "+enough(rules)), ""
	}
	if objects > 0 {
		out = append(out, count(objects, "object"))
	}
	if inAWS > 0 {
		out = append(out, fmt.Sprintf("%d AWS", inAWS))
	}
	if objects+inAWS == 0 {
		out = append(out, "no changes")
	}
	if held != "" {
		out = append(out, held)
	}
	if r.Summary.Unknown > 0 {
		out = append(out, fmt.Sprintf("%d not compared", r.Summary.Unknown))
	}
	return out
}

// podsIn counts pods with those of their shape.
func podsIn(list []provision.Placement) int {
	n := 0
	for _, p := range list {
		n += 1 + p.Like
	}
	return n
}

// conjugated writes a number, its noun and a verb.
func conjugated(n int, noun, verb string) string {
	if n == 1 {
		verb += "s"
	}
	return count(n, noun) + " " + verb
}

// clip shortens s to width runes, the last of which says so.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
