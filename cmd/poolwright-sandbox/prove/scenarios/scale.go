package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
)

// scaleUp is a pod that needs a machine.
func scaleUp() Scenario {
	return Scenario{
		Name: "scale-up", Exclusive: true,
		Summary:  "A pod requests a GPU where there is none: a machine is launched, joins and runs it.",
		Prepare:  func(ctx context.Context, s *fixture.Fixture) error { return s.StartEngine(ctx) },
		Act:      func(ctx context.Context, s *fixture.Fixture) error { return s.Deploy(ctx) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error { return s.ConvergeTo(ctx, 1) },
	}
}

// scaleDown is a pod that no longer needs its machine.
func scaleDown() Scenario {
	return Scenario{
		Name: "scale-down", Exclusive: true,
		Summary: "The only pod of a machine is gone: the node is drained, and the instance ended.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.StartEngine(ctx); err != nil {
				return err
			}
			if err := s.Deploy(ctx); err != nil {
				return err
			}
			return s.ConvergeTo(ctx, 1)
		},
		Act:      func(ctx context.Context, s *fixture.Fixture) error { return s.Scale(ctx, 0) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error { return s.ConvergeTo(ctx, 0) },
	}
}
