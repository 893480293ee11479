package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
)

// update is a commit that changes, adds and removes objects.
func update() Scenario {
	return Scenario{
		Name:    "update-and-prune",
		Summary: "A commit changes two objects, adds one and removes two, where a Sync is as declared.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			return startApplied(ctx, s, map[string]string{
				"ConfigMap/a": "v1", "ConfigMap/b": "v1", "ConfigMap/c": "v1",
				"Secret/a": "v1", "Secret/b": "v1", "ServiceAccount/a": "v1",
			})
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ConfigMap/a"], s.Model["Secret/a"] = "v2", "v2"
			s.Model["ServiceAccount/new"] = "v1"
			delete(s.Model, "ConfigMap/b")
			delete(s.Model, "Secret/b")
			if err := s.Commit(ctx, "Change two, add one, remove two"); err != nil {
				return err
			}
			return s.Request(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			delete(s.Model, "ServiceAccount/new")
			s.Model["Secret/b"] = "v3"
			return s.Commit(ctx, "Remove the new one, and bring one back")
		},
	}
}
