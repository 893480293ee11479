package page

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
)

// gaugeOf is a limit of a pool.
func gaugeOf(l get.Limit) gauge {
	g := gauge{Used: quantity(l.Used), Limit: quantity(l.Limit), Resource: clean(strings.TrimPrefix(l.Resource, "nvidia.com/"))}
	used, errUsed := resource.ParseQuantity(l.Used)
	limit, errLimit := resource.ParseQuantity(l.Limit)
	if errUsed == nil && errLimit == nil {
		g.Percent = percent(used.AsApproximateFloat64(), limit.AsApproximateFloat64())
	}
	return g
}

// quantity is one as Kubernetes writes it; of memory, in the unit in which a person compares it.
func quantity(text string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Format != resource.BinarySI || q.Value() < 1<<30 {
		return clean(text)
	}
	return strings.TrimSuffix(strconv.FormatFloat(q.AsApproximateFloat64()/(1<<30), 'f', 1, 64), ".0") + " Gi"
}

// causeRow is a cause of an explanation.
type causeRow struct {
	Reason   string
	Possible bool
	Text     string
	Message  string
	// Changes are what would remove it.
	Changes []string
}

// lackRow is what a pool lacks for a pod.
type lackRow struct {
	Pool, Path string
	Lacks      []string
}

// explanationModel is what the page of a pod, a node or a pool is rendered from.
type explanationModel struct {
	statusModel
	// Interrupted is what has kept it from being up to date; empty where nothing has.
	Interrupted string
	Object      string
	Since       string
	Causes      []causeRow
	Pools       []lackRow
	Unknown     []string
	// Life is what the history has of a node; nil where it has nothing.
	Life *lifeModel
}

// RecordedNode is what the history has of a node, by its name or that of its NodeClaim, of several the latest; nil where it has nothing.
// Of one that the report has it is that of its NodeClaim: AWS gives the address that a Node is named after to later instances, too.
func RecordedNode(r get.Report, h history.History, name string) *history.NodeClaim {
	live := slices.IndexFunc(r.Nodes, func(n get.Node) bool { return n.Name == name || n.NodeClaim == name })
	for _, n := range slices.Backward(h.NodeClaims) {
		switch {
		case live >= 0 && n.Name != r.Nodes[live].NodeClaim:
		case live >= 0, n.Name == name, n.Node == name:
			return &n
		}
	}
	return nil
}

// lifeModel is the life of a node, from the history.
type lifeModel struct {
	nodeRow
	Launched  metav1.Time
	Pods      []string
	PriceHour string
	Idle      string
	Requested string
	// Until is until when a node that runs is recorded; empty of one that was terminated.
	Until string
}

// lifeOf is the life of a node. Of one that runs, the report has the phases up to now, and the history those until it was written.
func lifeOf(n history.NodeClaim, r get.Report, until, now time.Time) *lifeModel {
	row := terminatedRow(n, now, window(n, now))
	out := &lifeModel{nodeRow: row, Launched: n.Launched, Idle: unknown, Requested: unknown}
	if !row.Record.Gone {
		phases := phasesOf(n)
		if i := slices.IndexFunc(r.Nodes, func(live get.Node) bool { return live.NodeClaim == n.Name }); i >= 0 {
			phases = r.Nodes[i].Phases
		}
		out.Timeline, out.Until = timelineOf(phases, now, now, window(n, now)), clock(until, now)
	}
	for _, p := range n.Pods {
		out.Pods = append(out.Pods, clean(p))
	}
	if observed := n.GPUSeconds.Paid - n.GPUSeconds.Unobserved; observed > 0 {
		out.Idle = hours(n.GPUSeconds.Idle) + " GPU hours (" + share(n.GPUSeconds.Idle, observed) + ")"
		out.Requested = hours(n.GPUSeconds.Requested) + " GPU hours (" + share(n.GPUSeconds.Requested, observed) + ")"
	}
	return out
}

// window is how long ago a node was created.
func window(n history.NodeClaim, now time.Time) time.Duration {
	return max(time.Minute, now.Sub(n.Created.Time))
}

func explanationOf(in ExplanationInput) explanationModel {
	e, report := in.Explanation, in.Report
	report.Time = e.Time
	m := explanationModel{statusModel: statusOf(report, in.Interrupted), Interrupted: interruptionText(in.Interrupted, e.Time.Time), Object: clean(e.Object)}
	m.Since = m.Age(e.Since)
	m.Title = m.titled(clean(in.Name))
	for _, c := range e.Causes {
		row := causeRow{Reason: clean(string(c.Reason)), Possible: c.Possible, Text: clean(e.Sentence(c)), Message: clean(c.Message)}
		for _, ch := range c.Changes {
			row.Changes = append(row.Changes, clean(explain.ChangeText(ch)))
		}
		m.Causes = append(m.Causes, row)
	}
	for _, p := range e.NodePools {
		row := lackRow{Pool: clean(p.Name), Path: pathOf("pools", p.Name)}
		for _, c := range p.Causes {
			row.Lacks = append(row.Lacks, clean(string(c.Reason)))
		}
		m.Pools = append(m.Pools, row)
	}
	for _, u := range e.Unknown {
		m.Unknown = append(m.Unknown, clean(u))
	}
	if in.Recorded != nil {
		m.Life = lifeOf(*in.Recorded, report, in.RecordedUntil, e.Time.Time)
	}
	return m
}

// failureModel is what a page without content is rendered from.
type failureModel struct {
	statusModel
	Heading, Message string
}
