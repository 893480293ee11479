package plan

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// deletions is the purpose of the tokens for deletions, and updates that lose as much, save for
// what ends the engine.
const deletions = "deletions"

// deletes reports whether a token is one that lets deletions pass.
func deletes(t hold.Token) bool { return t.Purpose == deletions || t.Purpose == confirm.Engine }

// begun reports whether the deletion was allowed before, with all that goes with it now.
func (c Change) begun() bool {
	return c.Action == Delete && c.Before.Allowed.Covers(c.Before.EffectiveLosses())
}

// isUnconfirmed reports whether c is a deletion that no person has confirmed yet. One that was
// must not need another token because the process died in the middle and what is left
// hashes differently, but for what has come to go with it since. One that is only
// reported needs no leave.
func isUnconfirmed(c Change) bool {
	return c.Action == Delete && !c.ReadOnly() && !(c.begun() && c.Before.Allowed.Confirmed())
}

// Approval is what is recorded of a deletion that is about to be sent, and by which it
// is measured when it is: what was allowed before where that covers it, what a person
// confirmed, or else what goes with it now. Small steps must not add up to more than
// anybody allowed.
func (c Change) Approval() *loss.Approval {
	if c.begun() && (c.Confirmed == nil || c.Before.Allowed.Confirmed()) {
		return c.Before.Allowed
	}
	if c.Confirmed == nil {
		return &loss.Approval{Losses: c.Before.EffectiveLosses()}
	}
	out := &loss.Approval{Losses: c.Confirmed}
	if i := slices.IndexFunc(c.Tokens, deletes); i >= 0 {
		out.Digest, out.Number, out.Quoted = c.Tokens[i].Digest, c.Tokens[i].Number, c.Tokens[i].Losses
	}
	return out
}

// revoke takes back what a person allowed of deletions that are not done yet by tokens that
// the confirmation does not quote any more, or that are used up, and returns these deletions.
// The others that go on by a token have it again: it is not used up before they are made, and
// who confirms what else waits must not take it back.
func revoke(p Plan, confirmation string) (Plan, map[state.Key]bool) {
	p.Changes = slices.Clone(p.Changes)
	revoked := map[state.Key]bool{}
	for i, c := range p.Changes {
		if c.Action != Delete || c.ReadOnly() || !c.Before.Allowed.Confirmed() {
			continue
		}
		token, quoted := allowedBy(*c.Before.Allowed, confirmation, p.Binding)
		switch {
		case !quoted:
			before := *c.Before
			before.Allowed = nil
			p.Changes[i].Before, revoked[c.Key] = &before, true
		case c.begun():
			p.Changes[i].Tokens = append(slices.Clip(c.Tokens), token)
		}
	}
	return p, revoked
}

// allowedBy returns the token by which a person allowed a deletion, and whether the confirmation
// quotes it. What ends the engine may have ended it since, so the purpose is either.
func allowedBy(a loss.Approval, confirmation string, in confirm.Binding) (hold.Token, bool) {
	token := hold.Token{Digest: a.Digest, Number: a.Number, Losses: a.Quoted}
	for _, token.Purpose = range []string{deletions, confirm.Engine} {
		if _, quoted := token.ConfirmedBy(confirmation, in); quoted {
			return token, true
		}
	}
	return token, false
}

// RevokedApprovals lists, of what was observed, the things whose deletion was allowed before and is not
// pending in the plan, such as since spec.prune was set to false. What
// could not be compared is none of them.
func (p Plan) RevokedApprovals(observed state.Set) []state.Key {
	pending := map[state.Key]bool{}
	for _, u := range p.Unknown {
		pending[u.Key] = true
	}
	for _, c := range p.Changes {
		pending[c.Key] = pending[c.Key] || c.Action == Delete && !c.ReadOnly()
	}
	var out []state.Key
	for item := range observed.All() {
		if item.Allowed != nil && !pending[item.Key] {
			out = append(out, item.Key)
		}
	}
	return out
}
