package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// This file is about what waits for a confirmation: the reasons, the one token for all of
// it, the tokens that were used and those that do not fit.

// waiting is the Sync's reason while changes wait for a person, and why they do. The
// key stays the same while only numbers of nodes move.
func (p driftState) waiting(revision string) (reason, message, key string) {
	// What only a person can end comes before what also ends by itself.
	order := []string{"", nodeReplacementHeld, pruneHeld, guardChangeHeld}
	var of []string
	for _, l := range p.left {
		switch l.waits {
		case pruneHeld, guardChangeHeld:
			of = append(of, l.change.Reason)
		case nodeReplacementHeld:
			of = append(of, l.change.Object, revision)
		default:
			continue
		}
		if slices.Index(order, l.waits) > slices.Index(order, reason) {
			reason = l.waits
		}
		for _, t := range l.held.Tokens() {
			of = append(of, t.Digest)
		}
	}
	return cmp.Or(reason, pruneHeld), summary(p.reasons(), confirm.Scope{}, false), strings.Join(of, "\x00")
}

// reasons are those of all changes that wait for a person.
func (p driftState) reasons() hold.Reasons {
	var all hold.Reasons
	for _, l := range p.left {
		if l.waits != "" {
			all = append(all, l.held...)
		}
	}
	return all
}

// summary names reasons, each once: first those that are about all changes. Where there
// are several tokens, those of one token are together, and followed by it.
func summary(reasons hold.Reasons, in confirm.Scope, several bool) string {
	var all hold.Reasons
	seen := map[string]bool{}
	for _, r := range reasons {
		if text := r.String(); !seen[text] {
			seen[text], all = true, append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b hold.Reason) int {
		one := func(r hold.Reason) int { return min(len(r.Facts.Object), 1) }
		return cmp.Or(cmp.Compare(one(a), one(b)), strings.Compare(a.String(), b.String()))
	})
	var tokens []string
	of := map[string]hold.Reasons{}
	for _, r := range all[:min(len(all), namedReasons)] {
		token := ""
		if r.Token != nil && several {
			token = r.Token.In(in)
		}
		if of[token] == nil {
			tokens = append(tokens, token)
		}
		of[token] = append(of[token], r)
	}
	var out []string
	for _, token := range tokens {
		// However long the reasons are, no token is cut off.
		text := cut(sanitize.Escape(of[token].String()), messageLimit/4/len(tokens))
		if token != "" {
			text += " (confirmation token " + token + ")"
		}
		out = append(out, text)
	}
	if rest := len(all) - namedReasons; rest > 0 {
		out = append(out, fmt.Sprintf("and %s in status.pending", count(rest, "more reason")))
	}
	return strings.Join(out, "; ")
}

// tokens are those of all that waits for a confirmation, and of what one has let pass
// that is not made yet: who confirms the rest must not take that back. None where
// nothing waits.
func (p driftState) tokens() []hold.Token {
	if !slices.ContainsFunc(p.left, func(l leftover) bool { return l.held.NeedsConfirmation() }) {
		return nil
	}
	var out []hold.Token
	for _, l := range p.left {
		out = append(append(out, l.tokens...), l.held.Tokens()...)
	}
	return out
}

// quoted are the tokens that let pass what is not made yet.
func (p driftState) quoted() []hold.Token {
	var out []hold.Token
	for _, l := range p.left {
		out = append(out, l.tokens...)
	}
	return out
}

// confirmedKeys are what a token has let pass and is not made yet.
func (p driftState) confirmedKeys() []state.Key {
	var out []state.Key
	for _, l := range p.left {
		if len(l.tokens) > 0 {
			out = append(out, l.key)
		}
	}
	return out
}

