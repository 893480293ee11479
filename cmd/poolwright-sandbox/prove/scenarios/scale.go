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
		Act:      func(ctx context.Context, s *fixture.Fixture) error { return s.Deploy(ctx, 1) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error { return s.ConvergeTo(ctx, 1) },
	}
}

// scaleUpAgain is several pods that need machines, and one more that does while it is known which
// offerings have no capacity.
func scaleUpAgain() Scenario {
	return Scenario{
		Name: "scale-up-again", Exclusive: true,
		Summary: "Three pods request a GPU each where there is none; once they run, a fourth does.",
		Faults: []string{
			"no-capacity", "spot-count", "vcpu-limit", "unfulfillable", "unsupported", "fleet-count", "reservation-full",
			"fewer-instances", "more-instances", "request-quota", "stale", "kill-after",
		},
		Prepare: func(ctx context.Context, s *fixture.Fixture) error { return s.StartEngine(ctx) },
		Act:     func(ctx context.Context, s *fixture.Fixture) error { return s.Deploy(ctx, 3) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.ConvergeTo(ctx, 3); err != nil {
				return err
			}
			if err := s.ScaleUp(ctx, 4); err != nil {
				return err
			}
			return s.ConvergeTo(ctx, 4)
		},
	}
}

// scaleDown is a pod that no longer needs its machine.
func scaleDown() Scenario {
	return Scenario{
		Name: "scale-down", Exclusive: true,
		Summary:  "The only pod of a machine is gone: the node is drained, and the instance ended.",
		Prepare:  startOneMachine,
		Act:      func(ctx context.Context, s *fixture.Fixture) error { return s.ScaleDown(ctx, 0) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error { return s.ConvergeTo(ctx, 0) },
	}
}

// nodeUsedAgain is an empty node that gets a pod while it is about to be disrupted.
func nodeUsedAgain() Scenario {
	down := scaleDown()
	down.Name, down.Faults = "node-used-again", []string{"pod-bound"}
	down.Summary = "The only pod of a machine is gone; the node stays while another pod uses it, and is drained after that."
	return down
}

// nodeNeverOffers is a node that registers and never advertises its GPUs.
func nodeNeverOffers() Scenario {
	return Scenario{
		Name: "node-never-offers", Exclusive: true,
		Summary: "A pod requests a GPU; the node of its machine registers and never advertises one. It is replaced once its time is over, and not before, by a machine that runs the pod.",
		Faults:  []string{"kill-after"},
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			s.Machines.NeverOffers = true
			return s.StartEngine(ctx)
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error { return s.Deploy(ctx, 1) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.NeverOffer(ctx); err != nil {
				return err
			}
			return s.ConvergeTo(ctx, 1)
		},
	}
}

// interruption is a spot instance that EC2 announces to end.
func interruption() Scenario {
	return Scenario{
		Name: "interruption", Exclusive: true,
		Summary: "EC2 announces twice, in the wrong order and among messages of no service, that it ends a spot instance: the pod gets another machine before that.",
		Faults:  []string{"kill-after", "drop", "lose", "throttle", "denied", "gone"},
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			s.Machines.CapacityType = "spot"
			return startOneMachine(ctx, s)
		},
		Act:      func(ctx context.Context, s *fixture.Fixture) error { return s.Interrupt(ctx) },
		Converge: func(ctx context.Context, s *fixture.Fixture) error { return s.ConvergeTo(ctx, 1) },
	}
}

// startOneMachine starts an engine, and a pod that needs a machine.
func startOneMachine(ctx context.Context, s *fixture.Fixture) error {
	if err := s.StartEngine(ctx); err != nil {
		return err
	}
	if err := s.Deploy(ctx, 1); err != nil {
		return err
	}
	return s.ConvergeTo(ctx, 1)
}
