package report

import (
	"slices"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// sanitized is the report as it is shown: what the caller set has secrets masked by their
// shape and lists that are not null; guards that hold come first. Every renderer goes
// through it, so that these fields may be set to whatever was found.
func (r Report) sanitized() Report {
	r.Forecast = r.forecast()
	if r.Guards != nil {
		r.Guards = each(r.Guards, func(g Guard) Guard {
			return Guard{Rule: sanitize.Redact(g.Rule), Result: sanitize.Redact(g.Result), Text: sanitize.Redact(g.Text)}
		})
		slices.SortStableFunc(r.Guards, func(a, b Guard) int { return severity(a) - severity(b) })
	}
	if r.Binding != nil {
		b := *r.Binding
		b.Cluster, b.Base, b.MergeBase = sanitize.Redact(b.Cluster), sanitize.Redact(b.Base), sanitize.Redact(b.MergeBase)
		b.BaseCommit, b.HeadCommit = sanitize.Redact(b.BaseCommit), sanitize.Redact(b.HeadCommit)
		r.Binding = &b
	}
	return r
}

func severity(g Guard) int {
	switch g.Result {
	case "held":
		return 0
	case "warning":
		return 1
	}
	return 2
}

// forecast is the Forecast as it is shown; nil where there is none.
func (r Report) forecast() *provision.Forecast {
	if r.Forecast == nil {
		return nil
	}
	f := *r.Forecast
	f.Pools = each(f.Pools, cleanPool)
	f.Replaced = each(f.Replaced, cleanNode)
	f.Drifted = each(f.Drifted, cleanNode)
	f.Removed = each(f.Removed, func(x provision.Removal) provision.Removal {
		x.Pool, x.Nodes = sanitize.Redact(x.Pool), each(x.Nodes, cleanNode)
		return x
	})
	f.Rollout.Assumptions = each(f.Rollout.Assumptions, sanitize.Redact)
	f.Fit = provision.Fit{
		Scheduled:   each(f.Fit.Scheduled, cleanPlacement),
		Unscheduled: each(f.Fit.Unscheduled, cleanPlacement),
		Pending:     each(f.Fit.Pending, cleanPlacement),
	}
	f.Cost.Prices = each(f.Cost.Prices, cleanPrice)
	f.Cost.Notes = cleanNotes(f.Cost.Notes)
	f.Unknown = each(f.Unknown, func(u provision.Unknown) provision.Unknown {
		u.Text = sanitize.Redact(u.Text)
		return u
	})
	return &f
}

// each is a new list of what f makes of the entries, never nil.
func each[T any](in []T, f func(T) T) []T {
	out := make([]T, 0, len(in))
	for _, e := range in {
		out = append(out, f(e))
	}
	return out
}

func cleanPool(p provision.Pool) provision.Pool {
	p.Name = sanitize.Redact(p.Name)
	p.Changes = each(p.Changes, func(c provision.Change) provision.Change {
		c.Object, c.Field, c.Reason = sanitize.Redact(c.Object), sanitize.Redact(c.Field), sanitize.Redact(c.Reason)
		return c
	})
	p.Cost.Prices = each(p.Cost.Prices, cleanPrice)
	p.Cost.Notes = cleanNotes(p.Cost.Notes)
	p.OverLimit = slices.Clone(p.OverLimit)
	for i, e := range p.OverLimit {
		p.OverLimit[i] = provision.Excess{Resource: sanitize.Redact(e.Resource), Used: sanitize.Redact(e.Used), Limit: sanitize.Redact(e.Limit)}
	}
	p.RolloutRate.Budget, p.RolloutRate.LimitReached = sanitize.Redact(p.RolloutRate.Budget), sanitize.Redact(p.RolloutRate.LimitReached)
	return p
}

func cleanNode(n provision.Node) provision.Node {
	n.NodeClaim, n.Name, n.Pool, n.Reason = sanitize.Redact(n.NodeClaim), sanitize.Redact(n.Name), sanitize.Redact(n.Pool), sanitize.Redact(n.Reason)
	n.InstanceType, n.CapacityType, n.Zone = sanitize.Redact(n.InstanceType), sanitize.Redact(n.CapacityType), sanitize.Redact(n.Zone)
	n.Fields, n.Pods = each(n.Fields, sanitize.Redact), each(n.Pods, cleanPod)
	n.Blockers = each(n.Blockers, func(b provision.Blocker) provision.Blocker {
		b.Kind, b.Pod, b.Budgets = sanitize.Redact(b.Kind), cleanPod(b.Pod), each(b.Budgets, sanitize.Redact)
		return b
	})
	return n
}

// cleanNotes are notes of a cost, which are left out where there are none.
func cleanNotes(notes []string) []string {
	if len(notes) == 0 {
		return nil
	}
	return each(notes, sanitize.Redact)
}

func cleanPrice(p provision.Price) provision.Price {
	return provision.Price{CapacityType: sanitize.Redact(p.CapacityType), Basis: sanitize.Redact(p.Basis), Date: sanitize.Redact(p.Date)}
}

func cleanPod(p provision.Pod) provision.Pod {
	p.Namespace, p.Name = sanitize.Redact(p.Namespace), sanitize.Redact(p.Name)
	return p
}

func cleanPlacement(p provision.Placement) provision.Placement {
	p.Pod, p.Workload, p.Pool, p.Reason = cleanPod(p.Pod), sanitize.Redact(p.Workload), sanitize.Redact(p.Pool), sanitize.Redact(p.Reason)
	return p
}

// style is how a format shows what is not ours: a name, a reason, a sentence.
type style struct {
	// name makes a string harmless for the format.
	name func(string) string
	// usd is the dollar sign. In Markdown two of them can make a formula of
	// what is between.
	usd string
	// stacks is true where the last cell of a row may go on in the row below.
	stacks bool
	// at stands between a branch and a commit. What follows a plain one may be
	// taken for somebody's name.
	at string
}

func plainStyle() style {
	return style{name: func(s string) string { return cut(sanitize.Escape(s), lineLimit) }, usd: "$", stacks: true, at: "@"}
}

func markdownStyle() style {
	return style{usd: `\$`, at: " at ", name: func(s string) string {
		if c := codeLine(s, lineLimit); c != "" {
			return c
		}
		return "`?`"
	}}
}

// short is a name in a table.
func (v style) short(s string) string { return v.name(clip(sanitize.Escape(s), nameWidth)) }

// nameWidth is how much is shown of a name in a row of others.
const nameWidth = 40

// pod names a pod.
func (v style) pod(p provision.Pod) string { return v.name(podName(p)) }

func podName(p provision.Pod) string { return p.Namespace + "/" + p.Name }
