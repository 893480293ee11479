package benchmark

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
)

// Page is what docs/performance.md has of a run. Its JSON form is what a run that goes on with an earlier
// one reads.
type Page struct {
	// Machine is where it was measured, with so many Processors, and Versions of what.
	Machine, Versions string
	Processors        int
	Comparisons       []*Comparison
	// Nodes is nil where no nodes were measured.
	Nodes *NodeComparison `json:",omitempty"`
	// Head is the text before the tables, and Foot that after them.
	Head, Foot string `json:"-"`
}

// Comparison is that of a number of objects, which is added where there is none. One of other systems is
// replaced.
func (p *Page) Comparison(objects int, systems []System) *Comparison {
	fresh := newComparison(objects, systems)
	at := slices.IndexFunc(p.Comparisons, func(c *Comparison) bool { return c.Objects == objects })
	switch {
	case at < 0:
		p.Comparisons = append(p.Comparisons, fresh)
	case slices.Equal(p.Comparisons[at].Systems, fresh.Systems):
		return p.Comparisons[at]
	default:
		p.Comparisons[at] = fresh
	}
	return fresh
}

// AddNodes adds a comparison of systems that provision nodes, unless there is one.
func (p *Page) AddNodes(together int, systems []NodeSystem) {
	if p.Nodes != nil {
		return
	}
	p.Nodes = &NodeComparison{Nodes: together, Single: map[string][]NodeUsage{}, Owned: map[string][]NodeUsage{}, Together: map[string][]NodeUsage{}}
	for _, s := range systems {
		p.Nodes.Systems = append(p.Nodes.Systems, s.Name)
	}
}

// titles are what the operations are called in the tables.
var titles = map[Operation]string{
	FirstApply: "first apply", NoChange: "requested run, no difference", OneChange: "requested run, one object changed in Git", LiveEdit: "object edited in the cluster",
}

// measureColumn is one measure of a usage in the tables.
type measureColumn struct {
	name string
	of   func(Usage) float64
	// format is for the median, and for the ends of the spread.
	format string
	// sampled is true where not every usage has it.
	sampled bool
}

// measured are those of some usages that have the measure.
func (m measureColumn) measured(all []Usage) []Usage {
	if m.sampled {
		return slices.DeleteFunc(slices.Clone(all), func(u Usage) bool { return u.Private == 0 })
	}
	return all
}

func columns() []measureColumn {
	return []measureColumn{
		{"requests to the API server", func(u Usage) float64 { return float64(u.Requests) }, "%.0f", false},
		{"processor time, s", func(u Usage) float64 { return u.CPU.Seconds() }, "%.2f", false},
		{"private memory with children, MiB", func(u Usage) float64 { return float64(u.Private) / (1 << 20) }, "%.0f", true},
		{"resident memory, MiB", func(u Usage) float64 { return float64(u.Peak) / (1 << 20) }, "%.0f", false},
		{"time, s", func(u Usage) float64 { return u.Wall.Seconds() }, "%.3g", false},
	}
}

