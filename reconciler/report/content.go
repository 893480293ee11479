package report

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Content identifies what the report says: while it stays the same, a comment that
// holds it need not be edited.
//
// It is made of everything that Markdown shows, amounts rounded as they are shown
// there, without what moves in a cluster that nobody changes:
//   - when it was observed;
//   - which pods run on a node or keep it, and how many: that something keeps it
//     counts, and why;
//   - which pods find a node or none, and how many wait either way: the reasons count,
//     and the verdict's numbers of those that no longer find one and of new ones;
//   - how many nodes the budgets allow at this moment, and when they open next;
//   - which nodes had drifted before, of each pool that has some;
//   - what all nodes together cost now and in a month: the difference counts, and each
//     pool whose cost changes;
//   - the day on which prices were read;
//   - numbers in notes that warn of nothing, such as how much of a quota is in use.
func (r Report) Content() string {
	r = r.sanitized()
	if r.Binding != nil && !r.Binding.Observed.IsZero() {
		b := *r.Binding
		b.Observed = time.Unix(0, 0)
		r.Binding = &b
	}
	verdict := r.fullHeadline(plainStyle())
	r.Forecast = steady(r.Forecast)
	r.Notes = steadyNotes(r.Notes)
	if r.Drift != nil {
		d := *r.Drift
		d.Notes = steadyNotes(d.Notes)
		r.Drift = &d
	}
	var text strings.Builder
	if err := r.Markdown(&text, Options{Limit: int(^uint(0) >> 1), Lines: -1}); err != nil {
		return ""
	}
	return state.Hash([]string{verdict, text.String()})[:12]
}

// steadyNotes are notes without the numbers of those that warn of nothing.
func steadyNotes(notes []Note) []Note {
	return each(notes, func(n Note) Note {
		if !n.Warning {
			n.Text = digits.ReplaceAllString(n.Text, "#")
		}
		return n
	})
}

var digits = regexp.MustCompile(`[0-9]+`)

// steady is a forecast without what moves by itself.
func steady(f *provision.Forecast) *provision.Forecast {
	if f == nil {
		return nil
	}
	out := *f
	out.Replaced = each(f.Replaced, steadyNode)
	out.Removed = each(f.Removed, func(r provision.Removal) provision.Removal {
		r.Nodes, r.Pods, r.Rescheduled, r.Unschedulable = each(r.Nodes, steadyNode), 0, 0, 0
		return r
	})
	out.Drifted = nil
	for _, n := range f.Drifted {
		same := func(o provision.Node) bool { return o.Pool == n.Pool && o.Reason == n.Reason }
		if !slices.ContainsFunc(out.Drifted, same) {
			out.Drifted = append(out.Drifted, provision.Node{Pool: n.Pool, Reason: n.Reason})
		}
	}
	out.Pools = each(f.Pools, func(p provision.Pool) provision.Pool {
		p.RolloutRate.AllowedDisruptions, p.RolloutRate.NextWindow = 0, time.Time{}
		if p.Replaced == 0 {
			p.Nodes = 0
		}
		p.Cost.Prices, p.Cost.Unblocked = nil, nil
		if len(p.OverLimit) > 0 {
			p.OverLimit = each(p.OverLimit, func(e provision.Excess) provision.Excess {
				e.Used = ""
				return e
			})
		}
		return p
	})
	out.Fit = provision.Fit{Scheduled: steadyPods(f.Fit.Scheduled), Unscheduled: steadyPods(f.Fit.Unscheduled), Pending: steadyPods(newcomers(f))}
	// The verdict has the difference, rounded as it is shown.
	out.Cost.Now, out.Cost.After = provision.Amount{}, provision.Amount{}
	out.Cost.Unblocked, out.Cost.Notes = nil, nil
	out.Cost.Prices = each(f.Cost.Prices, func(p provision.Price) provision.Price {
		p.Date = ""
		return p
	})
	return &out
}

func steadyNode(n provision.Node) provision.Node {
	blockers := n.Blockers
	n.Pods, n.Blockers = nil, nil
	for _, b := range blockers {
		b.Pod = provision.Pod{}
		same := func(o provision.Blocker) bool {
			return o.Kind == b.Kind && o.ForcedAfterSeconds == b.ForcedAfterSeconds && slices.Equal(o.Budgets, b.Budgets)
		}
		if !slices.ContainsFunc(n.Blockers, same) {
			n.Blockers = append(n.Blockers, b)
		}
	}
	return n
}

// steadyPods is one placement for each pool and reason.
func steadyPods(list []provision.Placement) []provision.Placement {
	var out []provision.Placement
	for _, p := range list {
		p.Pod, p.Similar = provision.Pod{}, 0
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
