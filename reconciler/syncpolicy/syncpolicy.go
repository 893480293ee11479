// Package syncpolicy derives from a Sync what its runs may do: the policies for their plans,
// where its branch may move, and what its confirmation tokens are bound to. The controller
// and a preview of what it will do go by the same.
package syncpolicy

import (
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// ForRun are the policies of a run: what a live Sync declares in its prune, drift and guard fields
// and in its confirmation, and that Git relaxes none of these by itself. Under `drift: Report`
// nothing at all is written to AWS, in the cluster nothing that only puts back what a hand changed:
// what Git changes in the cluster is a decision, and AWS also belongs to people who never read that Git. What a person
// marked to stay as it is until a time after now is left so.
func ForRun(sync *v1alpha1.Sync, now time.Time) []plan.Policy {
	policies := []plan.Policy{inScope(sync), holdUntil(now)}
	if sync.Spec.Prune != nil && !*sync.Spec.Prune {
		policies = append(policies, plan.NoPrune())
	}
	if sync.Spec.Drift == v1alpha1.DriftReport {
		policies = append(policies, plan.ReportTarget(state.TargetAWS), plan.ReportDrift())
	}
	confirmation := sync.Annotations[v1alpha1.ConfirmAnnotation]
	percent := int32(50)
	if sync.Spec.Guard.MaxPrunePercent != nil {
		percent = *sync.Spec.Guard.MaxPrunePercent
	}
	strict := func(p plan.Plan) plan.Plan { return p.HoldSyncChanges(confirmation, relaxed) }
	return append(policies, strict, plan.Guard(int(percent), confirmation), quotaGuard(sync))
}

// ForDeletion are the policies by which a Sync that is deleted takes its things along. The
// deletion policy itself is the confirmation of "everything", so only deletions with losses
// are left to hold, and what a person marked to stay as it is until a time after now.
func ForDeletion(sync *v1alpha1.Sync, now time.Time) []plan.Policy {
	policies := []plan.Policy{inScope(sync), holdUntil(now)}
	if sync.Spec.Drift == v1alpha1.DriftReport {
		policies = append(policies, plan.ReportTarget(state.TargetAWS))
	}
	return append(policies, plan.ConfirmLosses(sync.Annotations[v1alpha1.ConfirmAnnotation]))
}

// LastFollowedCommit is the commit that the Sync's branch was followed to last, 40 digits; empty
// where the spec names another repository or reference since: whoever may change it
// decides what is followed.
func LastFollowedCommit(sync *v1alpha1.Sync) string {
	git := sync.Spec.Source.Git
	commit, ok := strings.CutPrefix(sync.Status.LastAttemptedRevision, git.Ref.FollowedBranch()+"@sha1:")
	if !ok || sync.Spec.SourceRef != nil || sync.Status.LastAttemptedURL != "" && sync.Status.LastAttemptedURL != git.URL {
		return ""
	}
	return commit
}

// AllowsForcePush reports whether the Sync's branch may move from one commit to another
// that does not descend from it: because spec.source.git.fastForwardOnly is false, or
// because its annotation poolwright.dev/confirm has the token for this move.
func AllowsForcePush(sync *v1alpha1.Sync, from, to string) bool {
	only := sync.Spec.Source.Git.FastForwardOnly
	_, quoted := ForcePushToken(from, to).ConfirmedBy(sync.Annotations[v1alpha1.ConfirmAnnotation], Binding(sync))
	return only != nil && !*only || quoted
}

// Binding is what the Sync's confirmation tokens are bound to.
func Binding(sync *v1alpha1.Sync) confirm.Binding {
	return confirm.Binding{UID: string(sync.UID), Handled: sync.Status.LastHandledConfirmationTokens}
}

// inScope binds the tokens of a plan for the Sync.
func inScope(sync *v1alpha1.Sync) plan.Policy {
	return func(p plan.Plan) plan.Plan {
		p.Binding = Binding(sync)
		return p
	}
}

// ForcePush is the purpose of tokens for a force push of the followed branch.
const ForcePush = "force-push"

// ForcePushToken is what a confirmation of a branch's move quotes. It stands for both
// ends: one that was confirmed once does not confirm a way back to it later.
func ForcePushToken(from, to string) hold.Token {
	return hold.Token{Purpose: ForcePush, Digest: confirm.Digest([]string{from, to})}
}
