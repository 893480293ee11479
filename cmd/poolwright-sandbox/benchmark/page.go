package benchmark

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
)

// Page is what docs/performance.md has of a run.
type Page struct {
	// Machine is where it was measured, Versions of what.
	Machine, Versions string
	Comparisons       []*Comparison
	// Head is the text before the tables, and Foot that after them.
	Head, Foot string
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
}

func columns() []measureColumn {
	return []measureColumn{
		{"time, s", func(u Usage) float64 { return u.Wall.Seconds() }, "%.3g"},
		{"processor time, s", func(u Usage) float64 { return u.CPU.Seconds() }, "%.2f"},
		{"requests to the API server", func(u Usage) float64 { return float64(u.Requests) }, "%.0f"},
		{"resident memory, MiB", func(u Usage) float64 { return float64(u.Peak) / (1 << 20) }, "%.0f"},
		{"private memory with children, MiB", func(u Usage) float64 { return float64(u.Private) / (1 << 20) }, "%.0f"},
	}
}

// Write writes the page as Markdown.
func (p *Page) Write(to io.Writer) error {
	var out strings.Builder
	out.WriteString(p.Head + "\n")
	fmt.Fprintf(&out, "| | |\n|---|---|\n| machine | %s |\n| versions | %s |\n", p.Machine, p.Versions)
	for _, c := range p.Comparisons {
		c.write(&out)
	}
	out.WriteString("\n" + p.Foot)
	if _, err := io.WriteString(to, out.String()); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// write writes the tables of one number of objects.
func (c *Comparison) write(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s objects\n\n", thousands(c.Objects))
	bare := make([]float64, len(c.Bare))
	for i, d := range c.Bare {
		bare[i] = d.Seconds()
	}
	floor := statistics(bare)
	fmt.Fprintf(out, "%s of each, with all but the first apply three times in each. Bare server-side apply of the same objects, %d at a time: %s s. The load average of the machine was %s.\n\n",
		plural.Count(len(c.Bare), "round"), applyWorkers, floor.text("%.3g"), strings.Join(c.Load, ", "))
	fmt.Fprintf(out, "| | | %s | ratio |\n|---|---|%s---|\n", strings.Join(c.Systems, " | "), strings.Repeat("---|", len(c.Systems)))
	for _, o := range Operations() {
		name := titles[o]
		for _, column := range columns() {
			fmt.Fprintf(out, "| %s | %s |", name, column.name)
			name = ""
			var medians []float64
			for _, system := range c.Systems {
				s := NewStatistics(c.Usages(system, o), column.of)
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
	return fmt.Sprintf("%.3g ×", medians[1]/medians[0])
}

// thousands writes a number with a comma before its last three digits.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
