package plan_test

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
)

// holds are why changes are held, a line for each change, sorted and unique.
func holds(p plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		if c.Held() {
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
	return hold.Join(slices.DeleteFunc(all, func(t hold.Token) bool { return t.Purpose != purpose }), p.Scope)
}

func deletionsOf(p plan.Plan) string { return tokenOf(p, "deletions") }
