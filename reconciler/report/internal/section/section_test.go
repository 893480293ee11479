package section

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdownHasAllEntriesThatFitAndCountsTheOthers(t *testing.T) {
	rows, lines, folded := Section{Rows: [][]string{{"Pool", "Nodes"}}}, Section{}, Section{}
	for n := range 12 {
		rows.Rows = append(rows.Rows, []string{fmt.Sprintf("entry %d", n), "1"})
		lines.Lines = append(lines.Lines, fmt.Sprintf("entry %d", n))
		folded.Folded = append(folded.Folded, fmt.Sprintf("entry %d", n))
	}
	for name, s := range map[string]Section{"row": rows, "line": lines, "folded line": folded} {
		t.Run(name, func(t *testing.T) {
			s.Title = "Title"
			whole := s.Markdown(1 << 20)
			if strings.Count(whole, "entry") != 12 || strings.Contains(whole, "more") {
				t.Fatalf("not all of it, where there is room:\n%s", whole)
			}
			for capacity := 120; capacity <= len(whole); capacity++ {
				got := s.Markdown(capacity)
				if len(got) > capacity {
					t.Fatalf("%d bytes in a room of %d:\n%s", len(got), capacity, got)
				}
				if missing := 12 - strings.Count(got, "entry"); missing > 0 && !strings.Contains(got, fmt.Sprintf("… %d more ", missing)) {
					t.Fatalf("%d are missing without being counted:\n%s", missing, got)
				}
				if strings.Count(got, "<details>") != strings.Count(got, "</details>") || strings.Count(got, "```")%2 != 0 {
					t.Fatalf("something stays open:\n%s", got)
				}
			}
		})
	}
}

func TestATerminalHasSectionsWithContent(t *testing.T) {
	var b strings.Builder
	marked := func(color, s string) string { return color + s + color }
	Text(&b, marked, Section{Title: "Empty"}, Section{Title: "Lines", Color: "-", Rows: [][]string{{"a", "b"}, {"long", "c"}}, Lines: []string{"x"}, Summary: "More", Folded: []string{"y"}})
	want := "\n-Lines:-\n  a     b\n  long  c\n  x\n  More:\n    y\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestALimitBoundsWhatEverybodyReadsAndDetailsApart(t *testing.T) {
	all := int(^uint(0) >> 1)
	for limit, want := range map[Limit][2]int{0: {8, 40}, 3: {3, 3}, 20: {8, 20}, -1: {all, all}} {
		if got := [2]int{limit.Few(), limit.Many()}; got != want {
			t.Errorf("%d: got %v, want %v", limit, got, want)
		}
	}
	if d := cmp.Diff([][]string{{"head"}, {"a"}, {"… and 2 more"}}, Limit(1).Rows([][]string{{"head"}, {"a"}, {"b"}, {"c"}})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
