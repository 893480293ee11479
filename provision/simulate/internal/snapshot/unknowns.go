package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision"
)

// Unknowns are what a forecast leaves open, each once, by their sentences.
type Unknowns map[string]provision.Unknown

// Add adds what is left open of an object, "Kind/name", or of none.
func (u Unknowns) Add(code provision.UnknownCode, object, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	u[text] = provision.Unknown{Code: code, Object: object, Text: text}
}

// AddDrift is [Unknowns.Add] where more nodes may drift.
func (u Unknowns) AddDrift(code provision.UnknownCode, object, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	u[text] = provision.Unknown{Code: code, Object: object, Text: text, MoreReplaced: true}
}

// Sorted are the sentences in their order.
func (u Unknowns) Sorted() []provision.Unknown {
	out := make([]provision.Unknown, 0, len(u))
	for _, text := range slices.Sorted(maps.Keys(u)) {
		out = append(out, u[text])
	}
	return out
}