// ask completes a result with what waits for a confirmation, and with the one command that
// confirms all of it.
func (v *runResult) ask(sync *v1alpha1.Sync, done run) {
	v.asks.tokens = v.drift.tokens()
	moved, move := errors.AsType[*gitsource.NotFastForwardError](cmp.Or(done.err, done.Stale))
	if move {
		v.asks.tokens = append(v.asks.tokens, syncpolicy.ForcePushToken(moved.From, moved.To))
	}
	if v.asks.quote = v.asks.kept.beside(confirm.Tokens(hold.Join(v.asks.tokens, done.scope))); v.asks.quote == "" || v.ready {
		return
	}
	several := len(confirm.Tokens(v.asks.quote)) > 1
	if several && move {
		v.message += " (confirmation token " + syncpolicy.ForcePushToken(moved.From, moved.To).In(done.scope) + ")"
	}
	reasons := strings.Join(slices.DeleteFunc([]string{summary(v.drift.reasons(), done.scope, several), v.asks.kept.reasons(several)},
		func(text string) bool { return text == "" }), "; ")
	switch {
	case slices.Contains([]string{pruneHeld, guardChangeHeld, nodeReplacementHeld}, v.reason):
		v.message = reasons
		if done.Revision != "" {
			v.message += fmt.Sprintf("; revision %s is not applied in full", done.Revision)
		}
	case reasons != "":
		v.message += "; also waiting for a confirmation: " + reasons
	}
	quoted := confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation])
	if !slices.ContainsFunc(confirm.Tokens(v.asks.quote), func(token string) bool { return !slices.Contains(quoted, token) }) {
		// Else it had let it pass: this run could not compute what waits.
		v.message = cut(v.message, messageLimit*3/4) + "; it is confirmed, and is made once a revision can be loaded without mistakes"
		return
	}
	what := "; confirm with: "
	if several {
		what = "; confirm all of it with: "
	}
	v.message = cut(v.message, messageLimit*3/4) + what + confirm.Command(sync.Namespace, sync.Name, v.asks.quote)
}

// remedy is what ends the wait for a person, where the source waits for one.
func remedy(err error) string {
	if _, moved := errors.AsType[*gitsource.NotFastForwardError](err); !moved {
		return ""
	}
	return "; put the branch back to the commit before, or confirm that it moved"
}

// awaitsNodes reports whether something that ends the engine, for which the purpose is, is not made yet
// and needs no confirmation now. While the nodes of deleted pools go there may be a moment in which
// nothing would run on without the engine, until their pods have nodes of other pools.
func (d run) awaitsNodes(purpose string) bool {
	return purpose == confirm.Engine && slices.ContainsFunc(d.Outcome.Results, func(r apply.Result) bool {
		return r.Status != apply.Applied && r.Change.Before != nil && r.Change.Before.EndsEngine &&
			len(r.Change.Hold) == 0 && !slices.ContainsFunc(r.Change.Tokens, func(t hold.Token) bool { return t.Purpose == purpose })
	})
}

// fits reports whether a part of the Sync's confirmation is one of the tokens.
func fits(sync *v1alpha1.Sync, part string, tokens []hold.Token) bool {
	return asked(sync, part, tokens) != ""
}

// asked is the one of the tokens that a part of the Sync's confirmation quotes, as it was
// reported: what is recorded holds no text of the annotation. Empty where the part quotes none.
func asked(sync *v1alpha1.Sync, part string, tokens []hold.Token) string {
	return hold.Quoted(tokens, part, syncpolicy.Scope(sync))
}

// use finds the parts of the Sync's confirmation by which the run did all that they let
// pass, and what confirmation tokens are bound to after it: those that were used, by this
// run or by one whose status could not be written, are used up.
func (d run) use(sync *v1alpha1.Sync, s *session) run {
	out := syncpolicy.Scope(sync)
	if s != nil {
		out = out.Use(confirm.Tokens(s.used)...)
	}
	var used, others []string
	begun := confirm.Tokens(sync.Status.LastAttemptedConfirmationTokens)
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		switch token, done := d.done(sync, part); {
		case token != "" && done:
			used, d.used = append(used, token), append(d.used, token)
		case token == "" && !s.unread(sync, part, d.Plan.Unknown) && d.idle(confirm.Purpose(part), hold.Find(begun, part) != ""):
			others = append(others, withdrawn(sync, part))
		}
	}
	// One that began to let something pass is used up as well where the annotation has it no more.
	for _, part := range begun {
		if hold.Find(confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]), part) != "" {
			continue
		}
		if token, _ := d.done(sync, part); token == "" && d.idle(confirm.Purpose(part), false) {
			others = append(others, withdrawn(sync, part))
		}
	}
	d.scope = out.Use(used...).Use(others...)
	return d
}

// unread reports whether a part of the Sync's confirmation let pass updates alone in the run before, one of
// which cannot be computed now. A deletion goes on by its record, and may be wanted again by now.
func (s *session) unread(sync *v1alpha1.Sync, part string, unknown []plan.Unknown) bool {
	if s == nil {
		return false
	}
	updates, lost := true, false
	for _, l := range s.drift.left {
		if fits(sync, part, l.tokens) {
			updates = updates && l.change.Action != string(plan.Delete)
			lost = lost || slices.ContainsFunc(unknown, func(u plan.Unknown) bool { return u.Key == l.key })
		}
	}
	return updates && lost
}

