package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// part is one part of the consequences, as text of ours around names that the
// voice made harmless. The zero part is none.
type part struct {
	title, how string
	// rows are a table, the first its head.
	rows [][]string
	// lines are sentences, short enough to be read by everybody.
	lines []string
	// folded are the lines for those who want to know more, below a summary;
	// without one, below the title. They are plain text in any voice.
	summary string
	folded  []string
}

// few is how many lines are shown of a list that everybody reads, many of one
// for those who want to know more. Both keep to Options.Lines.
func (o Options) few() int {
	if o.Lines < 0 {
		return o.many()
	}
	return min(o.many(), fewLines)
}

func (o Options) many() int {
	switch {
	case o.Lines == 0:
		return defaultLines
	case o.Lines < 0:
		return int(^uint(0) >> 1)
	}
	return o.Lines
}

// first are the first n of lines, and how many more there are.
func first(lines []string, n int) []string {
	if left := len(lines) - n; left > 0 {
		return append(lines[:n:n], more(left))
	}
	return lines
}

func more(n int) string { return fmt.Sprintf("… and %d more (plan -o json has all)", n) }

// rows are the head and the first n others.
func (o Options) rows(rows [][]string, n int) [][]string {
	if len(rows)-1 <= n {
		return rows
	}
	return append(rows[:n+1:n+1], []string{fmt.Sprintf("… and %d more", len(rows)-1-n)})
}

// consequences are what comes of the changes: what a reviewer must have seen, then
// what matters most first.
func (r Report) consequences(o Options, v style) []part {
	f := r.Forecast
	if f == nil || r.idle() {
		return nil
	}
	assumed := part{title: "Assumptions", how: "bold"}
	if f.Rollout.MaxMinutes > 0 {
		assumed.folded = append(assumed.folded, each(f.Rollout.Assumptions, sanitize.Escape)...)
	}
	out := []part{r.removed(o, v), o.lost(f, v), o.never(f, v), o.unscheduled(f, v), o.over(f, v), o.replaced(f, v), r.uncountedPart(o, v), assumed, o.added(f, v), r.changed(o, v)}
	if !r.proposal() {
		out = append(out, o.drifted(f))
	}
	return append(out, o.scheduled(f, v), o.waiting(f), o.cost(f, v))
}

// empty reports whether there is nothing in it.
func (p part) empty() bool { return len(p.rows)+len(p.lines)+len(p.folded) == 0 }

// removed are the pools that go and what dies with them.
func (r Report) removed(o Options, v style) part {
	f := r.Forecast
	out := part{title: fmt.Sprintf("Pools removed (%d)", len(f.Removed)), how: "-", summary: "The nodes that are removed"}
	var nodes []provision.Node
	for _, gone := range f.Removed {
		l := "pool " + v.name(gone.Pool) + ": has no nodes"
		switch {
		case len(gone.Nodes) == 0 && r.offline():
			l = "pool " + v.name(gone.Pool) + ": all its nodes are removed with their pods; their number is known only in the cluster"
		case len(gone.Nodes) > 0:
			l = fmt.Sprintf("pool %s: %s removed with %s at once, regardless of its budgets, and before replacements are started",
				v.name(gone.Pool), count(len(gone.Nodes), "node"), count(gone.Pods, "pod")) + podDestinations(gone) + v.lingering(gone.Nodes)
		}
		out.lines = append(out.lines, l)
		nodes = append(nodes, gone.Nodes...)
	}
	out.lines, out.folded = first(out.lines, o.few()), o.nodes(nodes, column{})
	return out
}

// never are the nodes that stay until somebody acts.
func (o Options) never(f *provision.Forecast, v style) part {
	fate := outcomesOf(f)
	out := part{title: fmt.Sprintf("Never replaced without manual action (%d)", fate.count()), how: "-"}
	for _, p := range f.Pools {
		if n := fate.full[p.Name]; n > 0 {
			why := "its limit leaves no room for a replacement"
			if p.RolloutRate.LimitReached != "" {
				why = v.name(p.RolloutRate.LimitReached)
			}
			out.lines = append(out.lines, fmt.Sprintf("pool %s, %s: %s", v.name(p.Name), count(n, "node"), why))
		}
		if n := fate.closed[p.Name]; n > 0 {
			out.lines = append(out.lines, fmt.Sprintf("pool %s, %s: its budget %s never allows one", v.name(p.Name), count(n, "node"), v.name(p.RolloutRate.Budget)))
		}
	}
	for _, n := range fate.blocked {
		who := v.name(n.NodeClaim)
		if n.Name != "" {
			who += " (" + v.name(n.Name) + ")"
		}
		out.lines = append(out.lines, who+": "+strings.Join(v.blockers(n, keeps), "; "))
	}
	out.lines = first(out.lines, o.few())
	return out
}

// fewNames is how many names of pods or fields are shown where they are many.
const fewNames = 3

// blockers is what keeps a node, each reason once for all pods that it concerns.
func (v style) blockers(n provision.Node, which func(provision.Blocker) bool) []string {
	var reasons []string
	pods := map[string][]string{}
	for _, b := range n.Blockers {
		if !which(b) {
			continue
		}
		r := v.blocker(b)
		if !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
		if b.Pod != (provision.Pod{}) {
			pods[r] = append(pods[r], v.pod(b.Pod))
		}
	}
	for i, r := range reasons {
		if concerned := pods[r]; len(concerned) > 0 {
			reasons[i] += ": " + enough(concerned)
		}
	}
	if len(reasons) > fewNames {
		reasons = append(reasons[:fewNames:fewNames], fmt.Sprintf("%d reasons more", len(reasons)-fewNames))
	}
	return reasons
}

