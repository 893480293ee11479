package operator

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource/artifact"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// followed is where the Sync's branch was before it moved, by the Sync's status, which
// outlives mirrors and leaders.
func (a *app) followed(sync *v1alpha1.Sync) func(context.Context) (gogit.Followed, error) {
	return func(ctx context.Context) (gogit.Followed, error) {
		now, err := a.live(ctx, sync)
		if err != nil || now == nil {
			return gogit.Followed{}, err
		}
		from := syncpolicy.Followed(now)
		return gogit.Followed{
			Commit: from, AcceptsForcePush: func(to string) bool { return syncpolicy.AcceptsForcePush(now, from, to) },
			Applied: commitOf(now.Status.LastAppliedRevision), Verified: verified(now), Base: verificationBase(now),
		}, nil
	}
}

// attempted is what the Sync tried and applied last, by its status.
func (a *app) attempted(sync *v1alpha1.Sync) func(context.Context) (artifact.Followed, error) {
	return func(ctx context.Context) (artifact.Followed, error) {
		now, err := a.live(ctx, sync)
		if err != nil || now == nil {
			return artifact.Followed{}, err
		}
		status := now.Status
		return artifact.Followed{Attempted: status.LastAttemptedRevision, Applied: status.LastAppliedRevision, AppliedTreeID: status.LastAppliedTreeID}, nil
	}
}

// live is a Sync as it is now; nil where another one has its name.
func (a *app) live(ctx context.Context, sync *v1alpha1.Sync) (*v1alpha1.Sync, error) {
	var now v1alpha1.Sync
	if err := a.direct.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil {
		return nil, fmt.Errorf("reading Sync %s: %w", sync.Name, err)
	}
	if now.UID != sync.UID {
		return nil, nil
	}
	return &now, nil
}
