package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// runResult is what a run means for the Sync.
type runResult struct {
	ready bool
	// converged is true when a full comparison would find nothing to do.
	converged bool
	// stalled is true when only the user can help.
	stalled bool
	reason  string
	message string
	// after is when to come back; 0 leaves it to the back-off.
	after time.Duration
	// drift is what is left undone and unknown.
	drift driftState
	// newUnknowns are the things that this run found unknown and the one before did
	// not.
	newUnknowns []plan.Unknown
	// added are the things that this run found to differ and only reports, and
	// that were not reported yet.
	added []pendingChange
	// cleared is true when this run read the last of what was unknown before.
	cleared bool
	// required is all that waits for a confirmation.
	required requiredConfirmation
	// eventKey is what must change, beside the reason, for a failure to be reported again: of an error its text, else
	// the objects. It has no sentence of ours.
	eventKey string
}

// resultOf is the one place where failures become reasons.
func resultOf(done reconciliation) runResult {
	if done.err != nil {
		return failure(done.err, remedy(done.err)+done.notCorrectedMessage())
	}
	v := runResult{drift: driftStateOf(done)}
	failed, applyErr := done.Outcome.Failed(), done.Outcome.Err()
	switch {
	case done.SourceError != nil:
		kept := "stays applied"
		if done.partly {
			kept = "stays, of which not all is applied"
		}
		drift := v.drift
		v = failure(done.SourceError, fmt.Sprintf("; revision %s %s%s", done.Revision, kept, remedy(done.SourceError)))
		v.drift = drift
	case len(done.Problems) > 0 || len(schemaProblems(failed)) > 0:
		v.invalid(done, failed)
	case len(failed) > 0:
		// The class reports whether another try can help; the reason stays one that users can
		// search for.
		var class state.FailureClass
		class, _, v.after = state.Classify(applyErr)
		v.reason, v.stalled = "ApplyFailed", class == state.Stalled
		v.message = fmt.Sprintf("%d of %s failed, the first: %s: %s", len(failed), plural.Count(countAttempted(done.Plan), "change"), state.QualifiedName(failed[0].Change.Key), sanitize.Text(failed[0].Message()))
		v.eventKey = eventKeyOf(failed)
		if o := failed[0].Change.Origin().String(); o != "" {
			v.message += " (" + o + ")"
		}
	case applyErr != nil:
		var class state.FailureClass
		class, v.reason, v.after = state.Classify(applyErr)
		v.message, v.stalled = sanitize.Text(applyErr.Error()), class == state.Stalled
		v.eventKey = v.message
	case v.drift.waits():
		v.wait(done.Revision)
	case len(done.Plan.Unknown) > 0:
		v.reason = partlyUnknown
		v.message = unknowns(done.Plan.Unknown) + remainderMessage(done)
	case v.drift.holdsRevision():
		v.reason, v.message = holdUntil, fmt.Sprintf("Not all of revision %s is applied: %s", done.Revision, v.drift.heldSentence())
		v.eventKey = v.drift.heldKey(done.Revision)
	default:
		v.ready, v.converged = true, v.drift.converged()
		v.reason = fluxmeta.ReconciliationSucceededReason
		v.message = fmt.Sprintf("Applied revision %s: %s", done.Revision, plural.Count(v.drift.objects, "object"))
	}
	return v
}

// invalid is the result on a revision with problems: those that were found before anything
// was applied, and the objects that do not fit a schema which only the API server has. Where
// something else failed that another try may mend, that is tried again.
func (v *runResult) invalid(done reconciliation, failed []apply.Result) {
	refused, all := schemaProblems(failed), slices.Clone(done.Problems)
	for i := range all { // Each by itself: what resembles a key in one must not hide what is behind it.
		all[i].Message = sanitize.Text(all[i].Message)
	}
	all = append(all, refused...)
	v.reason, v.stalled = "InvalidManifests", true
	if len(done.Problems) == 0 {
		var class state.FailureClass
		class, _, v.after = state.Classify(done.Outcome.Err())
		v.stalled = class == state.Stalled
	}
	v.eventKey = (&targets.ProblemsError{Problems: all}).Error()
	v.message = fmt.Sprintf("%s; %s, nothing is pruned", v.eventKey, otherObjectsMessage(done, len(failed)-len(refused), len(refused)))
	if len(done.Problems) > 0 {
		v.message += "; run poolwright lint on the folder to list every problem"
	}
}

// schemaProblems are the problems that the API server found: objects that do not fit their schema.
func schemaProblems(failed []apply.Result) []state.Problem {
	var out []state.Problem
	for _, r := range failed {
		if r.IsSchemaError() {
			out = append(out, state.NewProblem(r.Change.Origin(), finding.New(finding.RefusedByAPIServer, "%s: %s",
				finding.NewFact("object", state.QualifiedName(r.Change.Key)), finding.NewFact("reason", sanitize.Text(r.Message())))))
		}
	}
	return out
}

