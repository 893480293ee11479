// Package scenarios has what is proved: what the product does between two states of a
// repository. A further scenario is a further file, and an entry of All.
package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// Scenario is something that the product does between two states of the repository.
type Scenario struct {
	// Name is short and unique; Summary is what happens, in one sentence.
	Name, Summary string
	// Prepare brings a fixture to where faults begin.
	Prepare func(context.Context, *fixture.Fixture) error
	// Act starts what the faults hit. It does not wait until that is finished.
	Act func(context.Context, *fixture.Fixture) error
	// Meanwhile, if any, changes the repository while no process runs, after a kill.
	Meanwhile func(context.Context, *fixture.Fixture) error
	// Wires are those whose requests meet faults; where it is nil, those of all wires do.
	Wires []trace.Wire
	// Faults are the names of those that it is run with; where it is nil, they are all that need
	// no second replica.
	Faults []string
	// Converge waits until what Act began has come to its end. Where it is nil, that is when
	// the Sync is ready.
	Converge func(context.Context, *fixture.Fixture) error
	// Exclusive is for scenarios with objects that belong to no namespace: no other case runs in
	// the sandbox at the same time.
	Exclusive bool
	// Account, if any, changes what the AWS account has from the start.
	Account func(*sandboxaws.Config)
}

// startApplied commits the model, and starts a controller whose Sync applies it.
func startApplied(ctx context.Context, s *fixture.Fixture, model map[string]string) error {
	s.Model = model
	if err := s.Commit(ctx, "Begin"); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	if err := s.CreateSync(ctx); err != nil {
		return err
	}
	return s.Converge(ctx)
}
