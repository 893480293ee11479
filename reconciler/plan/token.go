package plan

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// subject is a change as its token stands for it, with all of its content: a shorter hash
// of that would be the weakest part of the token.
type subject struct {
	Key    state.Key
	Action Action
	// UID is that of the live thing.
	UID string
	// Before is what is live, where a token is only good as long as it is.
	Before any
	After  map[string]any
}

func subjectOf(c Change) subject {
	s := subject{Key: c.Key, Action: c.Action}
	if c.Before != nil {
		s.UID = c.Before.Live.UID
	}
	if c.After != nil {
		s.After = c.After.Object
	}
	return s
}

// subjects are sorted by key: the order of work is none of the token's business.
func subjects(changes []Change) []subject {
	out := make([]subject, 0, len(changes))
	for _, c := range changes {
		out = append(out, subjectOf(c))
	}
	slices.SortFunc(out, func(a, b subject) int { return a.Key.Compare(b.Key) })
	return out
}

// Hash identifies the plan by what it would do: the same changes to the same live things
// give the same hash in one scope.
func (p Plan) Hash() string { return p.Scope.Token("plan", subjects(p.Changes)) }

// Asks reports whether the change is held until a confirmation token is quoted.
func (c Change) Asks() bool {
	asking := []string{rulePrune, ruleGrave, ruleNodes, ruleReviewed, ruleLoosened}
	return c.Hold != "" && slices.ContainsFunc(c.Rules, func(rule string) bool { return slices.Contains(asking, rule) })
}
