package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// pullRequest is the life of a pull request.
func pullRequest() Scenario {
	return Scenario{
		Name:    "pull-request",
		Summary: "A pull request is opened, pushed to and merged; its comment is made, edited, and edited until what was merged is rolled out.",
		Wires:   []trace.Wire{trace.Git, trace.Forge},
		Prepare: preparePullRequest,
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			s.Model["ConfigMap/a"], s.Model["Secret/a"] = "v2", secondSecret
			if err := s.Propose(ctx, "Change two"); err != nil {
				return err
			}
			if err := s.Planned(ctx); err != nil {
				return err
			}
			delete(s.Model, "ConfigMap/b")
			if err := s.Propose(ctx, "Remove one"); err != nil {
				return err
			}
			if err := s.Planned(ctx); err != nil {
				return err
			}
			if err := s.Merge(ctx); err != nil {
				return err
			}
			return s.RolledOut(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			if s.Merging() {
				return nil
			}
			s.Model["ServiceAccount/new"] = "v1"
			return s.Propose(ctx, "Add one")
		},
	}
}

// The values of the Secret that a pull request changes. They must be on no other wire than the
// API server's.
const (
	firstSecret  = "correct-horse-battery-staple"
	secondSecret = "another-horse-battery-staple"
)

// preparePullRequest has a Sync that comments on pull requests be as declared.
func preparePullRequest(ctx context.Context, s *fixture.Fixture) error {
	for _, secret := range []string{firstSecret, secondSecret} {
		s.Tap.Plant("the value of a Secret: "+secret[:7], secret, trace.Kubernetes)
	}
	if err := s.CommentOnPullRequests(ctx); err != nil {
		return err
	}
	return startApplied(ctx, s, map[string]string{"ConfigMap/a": "v1", "ConfigMap/b": "v1", "Secret/a": firstSecret, "ServiceAccount/a": "v1"})
}
