// Package scenarios has what is proved: what the product does between two states of a
// repository. A further scenario is a further file, and an entry of All.
package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/stage"
	"github.com/poolwright/poolwright/provision/sandbox/history"
)

// Scenario is something that the product does between two states of the repository.
type Scenario struct {
	// Name is short and unique; Summary is what happens, in one sentence.
	Name, Summary string
	// Prepare brings a stage to where faults begin.
	Prepare func(context.Context, *stage.Stage) error
	// Act starts what the faults hit. It does not wait until that is finished.
	Act func(context.Context, *stage.Stage) error
	// Meanwhile changes the repository while no process runs, after a kill.
	Meanwhile func(context.Context, *stage.Stage) error
	// Wires are those whose requests meet faults; where it is nil, those of all wires do.
	Wires []history.Wire
	// Faults are the names of those that it is run with; where it is nil, they are all that need
	// no second replica.
	Faults []string
}

// All are all of them, in the order in which they are run and printed.
func All() []Scenario {
	return []Scenario{firstApply(), update(), refusedCommits(), pruneWithLosses(), syncDeleted(), syncOrphaned(), pullRequest(), twoReplicas(), reviewedByTwo()}
}
