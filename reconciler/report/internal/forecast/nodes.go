package forecast

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// cellWidth is how wide a column of names may be.
const cellWidth = 48

// column is what a list of nodes has of each beyond what it is. It is left out where
// there is nothing to show.
type column struct {
	title string
	value func(provision.Node) string
}

// keptBy is what keeps a node for a while or for good.
func (x nodeOutcomes) keptBy(n provision.Node) string {
	reasons := plainText().blockers(n, func(provision.Blocker) bool { return true })
	if x.closed[n.Pool] > 0 && !isBlocked(n) {
		reasons = append(reasons, "the pool's budget")
	}
	return strings.Join(reasons, "; ")
}

// cause is why a node is replaced.
func cause(n provision.Node) string {
	var changes []string
	for _, c := range n.Changes {
		changes = append(changes, c.String())
	}
	return cell(strings.TrimSpace(n.Reason + " " + strings.Join(changes, ", ")))
}

// nodes lists nodes in columns of plain text, one a line, as many as View.Lines
// allows.
func (v View) nodes(list []provision.Node, c column) []string {
	if len(list) == 0 {
		return nil
	}
	listed := list[:min(len(list), v.Lines.Many())]
	rows := [][]string{{"", "NodeClaim", "Pool", "Type", "Zone", "Since", "Pods"}}
	if c.value == nil {
		c = column{"Blocked by", nodeOutcomes{}.keptBy}
	}
	any := slices.ContainsFunc(listed, func(n provision.Node) bool { return c.value(n) != "" })
	if any {
		rows[0] = append(rows[0], c.title)
	}
	for i, n := range listed {
		row := []string{
			strconv.Itoa(i + 1), cell(n.NodeClaim), cell(n.Pool), cell(strings.TrimSpace(n.InstanceType + " " + n.CapacityType)), cell(n.Zone),
			n.Created.UTC().Format("2006-01-02"), pods(n.Pods),
		}
		if any {
			row = append(row, c.value(n))
		}
		rows = append(rows, row)
	}
	out := section.Columns(rows)
	for i, l := range out {
		out[i] = markup.Cut(l, 2*markup.Width)
	}
	if left := len(list) - len(listed); left > 0 {
		out = append(out, section.More(left))
	}
	return out
}

// cell is a name in a column.
func cell(s string) string { return markup.Clip(sanitize.Escape(s), cellWidth) }

// pods counts pods and names a few.
func pods(list []provision.Pod) string {
	if len(list) == 0 {
		return "none"
	}
	names := make([]string, 0, fewNames)
	for _, p := range list[:min(len(list), fewNames)] {
		names = append(names, cell(podName(p)))
	}
	if left := len(list) - len(names); left > 0 {
		names = append(names, fmt.Sprintf("%d more", left))
	}
	return fmt.Sprintf("%d: %s", len(list), strings.Join(names, ", "))
}
