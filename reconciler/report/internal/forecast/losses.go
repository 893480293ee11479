package forecast

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// withoutController are the pods that nothing makes again once their node is gone.
func (v View) withoutController(f *provision.Forecast) section.Section {
	pods := outcomesOf(f).withoutController
	out := section.Section{Title: fmt.Sprintf("Pods that will not be recreated (%d)", len(pods)), Color: "-"}
	for _, p := range pods {
		out.Lines = append(out.Lines, v.pod(p))
	}
	slices.Sort(out.Lines)
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// overLimit are the pools whose limits the change sets below what is in use.
func overLimit(f *provision.Forecast) []provision.Pool {
	return slices.DeleteFunc(slices.Clone(f.Pools), func(p provision.Pool) bool { return len(p.OverLimit) == 0 })
}

// over is which limits these are.
func (v View) over(f *provision.Forecast) section.Section {
	pools := overLimit(f)
	out := section.Section{Title: fmt.Sprintf("Limits below what is in use (%d)", len(pools)), Color: "~"}
	for _, p := range pools {
		var limits []string
		for _, e := range p.OverLimit {
			limits = append(limits, fmt.Sprintf("%s: %s in use, %s allowed", v.Name(e.Resource), v.Name(e.Used), v.Name(e.Limit)))
		}
		out.Lines = append(out.Lines, "pool "+v.Name(p.Name)+", "+markup.Names(limits)+"; no node is launched until enough are terminated")
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// podDestinations is where the pods of a pool go that goes.
func podDestinations(r provision.RemovedPool) string {
	var out []string
	if r.Rescheduled > 0 {
		out = append(out, markup.CountWithVerb(r.Rescheduled, "pod", "find")+" another node")
	}
	if r.Unschedulable > 0 {
		out = append(out, markup.CountWithVerb(r.Unschedulable, "pod", "find")+" no other")
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, ", ")
}

// slowTerminations is what slows down the end of nodes whose pool goes: budgets and pods
// that are not to be disrupted still count when a node is drained.
func (v View) slowTerminations(nodes []provision.Node) string {
	var all provision.Node
	wait := 0
	for _, n := range nodes {
		before := len(all.Blockers)
		for _, b := range n.Blockers {
			if b.Kind == blocker.PDB || b.Kind == blocker.DoNotDisrupt {
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

// uncountedPart are the pools of which only a cluster shows how many nodes are
// replaced.
func (v View) uncountedPools(f *provision.Forecast) section.Section {
	pools := v.uncounted(f)
	out := section.Section{Title: fmt.Sprintf("Pools whose nodes are replaced; their number is known only in the cluster (%d)", len(pools)), Color: "~"}
	v.Stacks = false // One line a pool.
	for _, p := range pools {
		l := "pool " + v.Name(p.Name) + ", all of them"
		if !p.ReplacesAll {
			l = "pool " + v.Name(p.Name) + ", those that no longer match"
		}
		if causes := v.causes(&provision.Forecast{}, p); causes != "" {
			l += ": " + strings.ReplaceAll(causes, "<br>", "; ")
		}
		out.Lines = append(out.Lines, l)
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// uncounted are the pools whose nodes the change replaces, where no cluster was read that
// shows how many there are.
func (v View) uncounted(f *provision.Forecast) []provision.Pool {
	if !v.Offline {
		return nil
	}
	var out []provision.Pool
	for _, p := range f.Pools {
		if p.Nodes == 0 && (p.ReplacesAll || p.ReplacesSome) {
			out = append(out, p)
		}
	}
	return out
}