// withdrawn is what is recorded of a part of the Sync's confirmation for which nothing waits: the
// token, where the Sync reported it; where it did not, only that the next token of its purpose is
// void, for an earlier run may have reported it. Empty where there is no such purpose, or where
// too much would be recorded.
func withdrawn(sync *v1alpha1.Sync, part string) string {
	before := slices.Concat(confirm.Tokens(sync.Status.ConfirmationToken), confirm.Tokens(sync.Status.LastAttemptedConfirmationTokens))
	if token := hold.Find(before, part); token != "" {
		return token
	}
	purpose, full := confirm.Purpose(part), len(confirm.Tokens(sync.Status.LastHandledConfirmationTokens)) >= handledLimit
	if slices.Contains([]string{"deletions", confirm.Engine, "nodes", syncpolicy.ForcePush}, purpose) || confirm.LoosensGuard(purpose) && !full {
		return confirm.Void(part)
	}
	return ""
}

// handledLimit is how many purposes status.lastHandledConfirmationTokens has at most before tokens for the
// guards of Syncs are recorded only where they were reported.
const handledLimit = 32

func commitOf(revision string) string {
	_, commit, _ := strings.Cut(revision, "@sha1:")
	return commit
}

// The condition of a Sync of whose confirmation a part fits nothing, which is abnormal-true, and its reason.
const (
	confirmationMismatch = "ConfirmationMismatch"
	tokenNotPending      = "TokenNotPending"
)

// confirmation puts the tokens of what waits into the status, and sets the condition of a
// confirmation with a part that fits nothing, as long as something waits or another part
// has served.
func (v runResult) confirmation(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, done run) {
	status.ConfirmationToken = v.asks.quote
	handled := confirm.Tokens(done.scope.Handled)
	known := slices.Concat(done.used, confirm.Tokens(sync.Status.LastHandledConfirmationTokens), confirm.Tokens(sync.Status.ConfirmationToken))
	var strange []string
	served := false
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		switch {
		case hold.Find(handled, part) != "" && hold.Find(known, part) != "":
			served = true
		case fits(sync, part, v.drift.quoted()) || hold.Find(confirm.Tokens(done.scope.Unused(sync.Status.LastAttemptedConfirmationTokens)), part) != "":
			// What it let pass is not made yet.
		case !fits(sync, part, v.asks.tokens) && hold.Find(v.asks.kept.asked, part) == "":
			strange = append(strange, part)
		}
	}
	if len(strange) == 0 || v.asks.quote == "" && !served {
		meta.RemoveStatusCondition(&status.Conditions, confirmationMismatch)
		return
	}
	waits := "nothing waits for a confirmation any more"
	if v.asks.quote != "" {
		waits = "what waits is confirmed by " + status.ConfirmationToken
	}
	if same := hold.Join(instead(sync, strange, v.asks.tokens), done.scope); same != "" && same != status.ConfirmationToken {
		waits = "what waits for the same purpose is confirmed by " + same
	}
	for i := range strange {
		strange[i] = limited(strange[i], nameLimit)
	}
	set(status, sync, confirmationMismatch, metav1.ConditionTrue, tokenNotPending,
		fmt.Sprintf("%s quotes %s, which fits nothing that waits; %s", v1alpha1.ConfirmAnnotation, strings.Join(strange, ","), waits))
}

// instead are the tokens of the purposes that parts of the Sync's confirmation have, and those that
// it quotes already, which who replaces the annotation must not take back; none where one of the
// parts has a purpose for which nothing waits.
func instead(sync *v1alpha1.Sync, parts []string, tokens []hold.Token) []hold.Token {
	quotes := func(t hold.Token) bool {
		return fits(sync, sync.Annotations[v1alpha1.ConfirmAnnotation], []hold.Token{t})
	}
	out := slices.DeleteFunc(slices.Clone(tokens), func(t hold.Token) bool { return !quotes(t) })
	for _, part := range parts {
		other := func(t hold.Token) bool { return t.Purpose != confirm.Purpose(part) }
		same := slices.DeleteFunc(slices.Clone(tokens), other)
		if len(same) == 0 {
			return nil
		}
		out = append(out, same...)
	}
	return out
}
