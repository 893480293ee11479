package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
)

// pruneWithLosses is a commit that removes what nodes may come to in the same moment.
func pruneWithLosses() Scenario {
	return Scenario{
		Name:    "prune-with-losses",
		Summary: "A commit removes a node pool without nodes, where a Sync is as declared.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			return startApplied(ctx, s, map[string]string{"NodePool/a": "v1", "NodePool/b": "v1", "ConfigMap/a": "v1", "ConfigMap/b": "v1"})
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			delete(s.Model, "NodePool/a")
			s.Model["ConfigMap/a"] = "v2"
			if err := s.Commit(ctx, "Remove a node pool"); err != nil {
				return err
			}
			return s.Request(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ConfigMap/b"] = "v2"
			return s.Commit(ctx, "Change something else")
		},
	}
}
