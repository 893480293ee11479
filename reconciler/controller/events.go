package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/controller/health"
	"github.com/poolwright/poolwright/reconciler/controller/ignored"
	"github.com/poolwright/poolwright/reconciler/events"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// report reports a run by events and metrics: once for each thing that happened,
// not once for each reconciliation.
func (r *SyncReconciler) report(sync *v1alpha1.Sync, s *syncState, done reconciliation, v runResult, healthy bool) {
	recorder := events.WithRevision(r.Recorder, cmp.Or(done.AttemptedRevision, done.Revision), done.OriginRevision)
	for _, result := range done.Outcome.Results {
		cause := causeOf(result.Change)
		r.Metrics.RecordChange(sync.Name, string(result.Change.Action), cause, string(result.Status))
		if cause == "drift" && result.Status == apply.Applied {
			recorder.Eventf(sync, corev1.EventTypeNormal, "DriftCorrected", "%s", corrected(result.Change))
		}
	}
	r.Metrics.RecordReady(sync.Name, v.ready && healthy)
	if !v.ready {
		r.Metrics.RecordFailure(sync.Name, v.reason)
	}
	if (done.kind == full || done.kind == partial) && v.drift.complete {
		drifted, _ := v.drift.drifted()
		unknown := map[string]int{state.TargetKubernetes: 0, state.TargetAWS: 0} // 0 is a value, too.
		for _, u := range v.drift.unknown {
			unknown[u.Key.Target]++
		}
		r.Metrics.RecordObjects(sync.Name, v.drift.objects, drifted, unknown)
	}
	if len(v.newUnknowns) > 0 {
		recorder.Event(sync, corev1.EventTypeWarning, "PartlyUnknown", unknowns(v.newUnknowns))
	}
	if len(v.added) > 0 {
		recorder.Event(sync, corev1.EventTypeWarning, driftReported, reportedOnly(v.added))
	}
	s.reportUnused(recorder, sync, done)
	r.reportConfirmed(sync, done.Revision, done.OriginOfRevision(), done.Outcome.Results, slices.ContainsFunc(done.used, func(part string) bool { return confirm.Purpose(part) == syncpolicy.ForcePush }))
	if !v.ready || healthy { // What is healthy later is reported then.
		announce(recorder, sync, s, done, v)
	}
}

// reportUnused reports once which rules of spec.ignore match no object.
func (s *syncState) reportUnused(recorder record.EventRecorder, sync *v1alpha1.Sync, done reconciliation) {
	if s != nil && done.kind == full && done.err == nil {
		s.unused = ignored.Report(recorder, sync, done.Plan, s.unused)
	}
}

// announce emits the event of the run's result when it has something new.
func announce(recorder record.EventRecorder, sync *v1alpha1.Sync, s *syncState, done reconciliation, v runResult) {
	if done.kind != full && v.ready {
		return
	}
	logged := v.reason + "\x00" + v.eventKey
	if v.ready {
		// How many objects there are is nothing new of the revision.
		logged = v.reason + "\x00" + done.Revision
	}
	if s == nil || s.lastEvent == logged {
		return
	}
	s.lastEvent = logged
	if v.reason == partlyUnknown {
		return // Reported above, when the things became unknown.
	}
	kind := corev1.EventTypeWarning
	if v.reason == fluxmeta.DependencyNotReadyReason {
		kind = corev1.EventTypeNormal // As in Flux: others come first at each revision.
	}
	if v.ready {
		kind = corev1.EventTypeNormal
		if !slices.ContainsFunc(done.Outcome.Applied(), func(a apply.Result) bool { return !a.Change.Drift }) {
			return
		}
	}
	recorder.Event(sync, kind, v.reason, v.message)
}

// causeOf is why a change came up: somebody's hand, a new revision, or neither that
// could be determined, for the thing was never ours and is read-only.
func causeOf(c plan.Change) string {
	switch {
	case c.Drift:
		return "drift"
	case c.ReadOnly():
		return "read_only"
	}
	return "revision"
}

// corrected is in a line what was put back, by paths and never by values.
func corrected(c plan.Change) string {
	name := state.QualifiedName(c.Key)
	if c.Action == plan.Create {
		return name + " was deleted and is created again"
	}
	switch len(c.Fields) {
	case 0:
		return name + " is as in Git again"
	case 1:
		return fmt.Sprintf("%s: %s is as in Git again", name, sanitize.Text(c.Fields[0].Path))
	}
	return fmt.Sprintf("%s: %s and %s are as in Git again", name, sanitize.Text(c.Fields[0].Path), plural.Count(len(c.Fields)-1, "more field"))
}

