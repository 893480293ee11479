package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision"
)

// cellWidth is how wide a column of names may be.
const cellWidth = 48

// nodes lists nodes in columns of plain text, one a line, as many as Options.Lines
// allows. Columns that would be the same for all nodes of the reader's interest are
// left out: the reasons unless asked for, what holds nodes up unless there is such.
func (o Options) nodes(list []provision.Node, withReason bool) []string {
	if len(list) == 0 {
		return nil
	}
	shown := list[:min(len(list), o.many())]
	rows := [][]string{{"", "NodeClaim", "Pool", "Type", "Zone", "Since", "Pods"}}
	if withReason {
		rows[0] = append(rows[0], "Reason")
	}
	held := slices.ContainsFunc(shown, func(n provision.Node) bool { return len(n.Blockers) > 0 })
	if held {
		rows[0] = append(rows[0], "Held up by")
	}
	for i, n := range shown {
		row := []string{
			strconv.Itoa(i + 1), cell(n.NodeClaim), cell(n.Pool), cell(strings.TrimSpace(n.InstanceType + " " + n.CapacityType)), cell(n.Zone),
			n.Created.UTC().Format("2006-01-02"), pods(n.Pods),
		}
		if withReason {
			row = append(row, cell(strings.TrimSpace(n.Reason+" "+strings.Join(n.Fields, ", "))))
		}
		if held {
			row = append(row, strings.Join(plainVoice().blockers(n, func(provision.Blocker) bool { return true }), "; "))
		}
		rows = append(rows, row)
	}
	out := columns(rows)
	for i, l := range out {
		out[i] = cut(l, 2*width)
	}
	if left := len(list) - len(shown); left > 0 {
		out = append(out, more(left))
	}
	return out
}

// cell is a name in a column.
func cell(s string) string { return clip(visible(s), cellWidth) }

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

// columns aligns the cells of rows that hold plain text.
func columns(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			// A line that is alone in its row, or last, sets no width.
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(c))
			}
		}
	}
	out := make([]string, 0, len(rows))
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}
