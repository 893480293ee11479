package background

import (
	"strconv"
	"sync/atomic"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Inputs counts the changes of what a revision is loaded from: the values of variables, or what a source of Flux has
// fetched. Its zero value has none.
type Inputs struct{ changes atomic.Int64 }

// Record takes what a watch has reported. Without keys it is of an input, and else of what has drifted.
func (i *Inputs) Record(keys []state.Key) {
	if len(keys) == 0 {
		i.changes.Add(1)
	}
}

// Fingerprint is another one after each change: the result of a fetch that began before it is outdated.
func (i *Inputs) Fingerprint() string { return "\x00" + strconv.FormatInt(i.changes.Load(), 10) }
