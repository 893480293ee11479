package scenarios

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/releases"
)

// upgrades are today's product in the place of each earlier release.
func upgrades() []Scenario {
	var out []Scenario
	for _, name := range releases.Names() {
		out = append(out, upgradeFrom(name))
	}
	// What a fault does to the start of today's product does not depend on the release.
	for i := range out[1:] {
		out[i+1].Faults = []string{"kill-after"}
	}
	return out
}

func upgradeFrom(release string) Scenario {
	return Scenario{
		Name: "upgrade-from-" + release, Exclusive: true,
		Summary: fmt.Sprintf("A controller starts on the definitions, a Sync, its status and its inventory of an earlier release (%s), and deletes nothing. Then a commit removes one object and changes another.", release),
		Prepare: func(ctx context.Context, s *fixture.Fixture) error { return s.InstallRelease(ctx, release) },
		Act:     func(_ context.Context, s *fixture.Fixture) error { return s.Start() },
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ServiceAccount/a"] = "v2"
			return s.Commit(ctx, "Change one")
		},
		Converge: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.Converge(ctx); err != nil {
				return err
			}
			if err := s.Upgraded(ctx); err != nil {
				return err
			}
			delete(s.Model, "ConfigMap/b")
			s.Model["ConfigMap/a"] = "v2"
			if err := s.Commit(ctx, "Remove one and change another"); err != nil {
				return err
			}
			return s.Converge(ctx)
		},
	}
}
