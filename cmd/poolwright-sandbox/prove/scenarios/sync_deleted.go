package scenarios

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// syncDeleted is the end of a Sync with all that it applied.
func syncDeleted() Scenario {
	return deletion("sync-deleted", "A Sync with deletionPolicy Delete is deleted: what it applied goes with it.", v1alpha1.DeletionPolicyDelete)
}

// syncOrphaned is the end of a Sync alone.
func syncOrphaned() Scenario {
	return deletion("sync-orphaned", "A Sync with deletionPolicy Orphan is deleted: what it applied stays.", v1alpha1.DeletionPolicyOrphan)
}

func deletion(name, summary string, policy v1alpha1.DeletionPolicy) Scenario {
	prepare := update().Prepare
	return Scenario{
		Name: name, Summary: summary,
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			s.Configure = append(s.Configure, func(spec *v1alpha1.SyncSpec) { spec.DeletionPolicy = policy })
			return prepare(ctx, s)
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error { return s.DeleteSync(ctx, policy) },
		// A Sync that is being deleted follows no commit.
		Meanwhile: func(context.Context, *fixture.Fixture) error { return nil },
	}
}
