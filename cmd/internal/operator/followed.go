package operator

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// followed is where the Sync's branch was before it moved, by the Sync's status, which
// outlives mirrors and leaders.
func (a *app) followed(sync *v1alpha1.Sync) func(context.Context) (gogit.Followed, error) {
	key, uid := client.ObjectKeyFromObject(sync), sync.UID
	return func(ctx context.Context) (gogit.Followed, error) {
		var now v1alpha1.Sync
		if err := a.direct.Get(ctx, key, &now); err != nil {
			return gogit.Followed{}, fmt.Errorf("reading Sync %s: %w", key.Name, err)
		}
		if now.UID != uid {
			return gogit.Followed{}, nil
		}
		from := syncpolicy.Followed(&now)
		return gogit.Followed{
			Commit: from, AcceptsForcePush: func(to string) bool { return syncpolicy.AcceptsForcePush(&now, from, to) },
			Applied: commitOf(now.Status.LastAppliedRevision), Verified: verified(&now), Base: verificationBase(&now),
		}, nil
	}
}
