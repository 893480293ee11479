package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// leaderFaults are those that need a second replica.
var leaderFaults = []string{"fail-over", "pause", "partition", "terminate", "lease-deleted"}

// twoReplicas is a commit that changes, adds and removes objects, while a standby waits.
func twoReplicas() Scenario {
	alone := update()
	return Scenario{
		Name:    "two-replicas",
		Summary: "A commit changes two objects, adds one and removes two, where one replica leads and another waits for the lease.",
		Faults:  leaderFaults,
		Prepare: withStandby(alone.Prepare), Act: alone.Act, Meanwhile: alone.Meanwhile,
	}
}

// reviewedByTwo is a pull request that one of two replicas comments on.
func reviewedByTwo() Scenario {
	return Scenario{
		Name:    "pull-request-two-replicas",
		Summary: "A pull request is opened and gets its comment, where one replica leads and another waits for the lease.",
		Faults:  leaderFaults,
		Wires:   []trace.Wire{trace.Git, trace.Forge},
		Prepare: withStandby(preparePullRequest),
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ConfigMap/a"], s.Model["Secret/a"] = "v2", secondSecret
			if err := s.Propose(ctx, "Change two"); err != nil {
				return err
			}
			return s.Planned(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ServiceAccount/new"] = "v1"
			return s.Propose(ctx, "Add one")
		},
	}
}

// withStandby prepares a second replica as well.
func withStandby(prepare func(context.Context, *fixture.Fixture) error) func(context.Context, *fixture.Fixture) error {
	return func(ctx context.Context, s *fixture.Fixture) error {
		if err := prepare(ctx, s); err != nil {
			return err
		}
		return s.StartStandby(ctx)
	}
}
