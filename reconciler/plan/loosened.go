package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// ruleLoosened is the rule of HoldLoosened, see Change.Rules.
const ruleLoosened = "looser guard"

// HoldLoosened holds each update for which loosened names fields, those of a guard
// that what is wanted makes weaker than what is live, until confirmation quotes the
// token that the reason gives. The token stands for the wanted content of the thing and
// for the spec that is live: what is made stricter since asks for another.
// Drift is held as well: what a person made stricter by hand stays until a person says
// otherwise.
func (p Plan) HoldLoosened(confirmation string, loosened func(Change) []string) Plan {
	var passed []Change
	p = hold(p, ruleLoosened, func(c Change) string {
		if c.Action != Update {
			return ""
		}
		what := loosened(c)
		if len(what) == 0 {
			return ""
		}
		of := subjectOf(c)
		of.Before = c.Before.Object["spec"]
		token := p.Scope.Token("guard", of)
		if confirm.Quotes(confirmation, token) {
			passed = append(passed, c)
			return ""
		}
		return fmt.Sprintf("updating %s would loosen it (%s), which the repository alone cannot do", c.Key, strings.Join(what, ", ")) + confirmWith + token
	})
	return p.pass(passed)
}

// Loosens reports whether HoldLoosened holds the change.
func (c Change) Loosens() bool { return slices.Contains(c.Rules, ruleLoosened) }
