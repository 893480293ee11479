package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision"
)

// Headline is the report in one harmless line of plain text: what is wrong with the
// change and what it is and, with a forecast, what it does to nodes, pods and money;
// then quotas, what is not known, and of a proposal how much had drifted before. It
// names at most one thing of a repository, a pool, shortened, and the rules that hold
// the change.
//
// It is at most 140 characters long, which is what forges show of a line beside a
// commit. Of a longer one the parts that matter least are left out or shortened:
// first what had drifted before, then that quotas suffice, the ceiling, the share of
// spot, why nodes stay, what is not known, and names.
func (r Report) Headline() string {
	if r = r.sanitized(); r.detailed() {
		return briefly(r.phrases(plainStyle()))
	}
	return clip(r.headline(), lineWidth)
}

// phrase is a part of the verdict.
type phrase struct {
	text string
	// brief is what is left of it when there is no room for all; nothing when empty.
	brief string
	// rank is how soon that is: the highest first, zero never.
	rank int
}

const (
	rankName = iota + 1
	rankUnknown
	rankWarning
	rankWhy
	rankSpot
	rankCeiling
	rankQuota
	rankDrift
)

// briefly writes clauses in a line of a forge.
func briefly(clauses []phrase) string {
	line := joined(clauses)
	for rank := rankDrift; rank > 0 && utf8.RuneCountInString(line) > lineWidth; rank-- {
		for i, c := range clauses {
			if c.rank == rank {
				clauses[i].text = c.brief
			}
		}
		line = joined(clauses)
	}
	for n := len(clauses) - 1; n > 0 && utf8.RuneCountInString(line) > lineWidth; n-- {
		line = joined(clauses[:n])
	}
	return clip(line, lineWidth)
}

// joined joins the clauses that say something.
func joined(clauses []phrase) string {
	var out []string
	for _, c := range clauses {
		if c.text != "" {
			out = append(out, c.text)
		}
	}
	return strings.Join(out, " · ")
}

// detailed reports whether there is more to say in a line than how much changes.
func (r Report) detailed() bool { return r.Forecast != nil || r.proposal() }

// fullHeadline is the verdict in full.
func (r Report) fullHeadline(v style) string { return joined(r.phrases(v)) }

// phrases are what the verdict says, what matters most first.
func (r Report) phrases(v style) []phrase {
	out := r.extent(v)
	if n := len(r.foreign()); n > 0 {
		out = append(out, phrase{text: fmt.Sprintf("%d not ours", n)})
	}
	if !r.idle() {
		out = append(out, r.effects(v)...)
	}
	if n := r.Summary.Compared; n > 0 {
		out = append(out, phrase{text: fmt.Sprintf("%d only compared", n), rank: rankUnknown})
	}
	if n := r.Summary.Unknown; n > 0 {
		out = append(out, phrase{text: fmt.Sprintf("%d not compared", n), rank: rankUnknown})
	}
	if f := r.Forecast; f != nil && len(f.Unknown) > 0 && !r.idle() {
		out = append(out, phrase{text: count(len(f.Unknown), "unknown"), rank: rankWarning})
	}
	if n := r.driftedBefore(); n > 0 {
		out = append(out, phrase{text: fmt.Sprintf("%d drifted before", n), rank: rankDrift})
	}
	return out
}

// effects are what the change does to nodes, pods, quotas and money.
func (r Report) effects(v style) []phrase {
	var out []phrase
	f := r.Forecast
	switch {
	case f != nil:
		out = r.nodes(f, v)
		if n := len(outcomesOf(f).lost); n > 0 {
			out = append(out, phrase{text: count(n, "pod") + " will not be recreated"})
		}
		if n := podsIn(f.Fit.Unscheduled); n > 0 {
			out = append(out, phrase{text: conjugated(n, "pod", "fit") + " no node"})
		}
		if n := podsIn(newcomers(f)); n > 0 {
			out = append(out, phrase{text: conjugated(n, "new pod", "fit") + " no node"})
		}
		if n := len(overLimit(f)); n > 0 {
			out = append(out, phrase{text: count(n, "pool") + " over the limit"})
		}
	case slices.ContainsFunc(r.Changes, Change.provisions):
		out = append(out, phrase{text: "effect on nodes and cost not computed"})
	}
	if r.Quota == quotaShort {
		out = append(out, phrase{text: "quota short"})
	}
	if n := r.warned(); n > 0 {
		out = append(out, phrase{text: count(n, "warning"), rank: rankWarning})
	}
	if f != nil {
		out = append(out, money(f.Cost, v)...)
	}
	switch r.Quota {
	case quotaOK:
		out = append(out, phrase{text: "quota ok", rank: rankQuota})
	case quotaShortBefore:
		out = append(out, phrase{text: "quota short before", rank: rankQuota})
	case quotaShort: // Above, before the warnings.
	}
	return out
}