// confirmedNames and confirmedName bound what the event on a confirmation names: how many
// objects, and how many bytes of each.
const (
	confirmedNames = 5
	confirmedName  = 120
)

// reportConfirmed emits an event for each part of the Sync's confirmation by which something was
// done: which, at which revision, and what it let pass. The status moves on, and the
// annotation can be overwritten.
func (r *SyncReconciler) reportConfirmed(sync *v1alpha1.Sync, revision, origin string, results []apply.Result, moved bool) {
	for _, part := range confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation]) {
		if moved && confirm.Purpose(part) == syncpolicy.ForcePush {
			from, to := syncpolicy.LastFollowedCommit(sync), commitOf(revision)
			if token := quotedToken(sync, part, []hold.Token{syncpolicy.ForcePushToken(from, to)}); token != "" {
				events.WithRevision(r.Recorder, revision, origin).Eventf(sync, corev1.EventTypeNormal, "Confirmed", "%s let the branch move from %s to %s", token, from, to)
			}
			continue
		}
		if token, made, names := confirmedChanges(sync, part, results); made != "" {
			events.WithRevision(r.Recorder, revision, origin).Eventf(sync, corev1.EventTypeNormal, "Confirmed", "%s let pass %s at revision %s: %s", token, made, revision, names)
		}
	}
}

// confirmedChanges counts the changes that were made by a part of the Sync's confirmation, empty for
// none, and names their objects, with how much of what it lets pass was not made. The token
// is what the part quotes.
func confirmedChanges(sync *v1alpha1.Sync, part string, results []apply.Result) (token, made, objects string) {
	actions := map[plan.Action]int{}
	var names []string
	undone := 0
	for _, result := range results {
		switch {
		case !fits(sync, part, result.Change.Tokens):
		case result.Status != apply.Applied:
			undone++
		default:
			token = quotedToken(sync, part, result.Change.Tokens)
			actions[result.Change.Action]++
			names = append(names, truncate.Bytes(sanitize.Escape(state.QualifiedName(result.Change.Key)), confirmedName))
		}
	}
	if len(names) == 0 {
		return "", "", ""
	}
	var counts []string
	for _, of := range []struct {
		action plan.Action
		noun   string
	}{{plan.Create, "creation"}, {plan.Update, "update"}, {plan.Delete, "deletion"}} {
		if n := actions[of.action]; n > 0 {
			counts = append(counts, plural.Count(n, of.noun))
		}
	}
	slices.Sort(names)
	objects = plural.FirstOf(names, confirmedNames, ", ")
	if undone > 0 {
		objects += fmt.Sprintf("; %s not made yet", plural.Count(undone, "change"))
	}
	return token, strings.Join(counts, " and "), objects
}

// recordAttemptedConfirmation records the parts of the Sync's confirmation by which changes are about to be made.
// A process that dies before it can record them as used leaves them to the next, which cannot
// find out from what is there by then.
func (r *SyncReconciler) recordAttemptedConfirmation(ctx context.Context, sync *v1alpha1.Sync, with []hold.Token) error {
	parts := confirm.Tokens(sync.Annotations[v1alpha1.ConfirmAnnotation])
	parts = slices.DeleteFunc(parts, func(part string) bool { return !fits(sync, part, with) })
	updated := sync.DeepCopy()
	updated.Status.LastAttemptedConfirmationTokens = strings.Join(union(confirm.Tokens(sync.Status.LastAttemptedConfirmationTokens), parts), ",")
	if err := r.writeStatus(ctx, sync, updated); err != nil {
		return state.Fail(state.Retry, "PatchOperationFailed", fmt.Errorf("not started: the confirmation could not be recorded: %w", err))
	}
	return nil
}

// mismatch emits an event when a confirmation was found not to fit, or not to fit any more.
func (r *SyncReconciler) mismatch(sync, updated *v1alpha1.Sync) {
	before, after := conditions.Get(sync, confirmationMismatch), conditions.Get(updated, confirmationMismatch)
	if after != nil && !health.SameState(before, after) {
		r.Recorder.Event(sync, corev1.EventTypeWarning, after.Type, after.Message)
	}
}
