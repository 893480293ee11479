package plan

import (
	"fmt"
	"slices"
	"strings"
)

// ruleLoosened is the rule of HoldLoosened, see Change.Rules.
const ruleLoosened = "looser guard"

// HoldLoosened holds each update for which loosened names fields, those of a guard
// that what is wanted makes weaker than what is live, until confirmation quotes the
// word that the reason gives. The word stands for the wanted content of the thing.
// Drift is held as well: what a person made stricter by hand stays until a person says
// otherwise.
func (p Plan) HoldLoosened(confirmation string, loosened func(Change) []string) Plan {
	return hold(p, ruleLoosened, func(c Change) string {
		if c.Action != Update {
			return ""
		}
		what := loosened(c)
		word := wordFor([]Change{c})
		if len(what) == 0 || confirmed(confirmation, word) {
			return ""
		}
		return fmt.Sprintf("updating %s would loosen it (%s), which the repository alone cannot do", c.Key, strings.Join(what, ", ")) + confirmWith + word
	})
}

// Loosens reports whether HoldLoosened holds the change.
func (c Change) Loosens() bool { return slices.Contains(c.Rules, ruleLoosened) }
