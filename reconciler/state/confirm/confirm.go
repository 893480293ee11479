// Package confirm makes the tokens that a person quotes to let pass what a guard holds.
//
// It is pure and does not depend on what is confirmed. Start reading at Binding.Token.
package confirm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Binding is what every confirmation token is bound to beside the content that it confirms:
// whoever writes the repository chooses that, and neither of these.
type Binding struct {
	// UID is that of the Sync in whose annotation the token is quoted.
	UID string
	// Handled are the tokens that were used, those of the highest number of each purpose,
	// separated by commas. Once one was used, the next of its purpose has the next number, so
	// that none can be used again; those of other purposes stay as they are.
	Handled string
}

// length is that of a token's digest in bytes: an author of commits who has one of two
// contents confirmed and then brings the other has to try about 2^80 of them.
const length = 20

// Token is the confirmation token of the content with the binding: its purpose, its number and 40
// hexadecimal digits, as "nodes-1-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f". The content
// is all that is confirmed, or its Digest: a shorter hash of it would be the token's
// weakest part.
func (s Binding) Token(purpose string, content any) string {
	return fmt.Sprintf("%s-%d-%s", purpose, s.Next(purpose), s.Hash(purpose, content))
}

// Hash is 40 hexadecimal digits of the content with the binding. Purpose keeps those of
// different guards apart.
func (s Binding) Hash(purpose string, content any) string {
	return sum([]any{"poolwright.dev/confirm", purpose, s.UID, s.used(purpose), content})[:2*length]
}

// used is how many tokens of the purpose were used.
func (s Binding) used(purpose string) int {
	for _, token := range Tokens(s.Handled) {
		if of, n, ok := parse(token); ok && of == purpose {
			return n
		}
	}
	return 0
}

// Next is the number of the next token of the purpose.
func (s Binding) Next(purpose string) int { return s.used(purpose) + 1 }

// At is the binding as it was when the next token of the purpose had the number.
func (s Binding) At(purpose string, number int) Binding {
	s.Handled = fmt.Sprintf("%s-%d-%s", purpose, number-1, strings.Repeat("0", 2*length))
	return s
}

// Use is the binding once the tokens were used. What is none, or has neither the next number of
// its purpose nor that of the last that was used, changes nothing.
func (s Binding) Use(tokens ...string) Binding {
	next := s
	for _, token := range tokens {
		purpose, n, ok := parse(token)
		if last := next.used(purpose); !ok || n != s.Next(purpose) && n != last || n == last && token == RevokedToken(token) {
			continue
		}
		all := slices.DeleteFunc(Tokens(next.Handled), func(old string) bool {
			of, m, ok := parse(old)
			return !ok || of == purpose && (m < n || head(old) == head(token))
		})
		all = append(all, token)
		slices.Sort(all)
		next.Handled = strings.Join(all, ",")
	}
	return next
}

// Unused are the tokens that are still good with the binding, of those of a text that separates
// them by commas.
func (s Binding) Unused(tokens string) string {
	return strings.Join(slices.DeleteFunc(Tokens(tokens), func(t string) bool {
		purpose, n, ok := parse(t)
		return !ok || n != s.Next(purpose)
	}), ",")
}

// RevokedToken has the purpose and the number of a token, and stands for no content: once it is used,
// no token of that number is good any more, and nothing of what was quoted is kept. Empty
// for what is none.
func RevokedToken(token string) string {
	purpose, number, ok := parse(token)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s-%d-%s", purpose, number, strings.Repeat("0", 2*length))
}

// Engine is the purpose of tokens for what ends the engine.
const Engine = "engine"

// ChangesSync reports whether a purpose is to relax protected fields of a Sync, whose name it ends with.
func ChangesSync(purpose string) bool {
	name, ok := strings.CutPrefix(purpose, "guard.")
	return ok && len(validation.IsDNS1123Subdomain(name)) == 0
}

// Purpose is that of a token; empty for what is none.
func Purpose(token string) string {
	purpose, _, _ := parse(token)
	return purpose
}

// parse reads the purpose and the number of a token. A purpose may have hyphens itself.
func parse(token string) (purpose string, number int, ok bool) {
	content := head(token)
	digits := strings.LastIndexByte(content, '-')
	if digits < 0 {
		return "", 0, false
	}
	at := strings.LastIndexByte(content[:digits], '-')
	if at <= 0 || len(content)-digits-1 != 2*length {
		return "", 0, false
	}
	number, err := strconv.Atoi(content[at+1 : digits])
	return content[:at], number, err == nil && number > 0
}

// head is a token without the losses that it is quoted with.
func head(token string) string {
	out, _, _ := strings.Cut(token, "+")
	return out
}

// Digest stands for content that is confirmed: SHA-256 in hexadecimal digits.
func Digest(content any) string { return sum(content) }

func sum(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		// As in state.Hash: canonical values always marshal.
		b = fmt.Appendf(nil, "%#v", v)
	}
	all := sha256.Sum256(b)
	return hex.EncodeToString(all[:])
}

// Tokens are those of a confirmation, which are separated by commas; none of an empty one.
func Tokens(confirmation string) []string {
	var out []string
	for t := range strings.SplitSeq(confirmation, ",") {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Command is what a person types to quote a confirmation on a Sync.
func Command(namespace, name, confirmation string) string {
	return fmt.Sprintf("kubectl -n %s annotate sync %s --overwrite poolwright.dev/confirm=%s", namespace, name, confirmation)
}
