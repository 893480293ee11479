package checked

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Conversions are notes of what a folder holds of Karpenter's old APIs, as lint reports
// them: a warning for each thing that needs a person, and one line a file for the rest,
// with the command that shows it; none where nothing is old. An error is a bug of
// ours.
func Conversions(d declared.Declared, folder string) ([]plan.Note, error) {
	found, err := lint.Conversions(d, folder)
	if err != nil {
		return nil, err
	}
	var out []plan.Note
	for _, p := range found {
		severity := finding.Note
		if p.Manual {
			severity = finding.Warning
		}
		out = append(out, plan.Note{Origin: p.Origin, Code: p.Code, Facts: p.Facts, Text: p.Message, Severity: severity})
	}
	return out, nil
}

// advice is what lint finds beyond what is refused: what an API server takes, and a
// person should not commit. It needs no schemas.
func advice(d declared.Declared, refused map[state.Key][]state.Problem) []plan.Note {
	known := map[state.Problem]bool{}
	for _, p := range d.Problems {
		known[p] = true
	}
	for _, of := range refused {
		for _, p := range of {
			known[p] = true
		}
	}
	var out []plan.Note
	for _, f := range lint.Find(d, nil) {
		if !known[f.Problem()] {
			out = append(out, warning(f))
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Note) int {
		return cmp.Or(strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line), strings.Compare(a.Text, b.Text))
	})
	return slices.Compact(out)
}

func warning(f lint.Diagnostic) plan.Note {
	return plan.Note{Key: f.Key, Origin: f.Origin, Severity: finding.Warning, Code: f.Code, Facts: f.Facts, Text: f.Text}
}
