package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// write puts the result into the status.
func (v runResult) write(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, done reconciliation) {
	if done.kind == idle && v.ready {
		v.message = ""
	}
	status.LastHandledReconcileAt = sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	if done.Revision != "" && done.kind != partial {
		// A partial run has not fetched from the source: its revision may be an earlier one.
		status.LastAttemptedRevision, status.LastAttemptedURL = cmp.Or(done.Attempted, done.Revision), sync.Spec.Source.Git.URL
	}
	if v.ready || v.stalled {
		// Otherwise it is still in progress, and kstatus must have that.
		status.ObservedGeneration = sync.Generation
	}
	if v.ready {
		status.LastAppliedRevision = done.Revision
	}
	status.LastHandledConfirmationTokens = done.scope.Handled
	status.LastAttemptedConfirmationTokens = done.scope.Unused(status.LastAttemptedConfirmationTokens)
	v.conditions(status, sync, done)
}

// conditions sets those of kstatus, and what was found.
func (v runResult) conditions(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, done reconciliation) {
	if v.message == "" {
		if c := meta.FindStatusCondition(status.Conditions, fluxmeta.ReadyCondition); c != nil && c.Status == metav1.ConditionTrue {
			v.reason, v.message = c.Reason, c.Message
		} else {
			v.message = "Applied revision " + done.Revision
		}
	}
	setReady(status, sync, v.ready, v.reason, v.message)
	setStalled(status, sync, "", "")
	meta.RemoveStatusCondition(&status.Conditions, fluxmeta.ReconcilingCondition)
	switch {
	case v.stalled:
		setStalled(status, sync, v.reason, v.message)
	case !v.ready:
		set(status, sync, fluxmeta.ReconcilingCondition, metav1.ConditionTrue, fluxmeta.ProgressingWithRetryReason, v.message)
	}
	if done.kind != idle {
		// Otherwise nothing was compared: what was pending still is.
		v.findings(status, sync, done)
	}
	v.confirmation(status, sync, done)
}

// findings sets Drifted, and what is pending.
func (v runResult) findings(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, done reconciliation) {
	status.Pending, status.PendingOmitted = v.required.retained.mergeChanges(v.drift.pending(done.scope), len(v.drift.left), int(status.PendingOmitted))
	if v.drift.complete {
		status.Objects = int32(v.drift.objects)
	}
	value, reason, message := metav1.ConditionFalse, "InSync", "Live objects match the revision"
	n, why := v.drift.drifted()
	if why == driftReported && sync.Spec.Drift != v1alpha1.DriftReport {
		why = readOnly
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
	case len(v.drift.left) > 0:
		reason, message = "NoDrift", "Nothing was changed by hand; what of the revision could not be applied is in status.pending"
	}
	set(status, sync, "Drifted", value, reason, message)
}

func differ(n int) string {
	if n == 1 {
		return "1 live object differs from the revision"
	}
	return fmt.Sprintf("%d live objects differ from the revision", n)
}

// notCompared is what cannot be compared while the repository has mistakes.
func notCompared(p driftState) string {
	return fmt.Sprintf("What is declared with %s could not be compared with anything, as the condition Ready explains; all else matches the revision", count(p.problems, "mistake"))
}

// The condition of a Sync of whose confirmation a part fits nothing, which is abnormal-true, and its reason.
const (
	confirmationMismatch = "ConfirmationMismatch"
	tokenNotPending      = "TokenNotPending"
)

// confirmation puts the tokens of what waits into the status, and sets the condition of a
// confirmation with a part that fits nothing, as long as something waits or another part
// has served.
func (v runResult) confirmation(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, done reconciliation) {
	status.ConfirmationToken = v.required.quote
	handled := confirm.Tokens(done.scope.Handled)
	known := slices.Concat(done.used, confirm.Tokens(sync.Status.LastHandledConfirmationTokens), confirm.Tokens(sync.Status.ConfirmationToken))
	var strange []string
	served := false
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		switch {
		case hold.Find(handled, part) != "" && hold.Find(known, part) != "":
			served = true
		case fits(sync, part, v.drift.quoted()) || hold.Find(confirm.Tokens(done.scope.Unused(sync.Status.LastAttemptedConfirmationTokens)), part) != "":
			// What it let pass is not made yet.
		case !fits(sync, part, v.required.tokens) && hold.Find(v.required.retained.tokens, part) == "":
			strange = append(strange, part)
		}
	}
	if len(strange) == 0 || v.required.quote == "" && !served {
		meta.RemoveStatusCondition(&status.Conditions, confirmationMismatch)
		return
	}
	waits := "nothing waits for a confirmation any more"
	if v.required.quote != "" {
		waits = "what waits is confirmed by " + status.ConfirmationToken
	}
	if same := hold.Join(instead(sync, strange, v.required.tokens), done.scope); same != "" && same != status.ConfirmationToken {
		waits = "what waits for the same purpose is confirmed by " + same
	}
	for i := range strange {
		strange[i] = limited(strange[i], nameLimit)
	}
	set(status, sync, confirmationMismatch, metav1.ConditionTrue, tokenNotPending,
		fmt.Sprintf("%s quotes %s, which fits nothing that waits; %s", v1alpha1.ConfirmAnnotation, strings.Join(strange, ","), waits))
}

