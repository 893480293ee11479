package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision"
)

// lost are the pods that nothing makes again once their node is gone.
func (o Options) lost(f *provision.Forecast, v style) part {
	pods := outcomesOf(f).lost
	out := part{title: fmt.Sprintf("Pods that will not be recreated (%d)", len(pods)), how: "-"}
	for _, p := range pods {
		out.lines = append(out.lines, v.pod(p))
	}
	slices.Sort(out.lines)
	out.lines = first(out.lines, o.few())
	return out
}

// overLimit are the pools whose limits the step sets below what is in use.
func overLimit(f *provision.Forecast) []provision.Pool {
	return slices.DeleteFunc(slices.Clone(f.Pools), func(p provision.Pool) bool { return len(p.OverLimit) == 0 })
}

// over is which limits these are.
func (o Options) over(f *provision.Forecast, v style) part {
	pools := overLimit(f)
	out := part{title: fmt.Sprintf("Limits below what is in use (%d)", len(pools)), how: "~"}
	for _, p := range pools {
		var limits []string
		for _, e := range p.OverLimit {
			limits = append(limits, fmt.Sprintf("%s: %s in use, %s allowed", v.name(e.Resource), v.name(e.Used), v.name(e.Limit)))
		}
		out.lines = append(out.lines, "pool "+v.name(p.Name)+", "+enough(limits)+"; no node is launched until enough are terminated")
	}
	out.lines = first(out.lines, o.few())
	return out
}

// podDestinations is where the pods of a pool go that goes.
func podDestinations(r provision.Removal) string {
	var out []string
	if r.Rescheduled > 0 {
		out = append(out, conjugated(r.Rescheduled, "pod", "find")+" another node")
	}
	if r.Unschedulable > 0 {
		out = append(out, conjugated(r.Unschedulable, "pod", "find")+" no other")
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, ", ")
}

// lingering is what slows down the end of nodes whose pool goes: budgets and pods
// that are not to be disrupted still count when a node is drained.
func (v style) lingering(nodes []provision.Node) string {
	var all provision.Node
	wait := 0
	for _, n := range nodes {
		before := len(all.Blockers)
		for _, b := range n.Blockers {
			if b.Kind == "pdb" || b.Kind == "do-not-disrupt" {
				b.Pod = provision.Pod{}
				all.Blockers = append(all.Blockers, b)
			}
		}
		if len(all.Blockers) > before {
			wait++
		}
	}
	if wait == 0 {
		return ""
	}
	why := v.blockers(all, func(provision.Blocker) bool { return true })
	who := "1 of the nodes waits for its pods"
	if wait > 1 {
		who = fmt.Sprintf("%d of the nodes wait for their pods", wait)
	}
	return "; " + who + ": " + strings.Join(why, "; ")
}

// uncountedPart are the pools of which only a cluster can tell how many nodes are
// replaced.
func (r Report) uncountedPart(o Options, v style) part {
	pools := r.uncounted()
	out := part{title: fmt.Sprintf("Pools whose nodes are replaced; their number is known only in the cluster (%d)", len(pools)), how: "~"}
	v.stacks = false // One line a pool.
	for _, p := range pools {
		l := "pool " + v.name(p.Name) + ", all of them"
		if !p.Drifts {
			l = "pool " + v.name(p.Name) + ", those that no longer match"
		}
		if causes := v.causes(&provision.Forecast{}, p); causes != "" {
			l += ": " + strings.ReplaceAll(causes, "<br>", "; ")
		}
		out.lines = append(out.lines, l)
	}
	out.lines = first(out.lines, o.few())
	return out
}
