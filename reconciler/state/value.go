package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Hash is a stable digest of any canonical JSON value: equal content gives an
// equal hash, whatever the order in which maps were filled.
func Hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		// Canonical values always marshal; anything else must not be equal
		// to something that does.
		b = fmt.Appendf(nil, "%#v", v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Equal reports whether two canonical JSON values are the same. 1 and 1.0 are;
// a missing map entry and an entry that is nil are not. Equal values have
// equal hashes.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok && a != nil && b != nil {
			return equalMaps(a, b)
		}
	case []any:
		if b, ok := b.([]any); ok && a != nil && b != nil {
			return slices.EqualFunc(a, b, Equal)
		}
	case string, bool, int64:
		if reflect.TypeOf(a) == reflect.TypeOf(b) {
			return a == b
		}
	}
	return writtenAlike(a, b)
}

// writtenAlike compares floats, sides of different types, and types that are
// not canonical.
func writtenAlike(a, b any) bool {
	ab, errA := json.Marshal(a)
	bb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ab, bb)
}

func equalMaps(a, b map[string]any) bool {
	if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
		return true // An object that is as desired is the desired one.
	}
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		other, ok := b[k]
		if !ok || !Equal(v, other) {
			return false
		}
	}
	return true
}

// Fractional is a canonical value that is written so that floating numbers without
// a fraction are read as floating again.
func Fractional(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Fractional(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Fractional(e)
		}
		return out
	case float64:
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			text := strconv.FormatFloat(v, 'g', -1, 64)
			if !strings.ContainsAny(text, ".e") {
				text += ".0"
			}
			return json.Number(text)
		}
	}
	return v
}
