package plan

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
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
// give the same hash with one binding.
func (p Plan) Hash() string { return p.Binding.Hash("plan", subjects(p.Changes)) }

// Confirmation is what the annotation must quote for all to pass that waits for a
// confirmation, and nothing else; empty where nothing waits. What a quoted token lets pass
// in this plan is in it as well: who confirms the rest must not take that back.
func (p Plan) Confirmation() string { return hold.Join(p.Tokens(), p.Binding) }

// Tokens are those of Confirmation.
func (p Plan) Tokens() []hold.Token {
	if !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Hold.NeedsConfirmation() }) {
		return nil
	}
	var out []hold.Token
	for _, c := range p.Changes {
		out = append(append(out, c.Tokens...), c.Hold.Tokens()...)
	}
	return out
}

// Reasons are all for which changes are held, each once and in the order of the changes.
func (p Plan) Reasons() hold.Reasons {
	var out hold.Reasons
	listed := map[string]bool{}
	for _, c := range p.Changes {
		for _, r := range c.Hold {
			if key := r.Key(); !listed[key] {
				listed[key], out = true, append(out, r)
			}
		}
	}
	return out
}
