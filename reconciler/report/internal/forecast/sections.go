package forecast

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Sections are what comes of the changes: what a reviewer must read, then what matters most
// first.
func (v View) Sections(f *provision.Forecast) []section.Section {
	assumed := section.Section{Title: "Assumptions", Color: "bold"}
	if f.Rollout.MaxMinutes > 0 {
		assumed.Folded = append(assumed.Folded, each(f.Rollout.Assumptions, sanitize.Escape)...)
	}
	out := []section.Section{v.removed(f), v.withoutController(f), v.never(f), v.unscheduled(f), v.over(f), v.replaced(f), v.uncountedPools(f), assumed, v.reservationEnds(f), v.repairs(f), v.added(f), v.changed(f)}
	if !v.Proposal {
		out = append(out, v.Drifted(f))
	}
	return append(out, v.scheduled(f), v.waiting(f), v.cost(f))
}

// removed are the pools that go and what dies with them.
func (v View) removed(f *provision.Forecast) section.Section {
	out := section.Section{Title: fmt.Sprintf("Pools removed (%d)", len(f.Removed)), Color: "-", Summary: "The nodes that are removed"}
	var nodes []provision.Node
	for _, gone := range f.Removed {
		l := "pool " + v.Name(gone.Pool) + ": has no nodes"
		switch {
		case len(gone.Nodes) == 0 && v.Offline:
			l = "pool " + v.Name(gone.Pool) + ": all its nodes are removed with their pods; their number is known only in the cluster"
		case len(gone.Nodes) > 0:
			l = fmt.Sprintf("pool %s: %s removed with %s at once, regardless of its budgets, and before replacements are started",
				v.Name(gone.Pool), plural.Count(len(gone.Nodes), "node"), plural.Count(gone.Pods, "pod")) + podDestinations(gone) + v.slowTerminations(gone.Nodes)
		}
		out.Lines = append(out.Lines, l)
		nodes = append(nodes, gone.Nodes...)
	}
	out.Lines, out.Folded = section.First(out.Lines, v.Lines.Few()), v.nodes(nodes, column{})
	return out
}

