package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/refusedcommit"
)

// refusedCommits are commits that must delete nothing, and then one that is followed.
func refusedCommits() Scenario {
	return Scenario{
		Name:    "refused-commits",
		Summary: "Four commits that are not followed declare less than a Sync has applied: with a problem, with a patch that multiplies, beyond the disk's budget, and of another history. Then one that is followed deletes an object.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			s.LimitCache()
			return startApplied(ctx, s, map[string]string{"ConfigMap/a": "v1", "ConfigMap/b": "v1", "Secret/a": "v1", "ServiceAccount/a": "v1"})
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			for _, refused := range refusedcommit.All() {
				if err := s.CommitRefused(ctx, refused); err != nil {
					return err
				}
			}
			delete(s.Model, "ConfigMap/b")
			s.Model["ConfigMap/a"] = "v2"
			return s.Commit(ctx, "Go on")
		},
		// What a process that died was refused is refused to the next one.
		Meanwhile: func(context.Context, *fixture.Fixture) error { return nil },
	}
}