// Write writes the page as Markdown.
func (p *Page) Write(to io.Writer) error {
	var out strings.Builder
	out.WriteString(p.Head + "\n")
	fmt.Fprintf(&out, "| | |\n|---|---|\n| machine | %s |\n| versions | %s |\n", p.Machine, p.Versions)
	if p.Nodes != nil && len(p.Nodes.Load) > 0 {
		p.writeNodes(&out)
	}
	for _, c := range p.Comparisons {
		if len(c.Load) > 0 {
			p.writeObjects(&out, c)
		}
	}
	out.WriteString("\n" + p.Foot)
	if _, err := io.WriteString(to, out.String()); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// loads writes the load averages of the rounds, and what follows from one that is more than the processors.
func (p *Page) loads(all []float64) string {
	var texts []string
	busy := 0
	for _, l := range all {
		texts = append(texts, fmt.Sprintf("%.2f", l))
		if l > float64(p.Processors) {
			busy++
		}
	}
	text := "The load average at the beginning of each round was " + strings.Join(texts, ", ") + "."
	if busy > 0 {
		text += fmt.Sprintf(" **In %d of %d rounds that is more than the %s: their times are mostly those of other work.**", busy, len(all), plural.Count(p.Processors, "processor"))
	}
	return text
}

// nodeMeasure is a row of the table about nodes.
type nodeMeasure struct {
	name, format string
	of           map[string][]NodeUsage
	value        func(NodeUsage) float64
}

// writeNodes writes the table about nodes.
func (p *Page) writeNodes(out *strings.Builder) {
	c := p.Nodes
	fmt.Fprintf(out, "\n## Nodes\n\n%s of each, after one that is not counted. %s\n\n", plural.Count(len(c.Load), "round"), p.loads(c.Load))
	fmt.Fprintf(out, "| | %s | ratio |\n|---|%s---|\n", strings.Join(c.Systems, " | "), strings.Repeat("---|", len(c.Systems)))
	rows := []nodeMeasure{
		{"first pending pod → CreateFleet, s", "%.3g", c.Single, func(u NodeUsage) float64 { return u.Launch.Seconds() }},
		{"the same of the only pod of a ReplicaSet, from the ReplicaSet, s", "%.3g", c.Owned, func(u NodeUsage) float64 { return u.Launch.Seconds() }},
		{"last pod gone → TerminateInstances, s beyond consolidateAfter", "%.3g", c.Single, func(u NodeUsage) float64 { return u.Terminate.Seconds() }},
		{fmt.Sprintf("the same of the last of %d nodes that become empty together, in %s", c.Nodes, plural.Count(len(c.Together[c.Systems[0]]), "round")), "%.3g", c.Together, func(u NodeUsage) float64 { return u.Terminate.Seconds() }},
		{"processor time of the life of a node, s", "%.2f", c.Single, func(u NodeUsage) float64 { return u.Usage.CPU.Seconds() }},
		{"requests to the API server in the life of a node", "%.0f", c.Single, func(u NodeUsage) float64 { return float64(u.Usage.Requests) }},
		{"resident memory, MiB", "%.0f", c.Single, func(u NodeUsage) float64 { return float64(u.Usage.Peak) / (1 << 20) }},
	}
	for _, row := range rows {
		if len(row.of) == 0 {
			continue
		}
		fmt.Fprintf(out, "| %s |", row.name)
		var medians []float64
		for _, system := range c.Systems {
			var values []float64
			for _, u := range row.of[system] {
				values = append(values, row.value(u))
			}
			s := statistics(values)
			medians = append(medians, s.Median)
			fmt.Fprintf(out, " %s |", s.text(row.format))
		}
		fmt.Fprintf(out, " %s |\n", ratio(medians))
	}
}

// writeObjects writes the tables of one number of objects.
func (p *Page) writeObjects(out *strings.Builder, c *Comparison) {
	fmt.Fprintf(out, "\n## %s objects\n\n", thousands(c.Objects))
	bare := make([]float64, len(c.Bare))
	for i, d := range c.Bare {
		bare[i] = d.Seconds()
	}
	floor := statistics(bare)
	fmt.Fprintf(out, "%s of each, with all but the first apply three times in each. Bare server-side apply of the same objects, %d at a time: %s s. %s\n\n",
		plural.Count(len(c.Bare), "round"), applyWorkers, floor.text("%.3g"), p.loads(c.Load))
	fmt.Fprintf(out, "| | | %s | ratio |\n|---|---|%s---|\n", strings.Join(c.Systems, " | "), strings.Repeat("---|", len(c.Systems)))
	for _, o := range Operations() {
		name := titles[o]
		for _, column := range columns() {
			fmt.Fprintf(out, "| %s | %s |", name, column.name)
			name = ""
			var medians []float64
			for _, system := range c.Systems {
				s := NewStatistics(column.measured(c.Usages(system, o)), column.of)
				medians = append(medians, s.Median)
				fmt.Fprintf(out, " %s |", s.text(column.format))
			}
			fmt.Fprintf(out, " %s |\n", ratio(medians))
		}
		if o == FirstApply && floor.Median > 0 {
			fmt.Fprintf(out, "| | time as a multiple of bare |")
			for _, system := range c.Systems {
				fmt.Fprintf(out, " %.2f × |", seconds(c.Usages(system, o))/floor.Median)
			}
			out.WriteString(" |\n")
		}
	}
}

// text is the median with the spread behind it.
func (s Statistics) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}

// ratio is what the other system took for each of the first one's: above 1 the first is better.
func ratio(medians []float64) string {
	if len(medians) != 2 || cmp.Compare(medians[0], 0) == 0 {
		return ""
	}
	if of := medians[1] / medians[0]; of >= 1000 {
		return fmt.Sprintf("%.0f ×", of) // %g would print it with an exponent.
	}
	return fmt.Sprintf("%.3g ×", medians[1]/medians[0])
}

// thousands writes a number with a comma before its last three digits.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
