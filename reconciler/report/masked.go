package report

import (
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Masked are objects as a report has them, with "(masked)" for each secret. The function masks
// these secrets in free text, and what is one by its shape.
func Masked(objects []map[string]any) ([]map[string]any, func(string) string) {
	var p plan.Plan
	for _, object := range objects {
		kind, _ := object["kind"].(string)
		p.Changes = append(p.Changes, plan.Change{After: &state.Item{Key: state.Key{Kind: kind}, Object: object}})
	}
	m := mask.New(p)
	out := make([]map[string]any, len(objects))
	for i, c := range p.Changes {
		out[i] = m.Object(c.After)
	}
	return out, m.Text
}
