package checked

import (
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// Conversions are notes of what a folder holds of Karpenter's old APIs, as lint reports
// them: a warning for each thing that needs a person, and one line a file for the rest,
// with the command that shows it; none where nothing is old. An error is a mistake of
// ours.
func Conversions(d declared.Declared, folder string) ([]plan.Note, error) {
	found, err := lint.Conversions(d, folder)
	if err != nil {
		return nil, err
	}
	var out []plan.Note
	for _, p := range found {
		out = append(out, plan.Note{Origin: p.Origin, Text: p.Message, Warning: p.Manual})
	}
	return out, nil
}
