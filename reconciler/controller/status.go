package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/ignored"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/controller/verification"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// write puts the result into the status of updated, a copy of the Sync.
func (v runResult) write(updated, sync *v1alpha1.Sync, done reconciliation) {
	status := &updated.Status
	if done.kind == idle && v.ready {
		v.message = ""
	}
	status.LastHandledReconcileAt = sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	if done.Revision != "" && done.kind != partial {
		// A partial run has not fetched from the source: its revision may be an earlier one.
		status.LastAttemptedRevision, status.LastAttemptedURL = cmp.Or(done.AttemptedRevision, done.Revision), sync.Address()
	}
	if v.ready || v.stalled {
		// Otherwise it is still in progress, and kstatus must have that.
		status.ObservedGeneration = sync.Generation
	}
	if v.ready {
		status.LastAppliedRevision, status.LastAppliedTreeID, status.SourceVerificationMode = done.Revision, done.TreeID, verification.Mode(sync)
	}
	status.LastHandledConfirmationTokens = done.binding.Handled
	status.LastAttemptedConfirmationTokens = done.binding.Unused(status.LastAttemptedConfirmationTokens)
	v.conditions(updated, sync, done)
}

// conditions sets those of kstatus, and what was found.
func (v runResult) conditions(updated, sync *v1alpha1.Sync, done reconciliation) {
	if v.message == "" {
		if conditions.IsTrue(updated, fluxmeta.ReadyCondition) {
			v.reason, v.message = conditions.GetReason(updated, fluxmeta.ReadyCondition), conditions.GetMessage(updated, fluxmeta.ReadyCondition)
		} else {
			v.message = "Applied revision " + done.Revision
		}
	}
	ready, message := metav1.ConditionFalse, conditionMessage(v.message)
	if v.ready {
		ready = metav1.ConditionTrue
	}
	conditions.Set(updated, &metav1.Condition{Type: fluxmeta.ReadyCondition, Status: ready, Reason: v.reason, Message: message})
	switch {
	case v.stalled:
		conditions.MarkStalled(updated, v.reason, "%s", message)
	case v.ready:
		conditions.Delete(updated, fluxmeta.StalledCondition)
		conditions.Delete(updated, fluxmeta.ReconcilingCondition)
	default:
		conditions.MarkReconciling(updated, fluxmeta.ProgressingWithRetryReason, "%s", message)
	}
	verification.SetCondition(updated, sync, done.kind == partial, done.Revision, cmp.Or(done.err, done.SourceError))
	if done.kind != idle {
		// Otherwise nothing was compared: what was pending still is.
		v.findings(updated, sync, done)
	}
	v.confirmation(updated, sync, done)
}

// findings sets Drifted, and what is pending.
func (v runResult) findings(updated, sync *v1alpha1.Sync, done reconciliation) {
	status := &updated.Status
	status.Pending, status.PendingOmitted = v.required.retained.MergeChanges(v.drift.pending(done.binding), len(v.drift.pendingChanges), int(status.PendingOmitted))
	if v.drift.complete {
		status.Objects = int32(v.drift.objects)
	}
	if done.kind == full && done.err == nil {
		status.Ignored = ignored.Status(done.Plan)
	}
	value, reason, message := metav1.ConditionFalse, "InSync", "Live objects match the revision"
	n, why := v.drift.drifted()
	if why == driftReported && sync.Spec.Drift != v1alpha1.DriftReport {
		why = readOnly
		if v.drift.isHeld() {
			why = holdUntil
		}
	}
	switch {
	case done.err != nil:
		value, reason, message = metav1.ConditionUnknown, "NotCompared", "No revision could be compared with the live objects"
	case n > 0:
		value, reason, message = metav1.ConditionTrue, why, differ(n)
	case len(v.drift.unknown) > 0:
		value, reason, message = metav1.ConditionUnknown, partlyUnknown, unknowns(v.drift.unknown)
	case v.drift.problems > 0:
		value, reason, message = metav1.ConditionUnknown, partlyCompared, notCompared(v.drift)
	case len(v.drift.pendingChanges) > 0:
		reason, message = "NoDrift", "Nothing was changed by hand; what of the revision could not be applied is in status.pending"
	}
	conditions.Set(updated, &metav1.Condition{Type: "Drifted", Status: value, Reason: reason, Message: conditionMessage(message)})
}

func differ(n int) string {
	if n == 1 {
		return "1 live object differs from the revision"
	}
	return fmt.Sprintf("%d live objects differ from the revision", n)
}

// notCompared is what cannot be compared while the repository has problems.
func notCompared(p driftState) string {
	return fmt.Sprintf("%s in the repository, which the condition Ready reports: their objects could not be compared; all others match the revision", plural.Count(p.problems, "problem"))
}

// The condition of a Sync of whose confirmation a part fits nothing, which is abnormal-true, and its reason.
const (
	confirmationMismatch = "ConfirmationMismatch"
	tokenNotPending      = "TokenNotPending"
)

