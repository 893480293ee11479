package prove

import "context"

// firstApply is a controller that starts and applies a repository for the first time.
func firstApply() scenario {
	return scenario{
		name:    "first-apply",
		summary: "A controller starts in a new namespace, and a Sync applies seven objects for the first time.",
		prepare: func(ctx context.Context, s *stage) error {
			s.model = map[string]string{
				"ConfigMap/a": "v1", "ConfigMap/b": "v1", "ConfigMap/c": "v1",
				"Secret/a": "v1", "Secret/b": "v1", "ServiceAccount/a": "v1", "ServiceAccount/b": "v1",
			}
			return s.commit(ctx, "Begin")
		},
		act: func(ctx context.Context, s *stage) error {
			if err := s.start(); err != nil {
				return err
			}
			return s.createSync(ctx)
		},
		meanwhile: func(ctx context.Context, s *stage) error {
			delete(s.model, "ConfigMap/a")
			s.model["Secret/b"] = "v2"
			return s.commit(ctx, "Remove one and change another")
		},
	}
}
