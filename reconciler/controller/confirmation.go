package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// use finds the parts of the Sync's confirmation by which the run did all that they let
// pass, and what confirmation tokens are bound to after it: those that were used, by this
// run or by one whose status could not be written, are used up.
func (d reconciliation) use(sync *v1alpha1.Sync, s *syncState) reconciliation {
	out := syncpolicy.Binding(sync)
	if s != nil {
		out = out.Use(confirm.Tokens(s.used)...)
	}
	var used, others []string
	begun := confirm.Tokens(sync.Status.LastAttemptedConfirmationTokens)
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		switch token, done := d.done(sync, part); {
		case token != "" && done:
			used, d.used = append(used, token), append(d.used, token)
		case token == "" && !s.unknownUpdates(sync, part, d.Plan.Unknown) && d.idle(confirm.Purpose(part), hold.Find(begun, part) != ""):
			others = append(others, revoked(sync, part))
		}
	}
	// One that began to let something pass is used up as well where the annotation has it no more.
	for _, part := range begun {
		if hold.Find(confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]), part) != "" {
			continue
		}
		if token, _ := d.done(sync, part); token == "" && d.idle(confirm.Purpose(part), false) {
			others = append(others, revoked(sync, part))
		}
	}
	d.binding = out.Use(used...).Use(others...)
	return d
}

// done reports whether anything that a part of the Sync's confirmation let pass is made, by which its
// token is used up, and returns that token, as it was reported: what is recorded holds no text of the
// annotation. The token is empty where the part let nothing pass. Deletions that are not made go on by
// what was recorded of them; updates that are not wait for a token of their own.
func (d reconciliation) done(sync *v1alpha1.Sync, part string) (token string, done bool) {
	if d.kind != full || d.err != nil {
		return "", false
	}
	let, made := false, false
	for _, r := range d.Outcome.Results {
		if by := quotedToken(sync, part, r.Change.Tokens); by != "" {
			token, let, made = by, true, made || r.Status == apply.Applied
		}
	}
	return cmp.Or(token, quotedToken(sync, part, d.moved(sync))), made || !let
}

// unfinished reports whether an update that a token of the purpose let pass is not made yet. What
// remains of it is confirmed by that token while none of the purpose is used: a deletion keeps by
// which token it was begun.
func (d reconciliation) unfinished(purpose string) bool {
	return slices.ContainsFunc(d.Outcome.Results, func(r apply.Result) bool {
		return r.Status != apply.Applied && r.Change.Action != plan.Delete &&
			slices.ContainsFunc(r.Change.Tokens, func(t hold.Token) bool { return t.Purpose == purpose })
	})
}

// idle reports whether nothing waits for a token of the purpose, so that one that is
// quoted must not let anything pass that waits later. It must be certain that nothing does, save for a
// token that began to let something pass and does so no more: deletions go on without it.
func (d reconciliation) idle(purpose string, begun bool) bool {
	if d.kind != full || d.err != nil || d.awaitsNodes(purpose) {
		return false
	}
	if begun {
		return d.SourceError == nil
	}
	undeclared := func(u plan.Unknown) bool { return u.Origin == (state.Origin{}) } // It may be there to be deleted.
	if d.SourceError != nil || len(d.Problems) > 0 || slices.ContainsFunc(d.Plan.Unknown, undeclared) {
		return false
	}
	waits := func(r apply.Result) bool {
		return slices.ContainsFunc(r.Change.Hold.Tokens(), func(t hold.Token) bool { return t.Purpose == purpose })
	}
	return !slices.ContainsFunc(d.Outcome.Results, waits) && !d.unfinished(purpose)
}

// moved is the token of the branch's move to the commit of the run, also where that cannot be loaded;
// none where it did not move.
func (d reconciliation) moved(sync *v1alpha1.Sync) []hold.Token {
	from, to := syncpolicy.LastFollowedCommit(sync), commitOf(cmp.Or(d.AttemptedRevision, d.Revision))
	if from == "" || from == to {
		return nil
	}
	return []hold.Token{syncpolicy.ForcePushToken(from, to)}
}

// awaitsNodes reports whether something that ends the engine, for which the purpose is, is not made yet
// and needs no confirmation now. While the nodes of deleted pools go there may be a moment in which
// nothing would run on without the engine, until their pods have nodes of other pools.
func (d reconciliation) awaitsNodes(purpose string) bool {
	return purpose == confirm.Engine && slices.ContainsFunc(d.Outcome.Results, func(r apply.Result) bool {
		return r.Status != apply.Applied && r.Change.Before != nil && r.Change.Before.EndsEngine &&
			len(r.Change.Hold) == 0 && !slices.ContainsFunc(r.Change.Tokens, func(t hold.Token) bool { return t.Purpose == purpose })
	})
}

// unknownUpdates reports whether a part of the Sync's confirmation let pass updates alone in the run before, one of
// which cannot be computed now. A deletion goes on by its record, and may be desired again by now.
func (s *syncState) unknownUpdates(sync *v1alpha1.Sync, part string, unknown []plan.Unknown) bool {
	if s == nil {
		return false
	}
	updates, lost := true, false
	for _, l := range s.drift.pendingChanges {
		if fits(sync, part, l.tokens) {
			updates = updates && l.Action != string(plan.Delete)
			lost = lost || slices.ContainsFunc(unknown, func(u plan.Unknown) bool { return u.Key == l.key })
		}
	}
	return updates && lost
}

// revoked is what is recorded of a part of the Sync's confirmation for which nothing waits: the
// token, where the Sync reported it; where it did not, only that the next token of its purpose is
// void, for an earlier run may have reported it. Empty where there is no such purpose, or where
// too much would be recorded.
func revoked(sync *v1alpha1.Sync, part string) string {
	before := slices.Concat(confirm.Tokens(sync.Status.ConfirmationToken), confirm.Tokens(sync.Status.LastAttemptedConfirmationTokens))
	if token := hold.Find(before, part); token != "" {
		return token
	}
	purpose, full := confirm.Purpose(part), len(confirm.Tokens(sync.Status.LastHandledConfirmationTokens)) >= handledLimit
	if slices.Contains([]string{"deletions", confirm.Engine, "nodes", "quota", syncpolicy.ForcePush}, purpose) || confirm.ChangesSync(purpose) && !full {
		return confirm.RevokedToken(part)
	}
	return ""
}

// handledLimit is how many purposes status.lastHandledConfirmationTokens has at most before tokens for the
// guards of Syncs are recorded only where they were reported.
const handledLimit = 32

// fits reports whether a part of the Sync's confirmation is one of the tokens.
func fits(sync *v1alpha1.Sync, part string, tokens []hold.Token) bool {
	return quotedToken(sync, part, tokens) != ""
}

// quotedToken is the one of the tokens that a part of the Sync's confirmation quotes, as it was
// reported: what is recorded holds no text of the annotation. Empty where the part quotes none.
func quotedToken(sync *v1alpha1.Sync, part string, tokens []hold.Token) string {
	return hold.Quoted(tokens, part, syncpolicy.Binding(sync))
}

func commitOf(revision string) string {
	_, commit, _ := strings.Cut(revision, "@sha1:")
	return commit
}
