package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
)

// firstApply is a controller that starts and applies a repository for the first time.
func firstApply() Scenario {
	return Scenario{
		Name:    "first-apply",
		Summary: "A controller starts in a new namespace, and a Sync applies seven objects for the first time.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model = map[string]string{
				"ConfigMap/a": "v1", "ConfigMap/b": "v1", "ConfigMap/c": "v1",
				"Secret/a": "v1", "Secret/b": "v1", "ServiceAccount/a": "v1", "ServiceAccount/b": "v1",
			}
			return s.Commit(ctx, "Begin")
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.Start(); err != nil {
				return err
			}
			return s.CreateSync(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			delete(s.Model, "ConfigMap/a")
			s.Model["Secret/b"] = "v2"
			return s.Commit(ctx, "Remove one and change another")
		},
	}
}
