package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision"
)

// fate sorts the nodes that are to be replaced and never are.
type fate struct {
	// blocked are those that something on them keeps.
	blocked []provision.Node
	// closed and full count the others of a pool whose budgets never allow one,
	// and of a pool that has no room for a replacement.
	closed, full map[string]int
	// pods counts those on the nodes that are replaced.
	pods int
	// unexplained is true when the forecast knows of such nodes and says not which.
	unexplained bool
}

func judge(f *provision.Forecast) fate {
	out := fate{closed: map[string]int{}, full: map[string]int{}}
	pools := map[string]provision.Pace{}
	for _, p := range f.Pools {
		pools[p.Name] = p.Pace
	}
	waiting := 0
	for _, n := range f.Replaced {
		pace := pools[n.Pool]
		switch {
		case keptForGood(n):
			out.blocked = append(out.blocked, n)
		case pace.Full != "":
			out.full[n.Pool]++
		case shut(pace):
			out.closed[n.Pool]++
		default:
			out.pods += len(n.Pods)
			if len(n.Blockers) > 0 {
				waiting++
			}
		}
	}
	out.unexplained = f.Rollout.Never && out.count()+waiting == 0
	return out
}

// keptForGood reports whether somebody must act before the node is replaced. Other
// than [provision.Node.Blocked] it passes over a node that is starting: it becomes
// ready, or Karpenter removes it.
func keptForGood(n provision.Node) bool {
	for _, b := range n.Blockers {
		if b.ForcedAfterSeconds == 0 && b.Kind != "starting" {
			return true
		}
	}
	return false
}

// shut reports whether the pool's budget is one of no nodes that never opens.
// That none is allowed now may also mean that as many are on their way.
func shut(p provision.Pace) bool {
	number, _, _ := strings.Cut(p.Limited, " ")
	n, err := strconv.Atoi(strings.TrimSuffix(number, "%"))
	return p.AtOnce == 0 && p.Waits.IsZero() && err == nil && n == 0
}

func (x fate) count() int { return len(x.blocked) + total(x.closed) + total(x.full) }

func total(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// nodes says what becomes of the nodes there are.
func (x fate) nodes(f *provision.Forecast, v voice) []string {
	var out []string
	pools, dying := 0, 0
	for _, r := range f.Removed {
		if len(r.Nodes) > 0 {
			pools, dying = pools+1, dying+len(r.Nodes)
		}
	}
	switch {
	case pools == 1:
		out = append(out, fmt.Sprintf("%s with pool %s", conjugated(dying, "node", "die"), v.short(onlyRemoved(f))))
	case pools > 1:
		out = append(out, fmt.Sprintf("%s with %s", conjugated(dying, "node", "die"), count(pools, "pool")))
	}
	all, stuck := len(f.Replaced), x.count()
	switch {
	case all == 0 && dying > 0:
	case all == 0 && len(f.Unknown) > 0:
		out = append(out, "no node is known to be replaced")
	case all == 0:
		out = append(out, "no node is replaced")
	case stuck > 0:
		out = append(out, fmt.Sprintf("%d of %s replaced%s", all-stuck, count(all, "node"), within(f.Rollout)), "never: "+x.why())
	default:
		out = append(out, count(all, "node")+" replaced"+within(f.Rollout))
	}
	if x.unexplained {
		out = append(out, "never: some of them")
	}
	return out
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
func (x fate) why() string {
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
