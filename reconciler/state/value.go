package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash is a stable digest of any canonical JSON value: equal content gives an
// equal hash, whatever the order in which maps were filled.
func Hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		// Canonical values always marshal; anything else must not look equal
		// to something that does.
		b = fmt.Appendf(nil, "%#v", v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Equal reports whether two canonical JSON values are the same. 1 and 1.0 are;
// a missing map entry and an entry that is nil are not.
func Equal(a, b any) bool {
	ab, errA := json.Marshal(a)
	bb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ab, bb)
}