// confirmation puts the tokens of what waits into the status, and sets the condition of a
// confirmation with a part that fits nothing, as long as something waits or another part
// has served.
func (v runResult) confirmation(updated, sync *v1alpha1.Sync, done reconciliation) {
	status := &updated.Status
	status.ConfirmationToken = v.required.quote
	handled := confirm.Tokens(done.binding.Handled)
	known := slices.Concat(done.used, confirm.Tokens(sync.Status.LastHandledConfirmationTokens), confirm.Tokens(sync.Status.ConfirmationToken))
	var strange []string
	served := false
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		switch {
		case hold.Find(handled, part) != "" && hold.Find(known, part) != "":
			served = true
		case fits(sync, part, v.drift.quoted()) || hold.Find(confirm.Tokens(done.binding.Unused(sync.Status.LastAttemptedConfirmationTokens)), part) != "":
			// What it let pass is not made yet.
		case !fits(sync, part, v.required.tokens) && hold.Find(v.required.retained.Tokens, part) == "":
			strange = append(strange, part)
		}
	}
	if len(strange) == 0 || v.required.quote == "" && !served {
		conditions.Delete(updated, confirmationMismatch)
		return
	}
	waits := "nothing waits for a confirmation any more"
	if v.required.quote != "" {
		waits = "what waits is confirmed by " + status.ConfirmationToken
	}
	if same := hold.Join(instead(sync, strange, v.required.tokens), done.binding); same != "" && same != status.ConfirmationToken {
		waits = "what waits for the same purpose is confirmed by " + same
	}
	for i := range strange {
		strange[i] = limited(strange[i], nameLimit)
	}
	message := fmt.Sprintf("%s has %s, which matches no pending change; %s", v1alpha1.ConfirmAnnotation, strings.Join(strange, ","), waits)
	conditions.MarkTrue(updated, confirmationMismatch, tokenNotPending, "%s", conditionMessage(message))
}

// instead are the tokens of the purposes that parts of the Sync's confirmation have, and those that
// it quotes already, which who replaces the annotation must not take back; none where one of the
// parts has a purpose for which nothing waits.
func instead(sync *v1alpha1.Sync, parts []string, tokens []hold.Token) []hold.Token {
	quoted := sync.Annotations[v1alpha1.ConfirmAnnotation]
	quotes := func(t hold.Token) bool { return fits(sync, quoted, []hold.Token{t}) }
	out := slices.DeleteFunc(slices.Clone(tokens), func(t hold.Token) bool { return !quotes(t) })
	for _, part := range parts {
		same := slices.DeleteFunc(slices.Clone(tokens), func(t hold.Token) bool { return t.Purpose != confirm.Purpose(part) })
		if len(same) == 0 {
			return nil
		}
		out = append(out, same...)
	}
	return out
}

// conditionMessage is a message as a condition has it. What others wrote in it is masked where it was
// put in: our own names and commands beside it may resemble a secret, and must be copied as they are.
func conditionMessage(message string) string {
	return truncate.Bytes(sanitize.Escape(message), pending.MessageLimit)
}

// loadingRevision is the reason of a Reconciling Sync whose revision is not kept between
// runs, see [reconciler.RevisionCache].
const loadingRevision = "LoadingRevision"

// awaiting is a Sync with the status of one whose source has returned nothing yet, or whose
// revision is being loaded: the last one, or where there is none, that it is being
// fetched from.
func awaiting(sync *v1alpha1.Sync, loading bool) *v1alpha1.Sync {
	updated := sync.DeepCopy()
	if !conditions.Has(updated, fluxmeta.ReadyCondition) || conditions.GetReason(updated, fluxmeta.ReadyCondition) == foreignNamespace {
		const message = "Waiting for the source's first response"
		conditions.MarkFalse(updated, fluxmeta.ReadyCondition, fluxmeta.ProgressingReason, message)
		conditions.MarkReconciling(updated, fluxmeta.ProgressingReason, message)
	}
	if loading {
		// What is stalled stays so: whether it still is, only the run finds.
		conditions.MarkTrue(updated, fluxmeta.ReconcilingCondition, loadingRevision,
			"The revision is too large to be kept in memory and is loaded again, which may wait for the runs of other large revisions")
	}
	return updated
}

// suspended is a Sync with the status of one that is at rest: it neither progresses nor
// is it stalled.
func suspended(sync *v1alpha1.Sync) *v1alpha1.Sync {
	updated := sync.DeepCopy()
	updated.Status.ObservedGeneration = sync.Generation
	updated.Status.LastHandledReconcileAt = sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	conditions.Delete(updated, fluxmeta.ReconcilingCondition)
	conditions.Delete(updated, fluxmeta.StalledCondition)
	conditions.MarkUnknown(updated, "Drifted", fluxmeta.SuspendedReason, "%s", conditionMessage("Drift is not detected while the Sync is suspended"+suspension.Details(sync)))
	return updated
}

// writeStatus patches the status of a Sync to that of updated if it differs. All conditions are of this
// controller: others write fields of their own, so that there is nothing for a patch.Helper of
// fluxcd/pkg/runtime to merge, which does not return the resource version that the cache of statuses compares with.
func (r *SyncReconciler) writeStatus(ctx context.Context, sync, updated *v1alpha1.Sync) error {
	rollback.Mark(updated)
	r.RollOut.SetCondition(sync, updated)
	if equality.Semantic.DeepEqual(sync.Status, updated.Status) {
		return nil
	}
	before := sync.DeepCopy()
	sync.Status = updated.Status
	err := r.Client.Status().Patch(ctx, sync, client.MergeFrom(before))
	if err == nil {
		r.states.expectations.Expect(sync, r.Clock.Now())
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Sync %s: %w", sync.Name, err)
	}
	return nil
}
