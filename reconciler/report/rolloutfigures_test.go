package report

import (
	"strings"
	"testing"
	"time"
)

func TestADoneMergeComparesWhatWasPredictedWithWhatHappened(t *testing.T) {
	cost := func(least, most float64) *USDRange { return &USDRange{Min: least, Max: most} }
	for _, tt := range []struct {
		name              string
		predicted, actual *RolloutFigures
		rows              []string // none where there is no table
	}{
		{"as predicted", &RolloutFigures{Replaced: 3, MinMinutes: 9, MaxMinutes: 12, CostChange: cost(4.1, 4.1)},
			&RolloutFigures{Replaced: 3, MinMinutes: 14, MaxMinutes: 14, CostChange: cost(4.1, 4.1)},
			[]string{"| predicted | 3 | 0 | 9–12 | +$4.10/h |", "| actual | 3 | 0 | 14 | +$4.10/h |"}},
		{"fewer, for less", &RolloutFigures{Replaced: 2, Removed: 1, MinMinutes: 5, MaxMinutes: 5, CostChange: cost(-2, -1)},
			&RolloutFigures{Removed: 1, CostChange: cost(0, 0)},
			[]string{"| predicted | 2 | 1 | 5 | −$2.00 to −$1.00/h |", "| actual | 0 | 1 | – | ±$0/h |"}},
		{"not all is known", &RolloutFigures{Replaced: 1, MinMinutes: 5, MaxMinutes: 9}, &RolloutFigures{Replaced: 2, Incomplete: true, MinMinutes: 1, MaxMinutes: 1},
			[]string{"| predicted | 1 | 0 | 5–9 | unknown |", "| actual | ≥ 2 | ≥ 0 | 1 | unknown |"}},
		{"nothing at all", &RolloutFigures{CostChange: cost(0, 0)}, &RolloutFigures{}, nil},
		{"nothing was predicted", nil, &RolloutFigures{Replaced: 2}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
			a := MergeOutcome{Revision: "main@sha1:abc", Merged: at, Applied: at, Done: at.Add(14 * time.Minute), Nodes: 3, Predicted: tt.predicted, Actual: tt.actual}
			var rows []string
			for line := range strings.Lines(strings.ReplaceAll(a.Markdown(), `\`, "")) {
				if strings.HasPrefix(line, "| predicted") || strings.HasPrefix(line, "| actual") {
					rows = append(rows, strings.TrimSpace(line))
				}
			}
			if got, want := strings.Join(rows, "\n"), strings.Join(tt.rows, "\n"); got != want {
				t.Errorf("the rows are\n%s\nnot\n%s", got, want)
			}
			if strings.Contains(a.Line(), "|") {
				t.Errorf("a commit status has no table: %s", a.Line())
			}
		})
	}
}
