package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// pendingReason is the Sync's reason while changes are held until they are confirmed, and why they are. The
// key stays the same while only numbers of nodes and vCPUs move.
func (p driftState) pendingReason(revision string) (reason, message, key string) {
	var of []string
	for _, l := range p.pendingChanges {
		switch l.waits {
		case pruneHeld, syncChangeHeld:
			of = append(of, l.Reason)
		case nodeReplacementHeld, quotaHeld:
			of = append(of, l.Object, revision)
		default:
			continue
		}
		if slices.Index(heldReasons, l.waits) > slices.Index(heldReasons, reason) {
			reason = l.waits
		}
		for _, t := range l.held.Tokens() {
			of = append(of, t.Digest)
		}
	}
	return cmp.Or(reason, pruneHeld), summary(p.reasons(), confirm.Binding{}, false), strings.Join(of, "\x00")
}

// reasons are those of all changes that are held until they are confirmed.
func (p driftState) reasons() hold.Reasons {
	var all hold.Reasons
	for _, l := range p.pendingChanges {
		if l.waits != "" {
			all = append(all, l.held...)
		}
	}
	return all
}

// summary names reasons, each once: first those that are about all changes. Where there
// are several tokens, those of one token are together, and followed by it.
func summary(reasons hold.Reasons, in confirm.Binding, several bool) string {
	var all hold.Reasons
	listed := map[string]bool{}
	for _, r := range reasons {
		if text := r.String(); !listed[text] {
			listed[text], all = true, append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b hold.Reason) int {
		one := func(r hold.Reason) int { return min(len(r.Facts.Object), 1) }
		return cmp.Or(cmp.Compare(one(a), one(b)), strings.Compare(a.String(), b.String()))
	})
	var tokens []string
	of := map[string]hold.Reasons{}
	for _, r := range all[:min(len(all), pending.NamedReasons)] {
		token := ""
		if r.Token != nil && several {
			token = r.Token.Encode(in)
		}
		if of[token] == nil {
			tokens = append(tokens, token)
		}
		of[token] = append(of[token], r)
	}
	var out []string
	for _, token := range tokens {
		// However long the reasons are, no token is cut off.
		text := truncate.Bytes(sanitize.Escape(of[token].String()), pending.MessageLimit/4/len(tokens))
		if token != "" {
			text += " (confirmation token " + token + ")"
		}
		out = append(out, text)
	}
	if rest := len(all) - pending.NamedReasons; rest > 0 {
		out = append(out, fmt.Sprintf("and %s in status.pending", plural.Count(rest, "more reason")))
	}
	return strings.Join(out, "; ")
}

// tokens are those of all that waits for a confirmation, and of what one has let pass
// that is not made yet: who confirms the rest must not take that back. None where
// nothing waits.
func (p driftState) tokens() []hold.Token {
	if !slices.ContainsFunc(p.pendingChanges, func(l pendingChange) bool { return l.held.NeedsConfirmation() }) {
		return nil
	}
	var out []hold.Token
	for _, l := range p.pendingChanges {
		out = append(append(out, l.tokens...), l.held.Tokens()...)
	}
	return out
}

// quoted are the tokens that let pass what is not made yet.
func (p driftState) quoted() []hold.Token {
	var out []hold.Token
	for _, l := range p.pendingChanges {
		out = append(out, l.tokens...)
	}
	return out
}

// confirmedKeys are what a token has let pass and is not made yet.
func (p driftState) confirmedKeys() []state.Key {
	var out []state.Key
	for _, l := range p.pendingChanges {
		if len(l.tokens) > 0 {
			out = append(out, l.key)
		}
	}
	return out
}

// requireConfirmation completes a result with what waits for a confirmation, and with the one command that
// confirms all of it.
func (v *runResult) requireConfirmation(sync *v1alpha1.Sync, done reconciliation) {
	v.required.tokens = v.drift.tokens()
	moved, move := errors.AsType[*gitsource.NotFastForwardError](cmp.Or(done.err, done.SourceError))
	if move {
		v.required.tokens = append(v.required.tokens, syncpolicy.ForcePushToken(moved.From, moved.To))
	}
	if v.required.quote = v.required.retained.MergeTokens(confirm.Tokens(hold.Join(v.required.tokens, done.binding))); v.required.quote == "" || v.ready {
		return
	}
	several := len(confirm.Tokens(v.required.quote)) > 1
	if several && move {
		v.message += " (confirmation token " + syncpolicy.ForcePushToken(moved.From, moved.To).Encode(done.binding) + ")"
	}
	reasons := strings.Join(slices.DeleteFunc([]string{summary(v.drift.reasons(), done.binding, several), v.required.retained.Reasons(several)},
		func(text string) bool { return text == "" }), "; ")
	switch {
	case slices.Contains(heldReasons, v.reason):
		v.message = reasons
		if done.Revision != "" {
			v.message += fmt.Sprintf("; revision %s is not applied in full", done.Revision)
		}
	case reasons != "":
		v.message += "; also waiting for a confirmation: " + reasons
		v.eventKey += "\x00" + v.required.retained.MergeTokens(confirm.Tokens(hold.Join(hold.WithoutLosses(v.required.tokens), done.binding)))
	}
	quoted := confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation])
	if !slices.ContainsFunc(confirm.Tokens(v.required.quote), func(token string) bool { return !slices.Contains(quoted, token) }) {
		// Else it had let it pass: this run could not compute what waits.
		v.message = truncate.Bytes(v.message, pending.MessageLimit*3/4) + "; it is confirmed, and is made once a revision can be loaded without problems"
		return
	}
	what := "; confirm with: "
	if several {
		what = "; confirm all of it with: "
	}
	v.message = truncate.Bytes(v.message, pending.MessageLimit*3/4) + what + confirm.Command(sync.Namespace, sync.Name, v.required.quote)
}

// remedy is how a person releases a move of the branch that is held; empty for every other error.
func remedy(err error) string {
	if _, moved := errors.AsType[*gitsource.NotFastForwardError](err); !moved {
		return ""
	}
	return "; put the branch back to the commit before, or confirm that it moved"
}