// instead are the tokens of the purposes that parts of the Sync's confirmation have, and those that
// it quotes already, which who replaces the annotation must not take back; none where one of the
// parts has a purpose for which nothing waits.
func instead(sync *v1alpha1.Sync, parts []string, tokens []hold.Token) []hold.Token {
	quotes := func(t hold.Token) bool {
		return fits(sync, sync.Annotations[v1alpha1.ConfirmAnnotation], []hold.Token{t})
	}
	out := slices.DeleteFunc(slices.Clone(tokens), func(t hold.Token) bool { return !quotes(t) })
	for _, part := range parts {
		other := func(t hold.Token) bool { return t.Purpose != confirm.Purpose(part) }
		same := slices.DeleteFunc(slices.Clone(tokens), other)
		if len(same) == 0 {
			return nil
		}
		out = append(out, same...)
	}
	return out
}

func setReady(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, ready bool, reason, message string) {
	value := metav1.ConditionFalse
	if ready {
		value = metav1.ConditionTrue
	}
	set(status, sync, fluxmeta.ReadyCondition, value, reason, message)
}

// setStalled sets the abnormal-true condition, or removes it without a reason.
func setStalled(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, reason, message string) {
	if reason == "" {
		meta.RemoveStatusCondition(&status.Conditions, fluxmeta.StalledCondition)
		return
	}
	set(status, sync, fluxmeta.StalledCondition, metav1.ConditionTrue, reason, message)
}

// set sets a condition. What others wrote in its message is masked where it was put in: our own
// names and commands beside it may resemble a secret, and must be copied as they are.
func set(status *v1alpha1.SyncStatus, sync *v1alpha1.Sync, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: cut(sanitize.Escape(message), messageLimit), ObservedGeneration: sync.Generation,
	})
}

// loadingRevision is the reason of a Reconciling Sync whose revision is not kept between
// runs, see [reconciler.RevisionCache].
const loadingRevision = "LoadingRevision"

// awaiting is the status of a Sync whose source has returned nothing yet, or whose
// revision is being loaded: the last one, or where there is none, that it is being
// fetched from.
func awaiting(sync *v1alpha1.Sync, loading bool) *v1alpha1.SyncStatus {
	status := sync.Status.DeepCopy()
	ready := meta.FindStatusCondition(status.Conditions, fluxmeta.ReadyCondition)
	if ready == nil || ready.Reason == foreignNamespace {
		const message = "Waiting for the source's first response"
		setStalled(status, sync, "", "")
		setReady(status, sync, false, fluxmeta.ProgressingReason, message)
		set(status, sync, fluxmeta.ReconcilingCondition, metav1.ConditionTrue, fluxmeta.ProgressingReason, message)
	}
	if loading {
		set(status, sync, fluxmeta.ReconcilingCondition, metav1.ConditionTrue, loadingRevision,
			"The revision is too large to be kept in memory and is loaded again, which may wait for the runs of other large revisions")
	}
	return status
}

// suspended is the status of a Sync that is at rest: it neither progresses nor
// is it stalled.
func suspended(sync *v1alpha1.Sync) *v1alpha1.SyncStatus {
	status := sync.Status.DeepCopy()
	status.ObservedGeneration = sync.Generation
	status.LastHandledReconcileAt = sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	meta.RemoveStatusCondition(&status.Conditions, fluxmeta.ReconcilingCondition)
	setStalled(status, sync, "", "")
	set(status, sync, "Drifted", metav1.ConditionUnknown, fluxmeta.SuspendedReason, "Drift is not detected while the Sync is suspended")
	return status
}

// writeStatus patches the status if it differs.
func (r *SyncReconciler) writeStatus(ctx context.Context, sync *v1alpha1.Sync, status *v1alpha1.SyncStatus) error {
	if equality.Semantic.DeepEqual(&sync.Status, status) {
		return nil
	}
	before := sync.DeepCopy()
	sync.Status = *status
	err := r.Client.Status().Patch(ctx, sync, client.MergeFrom(before))
	if err == nil {
		r.sessions.recordWrite(sync, r.Clock.Now())
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Sync %s: %w", sync.Name, err)
	}
	return nil
}
