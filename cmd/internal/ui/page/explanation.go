package page

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
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
	Pool  string
	Lacks []string
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
		row := lackRow{Pool: clean(p.Name)}
		for _, c := range p.Causes {
			row.Lacks = append(row.Lacks, clean(string(c.Reason)))
		}
		m.Pools = append(m.Pools, row)
	}
	for _, u := range e.Unknown {
		m.Unknown = append(m.Unknown, clean(u))
	}
	return m
}

// failureModel is what a page without content is rendered from.
type failureModel struct {
	statusModel
	Heading, Message string
}
