package prove

import "context"

// update is a commit that changes, adds and removes objects.
func update() scenario {
	return scenario{
		name:    "update-and-prune",
		summary: "A commit changes two objects, adds one and removes two, where a Sync is as declared.",
		prepare: func(ctx context.Context, s *stage) error {
			s.model = map[string]string{
				"ConfigMap/a": "v1", "ConfigMap/b": "v1", "ConfigMap/c": "v1",
				"Secret/a": "v1", "Secret/b": "v1", "ServiceAccount/a": "v1",
			}
			if err := s.commit(ctx, "Begin"); err != nil {
				return err
			}
			if err := s.start(); err != nil {
				return err
			}
			if err := s.createSync(ctx); err != nil {
				return err
			}
			return s.converge(ctx)
		},
		act: func(ctx context.Context, s *stage) error {
			s.model["ConfigMap/a"], s.model["Secret/a"] = "v2", "v2"
			s.model["ServiceAccount/new"] = "v1"
			delete(s.model, "ConfigMap/b")
			delete(s.model, "Secret/b")
			if err := s.commit(ctx, "Change two, add one, remove two"); err != nil {
				return err
			}
			return s.request(ctx)
		},
		meanwhile: func(ctx context.Context, s *stage) error {
			delete(s.model, "ServiceAccount/new")
			s.model["Secret/b"] = "v3"
			return s.commit(ctx, "Remove the new one, and bring one back")
		},
	}
}