// nodes is what becomes of nodes: of those that can be counted, or of pools.
func (r Report) nodes(f *provision.Forecast, v style) []phrase {
	pools := r.uncounted()
	switch {
	case r.offline() && len(f.Removed) == 1:
		return []phrase{{"all nodes of pool " + v.short(f.Removed[0].Pool) + " removed", "all nodes of a pool removed", rankName}}
	case r.offline() && len(f.Removed) > 1:
		return []phrase{{text: fmt.Sprintf("all nodes of %d pools removed", len(f.Removed))}}
	case len(pools) == 1:
		all, fate := "nodes of ", " may be replaced"
		if pools[0].Drifts {
			all, fate = "all nodes of ", " replaced"
		}
		return []phrase{{all + "pool " + v.short(pools[0].Name) + fate, all + "a pool" + fate, rankName}}
	case slices.ContainsFunc(pools, func(p provision.Pool) bool { return p.Drifts }):
		return []phrase{{text: fmt.Sprintf("nodes of %d pools replaced", len(pools))}}
	case len(pools) > 1:
		return []phrase{{text: fmt.Sprintf("nodes of %d pools may be replaced", len(pools))}}
	case r.offline() && len(f.Pools) > 0 && len(f.Replaced)+len(f.Removed) == 0:
		return []phrase{{text: "no node is replaced"}} // Whatever else is not known.
	}
	return outcomesOf(f).nodes(f, v)
}

// provisions reports whether nodes may come or go for the change.
func (c Change) provisions() bool {
	return !c.Compared && (c.Group == "karpenter.sh" || c.Group == "karpenter.k8s.aws")
}

// warned counts the warnings that the verdict does not name: not those of quotas.
func (r Report) warned() int {
	n := 0
	for _, note := range r.Notes {
		if note.Warning && !isQuota(note.Object) {
			n++
		}
	}
	return n
}

// sign stands for the verdict, see [Report.Markdown].
func (r Report) sign() string {
	f := r.Forecast
	if f == nil {
		f = &provision.Forecast{}
	}
	dying := slices.ContainsFunc(f.Removed, func(x provision.Removal) bool { return len(x.Nodes) > 0 || r.offline() })
	strange := newcomers(f)
	stop := len(r.Problems)+len(r.Holds)+len(f.Fit.Unscheduled)+outcomesOf(f).count() > 0 || outcomesOf(f).unexplained || dying || len(outcomesOf(f).lost) > 0 ||
		r.Quota == quotaShort || len(r.guardsThatHold(plainStyle())) > 0
	look := dearer(f.Cost) || r.Summary.Delete+r.Summary.Warnings+len(r.Unknown)+len(f.Replaced)+len(f.Removed)+len(f.Unknown)+len(strange)+r.Summary.Compared+len(r.foreign())+len(r.uncounted())+len(overLimit(f))+atMost(f) > 0 ||
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
func (r Report) extent(v style) []phrase {
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
	var out []phrase
	say := func(text string) { out = append(out, phrase{text: text}) }
	if r.Summary.Problems > 0 {
		say(count(r.Summary.Problems, "problem"))
	}
	held := ""
	if r.Summary.Held > 0 {
		held = fmt.Sprintf("%d held", r.Summary.Held)
	}
	if rules := r.guardsThatHold(v); len(rules) > 0 {
		by := phrase{text: cmp.Or(held, "held") + " by " + enough(rules)}
		if len(rules) > 1 {
			by.brief, by.rank = cmp.Or(held, "held")+" by "+count(len(rules), "rule"), rankName
		}
		out, held = append(out, by), ""
	}
	if objects > 0 {
		say(count(objects, "object"))
	}
	if inAWS > 0 {
		say(fmt.Sprintf("%d AWS", inAWS))
	}
	if objects+inAWS == 0 {
		say("no changes")
	}
	if held != "" {
		say(held)
	}
	return out
}

// conjugated writes a number, its noun and a verb.
func conjugated(n int, noun, verb string) string {
	if n == 1 {
		verb += "s"
	}
	return count(n, noun) + " " + verb
}

// clip shortens s to width runes, the last of which marks it.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