// never are the nodes that stay until somebody acts.
func (v View) never(f *provision.Forecast) section.Section {
	outcomes := outcomesOf(f)
	out := section.Section{Title: fmt.Sprintf("Never replaced without manual action (%d)", outcomes.count()), Color: "-"}
	for _, p := range f.Pools {
		if n := outcomes.full[p.Name]; n > 0 {
			why := "its limit leaves no capacity for a replacement"
			if p.Disruption.LimitMessage != "" {
				why = v.Name(p.Disruption.LimitMessage)
			}
			out.Lines = append(out.Lines, fmt.Sprintf("pool %s, %s: %s", v.Name(p.Name), plural.Count(n, "node"), why))
		}
		if n := outcomes.closed[p.Name]; n > 0 {
			out.Lines = append(out.Lines, fmt.Sprintf("pool %s, %s: its budget %s never allows one", v.Name(p.Name), plural.Count(n, "node"), v.Name(p.Disruption.Budget)))
		}
	}
	for _, n := range outcomes.blocked {
		who := v.Name(n.NodeClaim)
		if n.Name != "" {
			who += " (" + v.Name(n.Name) + ")"
		}
		out.Lines = append(out.Lines, who+": "+strings.Join(v.blockers(n, requiresAction), "; "))
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// replaced are the nodes that the change replaces: by pool, then in their order.
func (v View) replaced(f *provision.Forecast) section.Section {
	if len(f.Replaced) == 0 {
		return section.Section{}
	}
	outcomes := outcomesOf(f)
	number, stuck := "none", outcomes.count()
	if n := len(f.Replaced) - stuck; n > 0 {
		number = fmt.Sprintf("%d, with %s", n, plural.Count(outcomes.pods, "pod"))
	}
	if stuck > 0 {
		number += fmt.Sprintf("; %d never", stuck)
	}
	out := section.Section{Title: fmt.Sprintf("Nodes replaced (%s)", number), Color: "~", Summary: "Estimated replacement order"}
	if stuck == len(f.Replaced) {
		out.Summary = "Node by node"
	}
	rows := [][]string{{"Pool", "Nodes", "Allowed disruptions", "Drift reason"}}
	for _, p := range f.Pools {
		if p.Replaced == 0 {
			continue
		}
		nodes, pace := fmt.Sprintf("%d of %d", max(0, p.Replaced-outcomes.in(p.Name)), p.Nodes), v.disruption(p.Disruption)
		if n := outcomes.in(p.Name); n > 0 {
			nodes += fmt.Sprintf(", %d never", n)
		}
		if outcomes.full[p.Name] >= p.Replaced {
			pace = "0, limit reached"
		}
		rows = append(rows, []string{v.Short(p.Name), nodes, pace, v.causes(f, p)})
	}
	out.Rows = v.stacked(v.Lines.Rows(rows))
	out.Folded = v.nodes(f.Replaced, column{"Blocked by", outcomes.keptBy})
	return out
}

// stacked gives each line of a last cell a row of its own, where the format does.
func (v View) stacked(rows [][]string) [][]string {
	if !v.Stacks {
		return rows
	}
	var out [][]string
	for _, row := range rows {
		last := len(row) - 1
		for i, l := range strings.Split(row[last], "\n") {
			if i > 0 {
				row = make([]string, last+1)
			}
			out = append(out, append(row[:last:last], l))
		}
	}
	return out
}

// causes are Karpenter's reasons for replacing the pool's nodes, with the fields.
func (v View) causes(f *provision.Forecast, p provision.Pool) string {
	var reasons []string
	fields := map[string][]string{}
	for _, n := range f.Replaced {
		if n.Pool == p.Name && !slices.Contains(reasons, n.Reason) {
			reasons = append(reasons, n.Reason)
		}
	}
	for _, c := range p.Changes {
		if c.Reason == "" {
			continue
		}
		if !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
		fields[c.Reason] = append(fields[c.Reason], v.Name(c.String()))
	}
	for i, r := range reasons {
		reasons[i] = v.Name(r)
		if len(fields[r]) > 0 {
			reasons[i] += ": " + markup.Names(fields[r])
		}
	}
	if v.Stacks {
		return strings.Join(reasons, "\n")
	}
	return strings.Join(reasons, "<br>")
}

// disruption is how many nodes at once, and which budget sets that.
func (v View) disruption(p provision.PoolDisruption) string {
	out := strconv.Itoa(p.AllowedDisruptions)
	if !p.NextWindow.IsZero() {
		out += " until " + p.NextWindow.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	if p.Budget != "" {
		out += " (budget " + v.Name(p.Budget) + ")"
	}
	return out
}

// added are the pools that come.
func (v View) added(f *provision.Forecast) section.Section {
	var names []string
	for _, p := range f.Pools {
		if p.Action == "create" {
			names = append(names, v.Name(p.Name))
		}
	}
	return section.Section{Title: fmt.Sprintf("Pools added (%d)", len(names)), Color: "+", Lines: section.First(names, v.Lines.Few())}
}

// changed are the pools that change without any node being replaced for it.
func (v View) changed(f *provision.Forecast) section.Section {
	out, uncounted := section.Section{Color: "bold"}, v.uncounted(f)
	for _, p := range f.Pools {
		if slices.ContainsFunc(uncounted, func(u provision.Pool) bool { return u.Name == p.Name }) {
			continue
		}
		if p.Replaced > 0 || p.Action == "create" || p.Action == "delete" || p.Action == "" && len(p.Changes) == 0 {
			continue
		}
		l := "pool " + v.Name(p.Name)
		var fields []string
		for _, c := range p.Changes {
			fields = append(fields, v.Name(c.String()))
		}
		if len(fields) > 0 {
			l += ": " + markup.Names(fields)
		}
		out.Lines = append(out.Lines, l)
	}
	known := ""
	if len(f.Unknown) > 0 {
		known = "known to be "
	}
	out.Title = fmt.Sprintf("Pools changed, no node %sreplaced (%d)", known, len(out.Lines))
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// Drifted are the nodes that are replaced with the change or without.
func (v View) Drifted(f *provision.Forecast) section.Section {
	return section.Section{
		Title: fmt.Sprintf("Nodes replaced anyway, as they drifted before (%d)", len(f.Drifted)), Color: "bold",
		Folded: v.nodes(f.Drifted, column{"Reason", cause}),
	}
}
