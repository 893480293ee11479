package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision"
)

// nodeOutcomes sorts the nodes that are to be replaced and never are.
type nodeOutcomes struct {
	// blocked are those that something on them keeps.
	blocked []provision.Node
	// full counts the others beside which their pool has no room for a replacement,
	// closed the rest of a pool whose budgets never allow one.
	full, closed map[string]int
	// pods counts those on the nodes that are replaced, lost are those of them and of
	// pools that go which nothing makes again.
	pods int
	lost []provision.Pod
	// unexplained is true when the forecast knows of such nodes and says not which.
	unexplained bool
}

func outcomesOf(f *provision.Forecast) nodeOutcomes {
	out := nodeOutcomes{closed: map[string]int{}, full: map[string]int{}}
	pools := map[string]provision.RolloutRate{}
	for _, p := range f.Pools {
		pools[p.Name] = p.RolloutRate
	}
	waiting := 0
	for _, n := range f.Replaced {
		switch {
		case keptForGood(n):
			out.blocked = append(out.blocked, n)
		case slices.ContainsFunc(n.Blockers, roomless):
			out.full[n.Pool]++
		case shut(pools[n.Pool]):
			out.closed[n.Pool]++
		default:
			out.pods += len(n.Pods)
			out.lost = append(out.lost, alone(n)...)
			if len(n.Blockers) > 0 {
				waiting++
			}
		}
	}
	for _, r := range f.Removed {
		for _, n := range r.Nodes {
			if !keptForGood(n) {
				out.lost = append(out.lost, alone(n)...)
			}
		}
	}
	out.unexplained = f.Rollout.Incomplete && out.count()+waiting == 0
	return out
}

// alone are the node's pods that nothing makes again.
func alone(n provision.Node) []provision.Pod {
	return slices.DeleteFunc(slices.Clone(n.Pods), func(p provision.Pod) bool { return !p.Unowned })
}

// keptForGood reports whether something on the node keeps it until somebody acts.
func keptForGood(n provision.Node) bool {
	return slices.ContainsFunc(n.Blockers, func(b provision.Blocker) bool { return keeps(b) && !roomless(b) })
}

// keeps reports whether somebody must act before the node is replaced. Other than
// [provision.Node.Blocked] it passes over a node that is starting: it becomes ready,
// or Karpenter removes it.
func keeps(b provision.Blocker) bool { return b.ForcedAfterSeconds == 0 && b.Kind != "starting" }

// roomless reports whether it is the pool's limit that keeps the node.
func roomless(b provision.Blocker) bool { return b.Kind == "limit" }

// shut reports whether the pool's budget is one of no nodes that never opens.
// That none is allowed now may also mean that as many are on their way.
func shut(p provision.RolloutRate) bool {
	number, _, _ := strings.Cut(p.Budget, " ")
	n, err := strconv.Atoi(strings.TrimSuffix(number, "%"))
	return p.AllowedDisruptions == 0 && p.NextWindow.IsZero() && err == nil && n == 0
}

func (x nodeOutcomes) count() int { return len(x.blocked) + total(x.closed) + total(x.full) }

// in counts those of one pool.
func (x nodeOutcomes) in(pool string) int {
	n := x.closed[pool] + x.full[pool]
	for _, b := range x.blocked {
		if b.Pool == pool {
			n++
		}
	}
	return n
}

func total(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// nodes is what becomes of the nodes there are.
func (x nodeOutcomes) nodes(f *provision.Forecast, v style) []phrase {
	var out []phrase
	pools, dying := 0, 0
	for _, r := range f.Removed {
		if len(r.Nodes) > 0 {
			pools, dying = pools+1, dying+len(r.Nodes)
		}
	}
	switch {
	case pools == 1:
		removed := count(dying, "node") + " removed with "
		out = append(out, phrase{removed + "pool " + v.short(onlyRemoved(f)), removed + "a pool", rankName})
	case pools > 1:
		out = append(out, phrase{text: fmt.Sprintf("%s removed with %s", count(dying, "node"), count(pools, "pool"))})
	}
	all, stuck := len(f.Replaced), x.count()
	switch {
	case all == 0 && dying > 0:
	case all == 0 && atMost(f) > 0:
		n := atMost(f)
		out = append(out, phrase{text: fmt.Sprintf("up to %s may be replaced", count(n, "node"))})
	case all == 0 && len(f.Unknown) > 0:
		out = append(out, phrase{text: "no node is known to be replaced"})
	case all == 0:
		out = append(out, phrase{text: "no node is replaced"})
	case stuck > 0:
		out = append(out, phrase{text: fmt.Sprintf("%d of %s replaced%s", all-stuck, count(all, "node"), within(f.Rollout))},
			phrase{"never: " + x.why(), "never: " + count(stuck, "node"), rankWhy})
	default:
		out = append(out, phrase{text: count(all, "node") + " replaced" + within(f.Rollout)})
	}
	if x.unexplained {
		out = append(out, phrase{text: "never: some of them"})
	}
	return out
}

// atMost counts the nodes that may be replaced where something that decides it cannot
// be told.
func atMost(f *provision.Forecast) int {
	n := 0
	for _, p := range f.Pools {
		if p.SomeDrift && p.Replaced == 0 && len(f.Unknown) > 0 {
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
	}{{len(x.blocked), "blocked"}, {total(x.closed), "held by a budget"}, {total(x.full), "without room"}} {
		if c.n == x.count() {
			return count(c.n, "node") + " " + c.what
		}
		if c.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return count(x.count(), "node") + " (" + strings.Join(out, ", ") + ")"
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