func (v style) blocker(b provision.Blocker) string {
	var out string
	switch b.Kind {
	case "do-not-disrupt":
		out = "annotated do-not-disrupt"
	case "unschedulable":
		out = "would find no other node"
	case "node":
		out = "the node is annotated do-not-disrupt"
	case "starting":
		out = "the node is starting"
	case "limit":
		out = "the pool's limit leaves no room for a replacement"
	case "pdb":
		names := make([]string, 0, len(b.Budgets))
		for _, s := range b.Budgets {
			names = append(names, v.name(s))
		}
		out = "PodDisruptionBudget " + enough(names) + " allows no eviction"
	default:
		out = v.name(b.Kind)
	}
	if b.ForcedAfterSeconds > 0 {
		out += ", overruled after " + lasting(time.Duration(b.ForcedAfterSeconds)*time.Second)
	}
	return out
}

// lasting writes a time without the units that are zero.
func lasting(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// enough names the first few.
func enough(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// replaced are the nodes that the step replaces: by pool, then in their order.
func (o Options) replaced(f *provision.Forecast, v style) part {
	if len(f.Replaced) == 0 {
		return part{}
	}
	fate := outcomesOf(f)
	number, stuck := "none", fate.count()
	if n := len(f.Replaced) - stuck; n > 0 {
		number = fmt.Sprintf("%d, with %s", n, count(fate.pods, "pod"))
	}
	if stuck > 0 {
		number += fmt.Sprintf("; %d never", stuck)
	}
	out := part{title: fmt.Sprintf("Nodes replaced (%s)", number), how: "~", summary: "Estimated replacement order"}
	if stuck == len(f.Replaced) {
		out.summary = "Node by node"
	}
	rows := [][]string{{"Pool", "Nodes", "At once", "Because of"}}
	for _, p := range f.Pools {
		if p.Replaced == 0 {
			continue
		}
		nodes, pace := fmt.Sprintf("%d of %d", max(0, p.Replaced-fate.in(p.Name)), p.Nodes), v.rolloutRate(p.RolloutRate)
		if n := fate.in(p.Name); n > 0 {
			nodes += fmt.Sprintf(", %d never", n)
		}
		if fate.full[p.Name] >= p.Replaced {
			pace = "0, no room"
		}
		rows = append(rows, []string{v.short(p.Name), nodes, pace, v.causes(f, p)})
	}
	out.rows = v.stacked(o.rows(rows, o.many()))
	out.folded = o.nodes(f.Replaced, column{"Held up by", fate.keptBy})
	return out
}

// stacked gives each line of a last cell a row of its own, where the format does.
func (v style) stacked(rows [][]string) [][]string {
	if !v.stacks {
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
func (v style) causes(f *provision.Forecast, p provision.Pool) string {
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
		fields[c.Reason] = append(fields[c.Reason], v.name(strings.TrimSpace(c.Object+" "+c.Field)))
	}
	for i, r := range reasons {
		reasons[i] = v.name(r)
		if len(fields[r]) > 0 {
			reasons[i] += ": " + enough(fields[r])
		}
	}
	if v.stacks {
		return strings.Join(reasons, "\n")
	}
	return strings.Join(reasons, "<br>")
}

// rolloutRate is how many nodes at once, and which budget sets that.
func (v style) rolloutRate(p provision.RolloutRate) string {
	out := strconv.Itoa(p.AllowedDisruptions)
	if !p.NextWindow.IsZero() {
		out += " until " + p.NextWindow.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	if p.Budget != "" {
		out += " (budget " + v.name(p.Budget) + ")"
	}
	return out
}

// added are the pools that come.
func (o Options) added(f *provision.Forecast, v style) part {
	var names []string
	for _, p := range f.Pools {
		if p.Action == "create" {
			names = append(names, v.name(p.Name))
		}
	}
	return part{title: fmt.Sprintf("Pools added (%d)", len(names)), how: "+", lines: first(names, o.few())}
}

// changed are the pools that change without any node being replaced for it.
func (r Report) changed(o Options, v style) part {
	out, f, uncounted := part{how: "bold"}, r.Forecast, r.uncounted()
	for _, p := range f.Pools {
		if slices.ContainsFunc(uncounted, func(u provision.Pool) bool { return u.Name == p.Name }) {
			continue
		}
		if p.Replaced > 0 || p.Action == "create" || p.Action == "delete" || p.Action == "" && len(p.Changes) == 0 {
			continue
		}
		l := "pool " + v.name(p.Name)
		var fields []string
		for _, c := range p.Changes {
			fields = append(fields, v.name(strings.TrimSpace(c.Object+" "+c.Field)))
		}
		if len(fields) > 0 {
			l += ": " + enough(fields)
		}
		out.lines = append(out.lines, l)
	}
	known := ""
	if len(f.Unknown) > 0 {
		known = "known to be "
	}
	out.title = fmt.Sprintf("Pools changed, no node %sreplaced (%d)", known, len(out.lines))
	out.lines = first(out.lines, o.few())
	return out
}

// drifted are the nodes that are replaced with the step or without.
func (o Options) drifted(f *provision.Forecast) part {
	return part{
		title: fmt.Sprintf("Nodes replaced anyway, as they drifted before (%d)", len(f.Drifted)), how: "bold",
		folded: o.nodes(f.Drifted, column{"Reason", cause}),
	}
}
