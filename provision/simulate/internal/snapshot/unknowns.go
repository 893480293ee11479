package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision"
)

// Unknowns are what a forecast leaves open, each sentence once; true where more nodes may
// drift.
type Unknowns map[string]bool

// Add adds a sentence.
func (u Unknowns) Add(format string, args ...any) { u[fmt.Sprintf(format, args...)] = false }

// AddDrift is [Unknowns.Add] where more nodes may drift.
func (u Unknowns) AddDrift(format string, args ...any) { u[fmt.Sprintf(format, args...)] = true }

// Sorted are the sentences in their order.
func (u Unknowns) Sorted() []provision.Unknown {
	out := make([]provision.Unknown, 0, len(u))
	for _, text := range slices.Sorted(maps.Keys(u)) {
		out = append(out, provision.Unknown{Text: text, Drift: u[text]})
	}
	return out
}
