package prove

import "context"

// scenario is something that the product does between two states of the repository.
type scenario struct {
	name, summary string
	// prepare brings a stage to where faults begin. It may be nil.
	prepare func(context.Context, *stage) error
	// act starts what the faults hit. It does not wait until that is finished.
	act func(context.Context, *stage) error
	// meanwhile changes the repository while no process runs, after a kill.
	meanwhile func(context.Context, *stage) error
}

// scenarios are all of them, in the order in which they are played and printed.
func scenarios() []scenario {
	return []scenario{firstApply(), update()}
}
