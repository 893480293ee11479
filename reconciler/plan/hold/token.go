package hold

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// Token is what a confirmation token stands for. The token itself is made of it in a
// binding by Encode: once one of its purpose was used, it becomes another.
type Token struct {
	// Purpose keeps the tokens of different guards apart, and is what they begin with:
	// "deletions", also for updates that lose something; "engine" for what ends the engine;
	// "nodes"; "quota"; "guard." and the name of a Sync; "force-push".
	Purpose string
	// Digest is the confirm.Digest of all that is confirmed, but for the Losses.
	Digest string
	// Losses are what goes with the deletions that are confirmed, each thing counted
	// once; nil for what is no deletion.
	Losses loss.Counts
	// Number is that of the token by which a deletion was begun: it stays what it is while others
	// of its purpose are used. 0 is the next of its purpose.
	Number int
}

// digits is the token with a binding without the losses.
func (t Token) digits(binding confirm.Binding) string {
	if t.Number > 0 {
		binding = binding.At(t.Purpose, t.Number)
	}
	return binding.Token(t.Purpose, t.Digest)
}

// Encode is the confirmation token with a binding, and what goes with the deletions that it stands
// for, as loss.Counts writes it.
func (t Token) Encode(binding confirm.Binding) string {
	return t.digits(binding) + t.Losses.String()
}

// ConfirmedBy finds the token in a confirmation, and returns the losses that it is quoted
// with. They must cover, with their tolerance, those that there are now.
func (t Token) ConfirmedBy(confirmation string, binding confirm.Binding) (loss.Counts, bool) {
	digits := t.digits(binding)
	for _, quoted := range confirm.Tokens(confirmation) {
		rest, ok := strings.CutPrefix(quoted, digits)
		if !ok {
			continue
		}
		if then, ok := loss.Parse(rest); ok && then.WithTolerance().Covers(t.Losses) {
			return then, true
		}
	}
	return nil, false
}

// Find is the one of the texts of tokens that is the same token as a part of a confirmation,
// with whatever losses: it may be quoted with those of an earlier message. A void one is none.
// Empty without any.
func Find(tokens []string, part string) string {
	content := func(token string) (string, bool) {
		head, _, _ := strings.Cut(token, "+")
		_, ok := loss.Parse(strings.TrimPrefix(token, head))
		return head, ok && token != confirm.RevokedToken(token)
	}
	quoted, ok := content(part)
	at := slices.IndexFunc(tokens, func(t string) bool {
		head, good := content(t)
		return ok && good && head == quoted
	})
	if at < 0 {
		return ""
	}
	return tokens[at]
}

// Quoted is the one of the tokens that a part of a confirmation quotes, as it was printed;
// empty where it quotes none.
func Quoted(tokens []Token, part string, in confirm.Binding) string {
	for _, t := range tokens {
		if _, ok := t.ConfirmedBy(part, in); ok {
			return t.Encode(in)
		}
	}
	return ""
}

// WithoutLosses are the tokens without what goes with the deletions: they stay the same while nodes come and go.
func WithoutLosses(tokens []Token) []Token {
	out := slices.Clone(tokens)
	for i := range out {
		out[i].Losses = nil
	}
	return out
}

// Join is one confirmation that quotes all the tokens, each once, in an order that does
// not depend on theirs; empty without any.
func Join(tokens []Token, binding confirm.Binding) string {
	sorted := slices.Clone(tokens)
	slices.SortFunc(sorted, func(a, b Token) int {
		return cmp.Or(strings.Compare(a.Purpose, b.Purpose), strings.Compare(a.Digest, b.Digest))
	})
	var out []string
	for i, t := range sorted {
		if i == 0 || t.digits(binding) != sorted[i-1].digits(binding) {
			out = append(out, t.Encode(binding))
		}
	}
	return strings.Join(out, ",")
}
