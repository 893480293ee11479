package controller

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// Followed is the commit that the Sync's branch was followed to last, 40 digits; empty
// where the spec names another repository or reference since: whoever may change it
// decides what is followed.
func Followed(sync *v1alpha1.Sync) string {
	git := sync.Spec.Source.Git
	commit, ok := strings.CutPrefix(sync.Status.LastAttemptedRevision, git.Ref.FollowedBranch()+"@sha1:")
	if !ok || sync.Status.LastAttemptedURL != "" && sync.Status.LastAttemptedURL != git.URL {
		return ""
	}
	return commit
}

// AcceptsMove reports whether the Sync's branch may move from one commit to another
// that does not descend from it: because spec.source.git.fastForwardOnly is false, or
// because its annotation poolwright.dev/confirm quotes the token for this move.
func AcceptsMove(sync *v1alpha1.Sync, from, to string) bool {
	only := sync.Spec.Source.Git.FastForwardOnly
	_, quoted := tokenForMove(from, to).QuotedBy(sync.Annotations[v1alpha1.ConfirmAnnotation], scope(sync))
	return only != nil && !*only || quoted
}

// scope is what the Sync's confirmation tokens are bound to.
func scope(sync *v1alpha1.Sync) confirm.Scope {
	return confirm.Scope{UID: string(sync.UID), Handled: sync.Status.LastHandledConfirm}
}

// inScope binds the tokens of a plan for the Sync.
func inScope(sync *v1alpha1.Sync) plan.Policy {
	return func(p plan.Plan) plan.Plan {
		p.Scope = scope(sync)
		return p
	}
}

// unchanged reads the Sync live, for a run that began minutes ago: what it deletes was
// allowed by a spec and a confirmation that a person may have changed since.
func (r *SyncReconciler) unchanged(then *v1alpha1.Sync) func(context.Context) error {
	name, uid, generation := client.ObjectKeyFromObject(then), then.UID, then.Generation
	confirmation, leaving := then.Annotations[v1alpha1.ConfirmAnnotation], !then.DeletionTimestamp.IsZero()
	return func(ctx context.Context) error {
		var now v1alpha1.Sync
		if err := r.Live.Get(ctx, name, &now); err != nil {
			return state.Fail(state.Retry, "Changed", fmt.Errorf("not deleted: reading Sync %s: %w", name.Name, err))
		}
		if now.UID != uid || now.Generation != generation || !now.DeletionTimestamp.IsZero() != leaving ||
			now.Annotations[v1alpha1.ConfirmAnnotation] != confirmation {
			return state.Failf(state.Retry, "Changed", "not deleted: Sync %s was changed since this run began; the next one goes by what it says now", name.Name)
		}
		return nil
	}
}
