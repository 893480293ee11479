package forecast

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// nodePhrases are what becomes of nodes: of those that can be counted, or of pools.
func (v View) nodePhrases(f *provision.Forecast) []headline.Phrase {
	pools := v.uncounted(f)
	switch {
	case v.Offline && len(f.Removed) == 1:
		return []headline.Phrase{{Text: "all nodes of pool " + v.Short(f.Removed[0].Pool) + " removed", Brief: "all nodes of a pool removed", Rank: headline.RankName}}
	case v.Offline && len(f.Removed) > 1:
		return []headline.Phrase{{Text: fmt.Sprintf("all nodes of %d pools removed", len(f.Removed))}}
	case len(pools) == 1:
		all, outcome := "nodes of ", " may be replaced"
		if pools[0].ReplacesAll {
			all, outcome = "all nodes of ", " replaced"
		}
		return []headline.Phrase{{Text: all + "pool " + v.Short(pools[0].Name) + outcome, Brief: all + "a pool" + outcome, Rank: headline.RankName}}
	case slices.ContainsFunc(pools, func(p provision.Pool) bool { return p.ReplacesAll }):
		return []headline.Phrase{{Text: fmt.Sprintf("nodes of %d pools replaced", len(pools))}}
	case len(pools) > 1:
		return []headline.Phrase{{Text: fmt.Sprintf("nodes of %d pools may be replaced", len(pools))}}
	case v.Offline && len(f.Pools) > 0 && len(f.Replaced)+len(f.Removed) == 0:
		return []headline.Phrase{{Text: "no node is replaced"}} // Whatever else is not known.
	}
	return outcomesOf(f).nodes(f, v)
}

// nodes is what becomes of the nodes there are.
func (x nodeOutcomes) nodes(f *provision.Forecast, v View) []headline.Phrase {
	var out []headline.Phrase
	pools, removed := 0, 0
	for _, r := range f.Removed {
		if len(r.Nodes) > 0 {
			pools, removed = pools+1, removed+len(r.Nodes)
		}
	}
	switch {
	case pools == 1:
		with := plural.Count(removed, "node") + " removed with "
		out = append(out, headline.Phrase{Text: with + "pool " + v.Short(onlyRemoved(f)), Brief: with + "a pool", Rank: headline.RankName})
	case pools > 1:
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%s removed with %s", plural.Count(removed, "node"), plural.Count(pools, "pool"))})
	}
	all, stuck := len(f.Replaced), x.count()
	switch {
	case all == 0 && removed > 0:
	case all == 0 && atMost(f) > 0:
		n := atMost(f)
		out = append(out, headline.Phrase{Text: fmt.Sprintf("up to %s may be replaced", plural.Count(n, "node"))})
	case all == 0 && len(f.Unknown) > 0:
		out = append(out, headline.Phrase{Text: "no node is known to be replaced"})
	case all == 0:
		out = append(out, headline.Phrase{Text: "no node is replaced"})
	case stuck > 0:
		out = append(out, headline.Phrase{Text: fmt.Sprintf("%d of %s replaced%s", all-stuck, plural.Count(all, "node"), within(f.Rollout))},
			headline.Phrase{Text: "never: " + x.why(), Brief: "never: " + plural.Count(stuck, "node"), Rank: headline.RankWhy})
	default:
		out = append(out, headline.Phrase{Text: plural.Count(all, "node") + " replaced" + within(f.Rollout)})
	}
	if x.unexplained {
		out = append(out, headline.Phrase{Text: "never: some of them"})
	}
	return out
}

// atMost counts the nodes that may be replaced where something that decides it cannot
// be estimated.
func atMost(f *provision.Forecast) int {
	n := 0
	for _, p := range f.Pools {
		if p.ReplacesSome && p.Replaced == 0 && len(f.Unknown) > 0 {
			n += p.Nodes
		}
	}
	return n
}

func onlyRemoved(f *provision.Forecast) string {
	for _, r := range f.Removed {
		if len(r.Nodes) > 0 {
			return r.Pool
		}
	}
	return ""
}

// why counts the nodes that stay by what keeps them.
func (x nodeOutcomes) why() string {
	var out []string
	for _, c := range []struct {
		n    int
		what string
	}{{len(x.blocked), "blocked"}, {total(x.closed), "blocked by a budget"}, {total(x.full), "at the limit"}} {
		if c.n == x.count() {
			return plural.Count(c.n, "node") + " " + c.what
		}
		if c.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return plural.Count(x.count(), "node") + " (" + strings.Join(out, ", ") + ")"
}

// within is the range of time that the replacing takes.
func within(r provision.Rollout) string {
	if r.MaxMinutes == 0 {
		return ""
	}
	return " in " + span(r.MinMinutes, r.MaxMinutes)
}

// span writes a range of minutes in the unit that suits its end, rounded so that
// it grows wider, never narrower.
func span(least, most int) string {
	unit, name := 1, "min"
	switch {
	case most > 3*24*60:
		unit, name = 24*60, "days"
	case most > 180:
		unit, name = 60, "h"
	}
	tenths := func(minutes int, round func(float64) float64) string {
		if unit == 1 {
			return strconv.Itoa(minutes)
		}
		return strconv.FormatFloat(round(float64(minutes)*10/float64(unit))/10, 'f', -1, 64)
	}
	from, to := tenths(least, math.Floor), tenths(most, math.Ceil)
	if from == to {
		return to + " " + name
	}
	return from + "–" + to + " " + name
}

// Money is what the change does to the bill, marked where it is reckoned with prices of the catalog, or with old ones.
func (v View) Money(c provision.Cost) []headline.Phrase {
	var out []headline.Phrase
	about := ""
	if c.Approximate() {
		about = "≈"
	}
	if d := v.difference(c); d.unknown {
		out = append(out, headline.Phrase{Text: d.String(), Brief: d.sum, Rank: headline.RankSpot})
	} else if d.sum != "" {
		out = append(out, headline.Phrase{Text: about + d.String(), Brief: about + d.sum, Rank: headline.RankSpot})
	}
	if more := c.NonComputeAfter.Volumes - c.NonComputeNow.Volumes; !nothing(more) {
		out = append(out, headline.Phrase{Text: "volumes ≈" + v.signed(more) + "/h", Rank: headline.RankSpot})
	}
	if s, differ := v.maxima(c); differ {
		out = append(out, headline.Phrase{Text: "max " + about + s, Rank: headline.RankMaxCost})
	}
	return out
}

// Phrases are what the changes do to nodes and pods.
func (v View) Phrases(f *provision.Forecast) []headline.Phrase {
	out := v.nodePhrases(f)
	if n := len(outcomesOf(f).withoutController); n > 0 {
		out = append(out, headline.Phrase{Text: plural.Count(n, "pod") + " will not be recreated"})
	}
	if n := podsIn(f.PodScheduling.NewlyUnschedulable); n > 0 {
		out = append(out, headline.Phrase{Text: markup.CountWithVerb(n, "pod", "fit") + " no node"})
	}
	if n := podsIn(newcomers(f)); n > 0 {
		out = append(out, headline.Phrase{Text: markup.CountWithVerb(n, "new pod", "fit") + " no node"})
	}
	if n := len(overLimit(f)); n > 0 {
		out = append(out, headline.Phrase{Text: plural.Count(n, "pool") + " over the limit"})
	}
	return out
}
