// Package confirm makes the tokens that a person quotes to let pass what a guard holds.
//
// It is pure and refuses to know what is confirmed. Start reading at Scope.Token.
package confirm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Scope is what every confirmation token is bound to beside the content that it confirms:
// whoever writes the repository chooses that, and neither of these.
type Scope struct {
	// UID is that of the Sync in whose annotation the token is quoted.
	UID string
	// Handled is the newest confirmation with which everything was done that waited for
	// one. With each, all tokens become others, so that none can be used again.
	Handled string
}

// length is that of a token in bytes: an author of commits who has one of two contents
// confirmed and then brings the other has to try about 2^80 of them.
const length = 20

// Token is the confirmation token of the content in the scope, 40 hexadecimal digits.
// Purpose keeps tokens of different guards apart. The content is all that is confirmed,
// or its Digest: a shorter hash of it would be the token's weakest part.
func (s Scope) Token(purpose string, content any) string {
	return sum([]any{"poolwright.dev/confirm", purpose, s.UID, s.Handled, content})[:2*length]
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

// Quotes reports whether the confirmation has the token.
func Quotes(confirmation, token string) bool { return slices.Contains(Tokens(confirmation), token) }

// Tokens are those of a confirmation, which are separated by commas.
func Tokens(confirmation string) []string {
	out := strings.Split(confirmation, ",")
	for i, t := range out {
		out[i] = strings.TrimSpace(t)
	}
	return out
}
