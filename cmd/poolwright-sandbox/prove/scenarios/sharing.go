package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
)

// sharingChanged is a commit by which more pods share each GPU of a machine in use.
func sharingChanged() Scenario {
	return Scenario{
		Name: "sharing-changed", Exclusive: true,
		Summary: "A commit has four pods share each GPU in the place of two, where two run: the plugin is replaced, both pods and their machine stay, and two more pods run on it.",
		Faults:  []string{"kill-before", "kill-after", "drop", "lose"},
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.StartSharing(ctx, 2); err != nil {
				return err
			}
			if err := s.Deploy(ctx, 2); err != nil {
				return err
			}
			return s.ConvergeToShares(ctx, 2)
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.Share(ctx, 4); err != nil {
				return err
			}
			return s.Request(ctx)
		},
		Converge: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.Applied(ctx); err != nil {
				return err
			}
			return s.ConvergeToShares(ctx, 4)
		},
	}
}