// failure is the result on what kept a run from the newest revision.
func failure(err error, more string) runResult {
	class, reason, after := state.Classify(err)
	if r, fix := gitsource.Reason(err); r != "" {
		reason = r
		if fix {
			class = state.Stalled
		}
	}
	message := sanitize.Text(err.Error())
	if reason == limitExceeded {
		message += "; no setting raises this limit: declare less, or split the folder between Syncs"
	}
	return runResult{reason: reason, message: message + more, eventKey: sanitize.Text(err.Error()), stalled: class == state.Stalled, after: after}
}

// deletionFailed is the reason of a Sync that is being deleted and whose things cannot be
// deleted, or let go.
const deletionFailed = "DeletionFailed"

// limitExceeded is the reason of a Sync whose repository is beyond one of docs/limits.md.
const limitExceeded = "LimitExceeded"

// notCorrectedMessage is what becomes of an earlier revision that this process has not loaded, where
// the newest cannot be.
func (d reconciliation) notCorrectedMessage() string {
	if d.applied == "" {
		return ""
	}
	return fmt.Sprintf("; revision %s stays applied, and drift from it is not corrected until a revision can be loaded", d.applied)
}

// partlyUnknown is the reason of a Sync some of whose things could not be read. It is
// never taken for success: what could not be read may differ.
const partlyUnknown = "PartlyUnknown"

// The reasons of a Sync of which changes are held until they are confirmed: deletions, what costs
// nodes, what exceeds a quota, or a change that relaxes a protected field of a Sync.
const (
	pruneHeld           = "PruneHeld"
	syncChangeHeld      = "SyncChangeHeld"
	nodeReplacementHeld = "NodeReplacementHeld"
	quotaHeld           = "QuotaHeld"
)

// heldReasons are those reasons: what also ends by itself comes before what only a person can end.
var heldReasons = []string{quotaHeld, nodeReplacementHeld, pruneHeld, syncChangeHeld}

// endsByItself reports whether what waits for that reason is made without a person once there are few
// enough nodes, or enough of a quota.
func endsByItself(reason string) bool { return reason == nodeReplacementHeld || reason == quotaHeld }

// wait reports changes that are held until they are confirmed. For kstatus that is stalled: no progress is made,
// and a person must act. What ends by itself goes on without.
func (v *runResult) wait(revision string) {
	v.reason, v.message, v.eventKey = v.drift.pendingReason(revision)
	v.stalled = !endsByItself(v.reason)
}

// The reasons of a true Drifted: what differs is left so on purpose (because
// the Sync only reports, or because the thing is read-only), or could not be
// put right.
const (
	driftReported     = "DriftReported"
	readOnly          = "ReadOnly"
	driftNotCorrected = "DriftNotCorrected"
)

// partlyCompared is the reason of an unknown Drifted while the repository has
// problems: what they declare was compared with nothing.
const partlyCompared = "PartlyCompared"

// eventKeyOf distinguishes one failure from another, however many others were tried beside it.
func eventKeyOf(failed []apply.Result) string {
	var out strings.Builder
	for _, f := range failed {
		fmt.Fprintf(&out, "%s\x00", state.QualifiedName(f.Change.Key))
	}
	return out.String() + failed[0].Err.Error()
}

// countAttempted counts the changes that are not read-only.
func countAttempted(p plan.Plan) int {
	n := 0
	for _, c := range p.Changes {
		if !c.ReadOnly() {
			n++
		}
	}
	return n
}

// countInSync counts the known things of a revision that are as it declares, or made so.
func countInSync(p plan.Plan) int {
	n := p.Unchanged
	for _, c := range p.Changes {
		if c.Action != plan.Delete && !c.ReadOnly() {
			n++
		}
	}
	return n
}

// remainderMessage is what became of what is not unknown, where the run read it.
func remainderMessage(done reconciliation) string {
	waiting := len(done.Outcome.With(apply.NotAttempted))
	switch {
	case done.kind != full:
		return ""
	case waiting > 0:
		verb := "wait"
		if waiting == 1 {
			verb = "waits"
		}
		return fmt.Sprintf("; the rest of revision %s is applied; %s %s until this is resolved", done.Revision, plural.Count(waiting, "deletion"), verb)
	}
	return fmt.Sprintf("; the rest of revision %s is applied", done.Revision)
}

// otherObjectsMessage is what became of the objects beside those with problems, of which so many are
// in the plan all the same. How many they are is in status.objects, which counts otherwise: without
// what is read-only, and with what was applied before.
func otherObjectsMessage(done reconciliation, failed, refused int) string {
	declared := countInSync(done.Plan) - refused
	switch {
	case done.kind != full:
		return "the others stay in force"
	case declared == 0:
		return "no object of this revision could be read, what was applied before stays"
	case failed > 0:
		return fmt.Sprintf("%s failed, as listed in status.pending, the rest are applied", plural.Count(failed, "other object"))
	}
	return "all other objects are applied"
}

// foreignNamespace is the reason of a Sync that nobody honours.
const foreignNamespace = "ForeignNamespace"
