package plan_test

import (
	"slices"
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// holds are why changes are held, a line for each change, sorted and unique.
func holds(p plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		if !c.Admitted() {
			out = append(out, c.Hold.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tokenOf is what confirms what of a plan is held, or was let pass, for one purpose.
func tokenOf(p plan.Plan, purpose string) string {
	var all []hold.Token
	for _, c := range p.Changes {
		all = append(append(all, c.Hold.Tokens()...), c.Tokens...)
	}
	return hold.Join(slices.DeleteFunc(all, func(t hold.Token) bool { return t.Purpose != purpose }), p.Binding)
}

func deletionsOf(p plan.Plan) string { return tokenOf(p, "deletions") }

func TestAChangeIsAdmittedHeldOrSkipped(t *testing.T) {
	readOnly := &state.Item{CorrectionPolicy: state.CorrectionPolicy{ReadOnly: "run: x"}}
	for name, tt := range map[string]struct {
		of                      plan.Change
		admitted, held, skipped bool
	}{
		"without a reason":           {plan.Change{}, true, false, false},
		"until it is confirmed":      {plan.Change{Hold: hold.Reasons{{Rule: hold.MaxPrunePercent}}}, false, true, false},
		"until a time":               {plan.Change{Hold: hold.Reasons{{Rule: hold.HoldUntil}}}, false, true, false},
		"drift is only reported":     {plan.Change{Hold: hold.Reasons{{Rule: hold.DriftReported}}}, false, false, true},
		"drift, and a guard":         {plan.Change{Hold: hold.Reasons{{Rule: hold.DriftReported}, {Rule: hold.QuotaExceeded}}}, false, true, false},
		"read-only":                  {plan.Change{Before: readOnly, After: readOnly, Hold: hold.Reasons{{Rule: hold.ReadOnly}}}, false, false, true},
		"read-only, in spite of all": {plan.Change{Before: readOnly, After: readOnly, Hold: hold.Reasons{{Rule: hold.QuotaExceeded}}}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c := tt.of; c.Admitted() != tt.admitted || c.Held() != tt.held || c.Skipped() != tt.skipped {
				t.Errorf("admitted %v, held %v, skipped %v", c.Admitted(), c.Held(), c.Skipped())
			}
		})
	}
}
