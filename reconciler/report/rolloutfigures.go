package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// RolloutFigures are the figures of a roll-out, as it was predicted or as it happened.
type RolloutFigures struct {
	// Replaced is how many nodes were replaced, Removed how many went with their pools.
	Replaced, Removed int
	// MinMinutes and MaxMinutes bound how long that took; both are 0 where no node was replaced.
	MinMinutes, MaxMinutes int
	// CostChange is by how much the nodes cost more an hour; nil where that is not known.
	CostChange *USDRange
	// Incomplete is true where there may have been more nodes.
	Incomplete bool
}

// USDRange is an amount of US dollars, or the bounds of one.
type USDRange struct{ Min, Max float64 }

// comparison is a table of what was predicted and the actual figures; empty unless both are known and one has a node or a cost.
func (a MergeOutcome) comparison(v markup.Style) string {
	if a.Predicted == nil || a.Actual == nil || a.Predicted.none() && a.Actual.none() {
		return ""
	}
	view := forecast.View{Style: v}
	row := func(name string, f RolloutFigures) string {
		least := ""
		if f.Incomplete {
			least = "≥ "
		}
		cost := "unknown"
		if f.CostChange != nil {
			cost = view.CostChange(f.CostChange.Min, f.CostChange.Max)
		}
		return fmt.Sprintf("| %s | %s%d | %s%d | %s | %s |", name, least, f.Replaced, least, f.Removed, f.minutes(), cost)
	}
	return strings.Join([]string{
		"| | nodes replaced | removed with their pool | minutes | cost |", "|---|--:|--:|--:|--:|",
		row("predicted", *a.Predicted), row("actual", *a.Actual),
	}, "\n")
}

// none reports that no node goes and that nothing costs another amount.
func (f RolloutFigures) none() bool {
	return f.Replaced+f.Removed == 0 && (f.CostChange == nil || *f.CostChange == USDRange{})
}

func (f RolloutFigures) minutes() string {
	switch {
	case f.Replaced == 0:
		return "–"
	case f.MinMinutes == f.MaxMinutes:
		return strconv.Itoa(f.MaxMinutes)
	}
	return fmt.Sprintf("%d–%d", f.MinMinutes, f.MaxMinutes)
}
