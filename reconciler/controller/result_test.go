package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/controller/background"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func change(name string, action plan.Action, edit func(*plan.Change)) plan.Change {
	i := state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Namespace: "a", Name: name}, Origin: state.Origin{File: "a.yaml", Line: 7}}
	c := plan.Change{Key: i.Key, Action: action, After: &i}
	if action == plan.Delete {
		c.After, c.Before = nil, &i
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

func ran(changes ...plan.Change) reconciliation {
	var d reconciliation
	d.Revision = "main@sha1:abc"
	d.Plan.Changes = changes
	for _, c := range changes {
		status := apply.Applied
		switch {
		case c.Skipped():
			status = apply.Skipped
		case c.Held():
			status = apply.Held
		}
		d.Outcome.Results = append(d.Outcome.Results, apply.Result{Change: c, Status: status})
	}
	return d
}

// conclusion is what a test compares of a result.
type conclusion struct {
	ready, converged, stalled bool
	reason                    string
	drifted, unknown          int
	pending                   []v1alpha1.PendingChange
}

func concluded(v runResult) conclusion {
	drifted, _ := v.drift.drifted()
	return conclusion{
		ready: v.ready, converged: v.converged, stalled: v.stalled, reason: v.reason,
		drifted: drifted, unknown: len(v.drift.unknown), pending: v.drift.pending(confirm.Binding{}),
	}
}

func TestResultsAreReadyOrHaveTheirReason(t *testing.T) {
	refused := ran(change("bad", plan.Create, nil))
	refused.Outcome.Results[0].Status = apply.Failed
	refused.Outcome.Results[0].Err = errors.New("admission webhook said no")
	misfit := ran(change("bad", plan.Create, nil))
	misfit.Outcome.Results[0].Status = apply.Failed
	misfit.Outcome.Results[0].Err = state.Fail(state.Stalled, "Invalid", fmt.Errorf("%w: spec.siez: field not declared in schema", targets.ErrSchema))
	misfitPending := v1alpha1.PendingChange{Object: "ConfigMap/a/bad", Action: "create", Reason: "it does not fit its schema: spec.siez: field not declared in schema", Source: "a.yaml:7"}
	misfitAndMore := ran(change("bad", plan.Create, nil), change("more", plan.Create, nil))
	for i, err := range []error{misfit.Outcome.Results[0].Err, errors.New("connection refused")} {
		misfitAndMore.Outcome.Results[i].Status, misfitAndMore.Outcome.Results[i].Err = apply.Failed, err
	}
	stale := ran()
	stale.SourceError = fmt.Errorf("fetching: %w", gitsource.ErrUnreachable)
	withProblems := ran()
	withProblems.Problems = []state.Problem{{Origin: state.Origin{File: "x.yaml", Line: 2}, Message: "not YAML"}}
	for name, c := range map[string]struct {
		done reconciliation
		want conclusion
	}{
		"everything applied is ready, without a retry": {
			ran(change("a", plan.Create, nil)),
			conclusion{ready: true, converged: true, reason: "ReconciliationSucceeded"},
		},
		"wrong credentials are named, and not taken for a problem in the repository": {
			reconciliation{err: fmt.Errorf("fetching: %w", gitsource.ErrUnauthorized)},
			conclusion{reason: "AuthenticationFailed"},
		},
		"a missing branch is named": {
			reconciliation{err: fmt.Errorf("fetching: %w", gitsource.ErrNotFound)},
			conclusion{reason: "ReferenceNotFound"},
		},
		"an address that cannot work is for the user to fix": {
			reconciliation{err: fmt.Errorf("x: %w", gitsource.ErrInvalid)},
			conclusion{reason: "InvalidSource", stalled: true},
		},
		"an emptied repository is named": {
			reconciliation{err: fmt.Errorf("fetching: %w", gitsource.ErrEmpty)},
			conclusion{reason: "RepositoryEmpty"},
		},
		"a missing path is for the user to fix": {
			reconciliation{err: state.Failf(state.Stalled, "PathNotFound", "gone")},
			conclusion{reason: "PathNotFound", stalled: true},
		},
		"a source that is away while its last revision is in force is not ready, and names what stays": {
			stale,
			conclusion{reason: "SourceUnavailable"},
		},
		"problems in the repository stall": {
			withProblems,
			conclusion{reason: "InvalidManifests", stalled: true},
		},
		"one refused object makes the Sync not ready and is listed with its file": {
			refused,
			conclusion{reason: "ApplyFailed", pending: []v1alpha1.PendingChange{{Object: "ConfigMap/a/bad", Action: "create", Reason: "admission webhook said no", Source: "a.yaml:7"}}},
		},
		"an object that does not fit its schema is a problem in the repository": {
			misfit, conclusion{reason: "InvalidManifests", stalled: true, pending: []v1alpha1.PendingChange{misfitPending}},
		},
		"so it is where something else is tried again": {
			misfitAndMore, conclusion{reason: "InvalidManifests", pending: []v1alpha1.PendingChange{misfitPending,
				{Object: "ConfigMap/a/more", Action: "create", Reason: "connection refused", Source: "a.yaml:7"}}},
		},
		"a held deletion waits": {
			ran(change("a", plan.Delete, func(c *plan.Change) {
				c.Hold = hold.Reasons{{Rule: hold.DeletionLosses, Facts: hold.Facts{Object: "a", Detail: "confirm"}}}
			})),
			conclusion{stalled: true, reason: "PruneHeld", pending: []v1alpha1.PendingChange{{Object: "ConfigMap/a/a", Action: "delete", Reason: "deleting a: confirm", HeldBy: []string{"DeletionLosses"}}}},
		},
		"drift that is only reported leaves the Sync ready and drifted, without a retry: it would find the same": {
			ran(change("a", plan.Update, func(c *plan.Change) {
				c.Hold, c.Drift = hold.Reasons{{Rule: hold.DriftReported, Facts: hold.Facts{Detail: "only reported"}}}, true
			})),
			conclusion{ready: true, converged: true, reason: "ReconciliationSucceeded", drifted: 1,
				pending: []v1alpha1.PendingChange{{Object: "ConfigMap/a/a", Action: "update", Reason: "only reported", SkippedBy: []string{"DriftReported"}, Source: "a.yaml:7"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := resultOf(c.done)
			if got.message == "" {
				t.Error("the result has no message")
			}
			if diff := cmp.Diff(c.want, concluded(got), cmp.AllowUnexported(conclusion{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// Of the objects beside those that do not fit their schema, so many failed for another reason, and
// so many are applied.
func TestTheMessageOnInvalidManifestsCountsTheOtherObjects(t *testing.T) {
	misfit, other := state.Fail(state.Stalled, "Invalid", targets.ErrSchema), errors.New("connection refused")
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"none":                     {[]error{misfit}, "; no object of this revision could be read, what was applied before stays, nothing is pruned"},
		"one, applied":             {[]error{misfit, nil}, "; all other objects are applied, nothing is pruned"},
		"two, applied":             {[]error{misfit, misfit, nil, nil}, "; all other objects are applied, nothing is pruned"},
		"one of them failed":       {[]error{misfit, other, nil}, "; 1 other object failed, as listed in status.pending, the rest are applied, nothing is pruned"},
		"all of them failed":       {[]error{misfit, other, other}, "; 2 other objects failed, as listed in status.pending, the rest are applied, nothing is pruned"},
		"one of them failed first": {[]error{other, misfit, nil}, "; 1 other object failed, as listed in status.pending, the rest are applied, nothing is pruned"},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []plan.Change
			for i := range c.errs {
				changes = append(changes, change(fmt.Sprint(i), plan.Create, nil))
			}
			done := ran(changes...)
			for i, err := range c.errs {
				if err != nil {
					done.Outcome.Results[i].Status, done.Outcome.Results[i].Err = apply.Failed, err
				}
			}
			if got := resultOf(done).message; !strings.HasSuffix(got, c.want) {
				t.Errorf("%q, want it to end in %q", got, c.want)
			}
		})
	}
}

func TestWhatASourceWaitsForIsReportedOnceWithItsRemedy(t *testing.T) {
	here, there := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a branch that was moved": {
			fmt.Errorf("fetching: %w", &gitsource.NotFastForwardError{Branch: "main", From: here, To: there}),
			`fetching: branch "main" moved from commit ` + here + " to " + there + ", which does not descend from it; revision main@sha1:" + here +
				" stays applied; put the branch back to the commit before, or confirm that it moved",
		},
		"a limit of the repository": {
			fmt.Errorf("%w: the tree has more than 100000 files", gitsource.ErrLimit),
			"limit exceeded: the tree has more than 100000 files; no setting raises this limit: declare less, or split the folder between Syncs; revision main@sha1:" + here + " stays applied",
		},
		"a limit of what renders": {
			state.Failf(state.Stalled, "LimitExceeded", "rendering took more than 640 MiB of memory"),
			"rendering took more than 640 MiB of memory; no setting raises this limit: declare less, or split the folder between Syncs; revision main@sha1:" + here + " stays applied",
		},
		"another failure has no remedy of these": {
			fmt.Errorf("fetching: %w", gitsource.ErrUnreachable), "fetching: source unreachable; revision main@sha1:" + here + " stays applied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			done := ran()
			done.SourceError, done.Revision = c.err, "main@sha1:"+here
			if diff := cmp.Diff(c.want, resultOf(done).message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsFollowKstatus(t *testing.T) {
	sync := &v1alpha1.Sync{Status: v1alpha1.SyncStatus{ObservedGeneration: 3, LastAppliedRevision: "main@sha1:old"}}
	sync.Generation = 4
	updated := sync.DeepCopy()
	status := &updated.Status

	failed := reconciliation{err: state.Failf(state.Stalled, "PathNotFound", "gone")}
	resultOf(failed).write(updated, sync, failed)
	if !conditions.IsFalse(updated, "Ready") || !conditions.IsStalled(updated) {
		t.Errorf("after a failure for the user: %+v", status.Conditions)
	}
	if status.ObservedGeneration != 4 || status.LastAppliedRevision != "main@sha1:old" {
		t.Errorf("a stall is of generation %d, revision %s", status.ObservedGeneration, status.LastAppliedRevision)
	}

	status.ObservedGeneration = 3
	down := reconciliation{err: fmt.Errorf("x: %w", gitsource.ErrUnreachable)}
	resultOf(down).write(updated, sync, down)
	if status.ObservedGeneration != 3 {
		t.Errorf("a failure that may pass moved the generation to %d", status.ObservedGeneration)
	}
	if conditions.Has(updated, "Stalled") || !conditions.IsReconciling(updated) {
		t.Errorf("after a failure that may pass: %+v", status.Conditions)
	}

	good := ran(change("a", plan.Create, nil))
	good.TreeID = "tree"
	resultOf(good).write(updated, sync, good)
	for _, c := range status.Conditions {
		if c.Type == "Reconciling" || c.Type == "Stalled" {
			t.Errorf("%s is still there after a success", c.Type)
		}
		if c.ObservedGeneration != 4 {
			t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	if !conditions.IsReady(updated) || status.ObservedGeneration != 4 || status.LastAppliedRevision != "main@sha1:abc" || status.LastAppliedTreeID != "tree" {
		t.Errorf("after a success: %+v", status)
	}
}

func TestAnIdleReconciliationKeepsWhatTheLastFullRunReported(t *testing.T) {
	sync := &v1alpha1.Sync{}
	updated := sync.DeepCopy()
	reported := ran(change("a", plan.Update, func(c *plan.Change) {
		c.Hold, c.Drift = hold.Reasons{{Rule: hold.DriftReported, Facts: hold.Facts{Detail: "only reported"}}}, true
	}))
	resultOf(reported).write(updated, sync, reported)
	before := updated.DeepCopy()
	idleRun := reconciliation{kind: idle, Result: reconciler.Result{Revision: reported.Revision}}
	resultOf(idleRun).write(updated, sync, idleRun)
	if diff := cmp.Diff(before, updated); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

func TestLongMessagesFitTheAPI(t *testing.T) {
	sync, updated := &v1alpha1.Sync{}, &v1alpha1.Sync{}
	runResult{reason: "ApplyFailed", message: strings.Repeat("ü", pending.MessageLimit)}.write(updated, sync, reconciliation{})
	for _, kind := range []string{"Ready", "Reconciling"} {
		if message := conditions.GetMessage(updated, kind); len(message) > pending.MessageLimit || !utf8.ValidString(message) || message == "" {
			t.Errorf("%s has a message of %d bytes", kind, len(message))
		}
	}
}

func after(failures int) *syncState {
	return &syncState{requeueState: requeueState{failures: failures}}
}

// holding has a change that is held until then.
func holding(until time.Time) *syncState {
	reason := hold.Reason{Rule: hold.HoldUntil, Facts: hold.Facts{Until: until.Format(time.RFC3339)}}
	return &syncState{requeueState: requeueState{drift: driftState{pendingChanges: []pendingChange{{held: hold.Reasons{reason}}}}}}
}

func TestNextReconciliation(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bad := runResult{reason: "SourceUnavailable"}
	for name, c := range map[string]struct {
		s          *syncState
		v          runResult
		atLeast, m time.Duration
	}{
		"a ready Sync comes back when its interval is over":       {&syncState{requeueState: requeueState{nextFetch: now.Add(40 * time.Second)}}, runResult{ready: true}, 40 * time.Second, 40 * time.Second},
		"a first failure comes back after a second":               {after(1), bad, time.Second, time.Second},
		"a third failure comes back after four":                   {after(3), bad, 4 * time.Second, 4 * time.Second},
		"the hundredth failure does not wait beyond the interval": {after(100), bad, time.Minute, time.Minute},
		"a failure that has its time waits for it":                {after(1), runResult{after: 20 * time.Second}, 20 * time.Second, 20 * time.Second},
		"no failure keeps the source from being read":             {after(1), runResult{after: 5 * time.Minute}, time.Minute, time.Minute},
		"one thing put back does not put off what still fails":    {after(2), runResult{ready: true}, 2 * time.Second, 2 * time.Second},
		"a ready Sync comes back when a hold ends":                {holding(now.Add(10 * time.Second)), runResult{ready: true}, 10 * time.Second, 10 * time.Second},
		"a hold that ends later does not put the next one off":    {holding(now.Add(10 * time.Minute)), runResult{ready: true}, time.Minute, time.Minute},
		"a hold that is over leaves a failure to the back-off":    {holding(now.Add(-time.Second)), runResult{reason: "SourceUnavailable", after: 20 * time.Second}, 20 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.s.requeueAfter(now, time.Minute, c.v)
			if got < c.atLeast || got > c.m {
				t.Errorf("nextVisit = %s, want %s to %s", got, c.atLeast, c.m)
			}
		})
	}
}

func TestForced(t *testing.T) {
	full := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	base := func() *v1alpha1.Sync {
		s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{}}}
		return s
	}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.Sync)
		s    *syncState
		want bool
	}{
		"nothing requested":          {func(*v1alpha1.Sync) {}, &syncState{requeueState: requeueState{generation: 2, converged: true}}, false},
		"a changed spec":             {func(*v1alpha1.Sync) {}, &syncState{requeueState: requeueState{generation: 1, converged: true}}, true},
		"a new reconcile annotation": {func(s *v1alpha1.Sync) { s.Annotations[fluxmeta.ReconcileRequestAnnotation] = "now" }, &syncState{requeueState: requeueState{generation: 2, converged: true}}, true},
		"a reconcile annotation handled": {func(s *v1alpha1.Sync) {
			s.Annotations[fluxmeta.ReconcileRequestAnnotation] = "now"
			s.Status.LastHandledReconcileAt = "now"
		}, &syncState{requeueState: requeueState{generation: 2, converged: true}}, false},
		"what could not be written, once it is time": {func(*v1alpha1.Sync) {}, &syncState{requeueState: requeueState{generation: 2, converged: true, statusWriteFailures: 7, lastFull: full}}, true},
		"what could not be written, before its time": {func(*v1alpha1.Sync) {}, &syncState{requeueState: requeueState{generation: 2, converged: true, statusWriteFailures: 8, lastFull: full}}, false},
		"a confirmation while something waits":       {func(s *v1alpha1.Sync) { s.Annotations[v1alpha1.ConfirmAnnotation] = "abc" }, &syncState{requeueState: requeueState{generation: 2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := base()
			c.edit(sync)
			if got := c.s.forced(sync, full.Add(90*time.Second)); got != c.want {
				t.Errorf("forced = %t", got)
			}
		})
	}
}

// waits is a source that answers when it is closed.
type waits chan struct{}

func (w waits) Fetch(context.Context) (gitsource.Snapshot, error) {
	<-w
	return gitsource.Snapshot{}, context.Canceled
}

func TestOtherSyncsDoNotWaitForOneThatDrains(t *testing.T) {
	slow, other := types.NamespacedName{Namespace: "ns", Name: "slow"}, &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}
	cancelled, fetched, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	revisions := background.New(t.Context(), reconciler.NewLoop(waits(fetched), nil), func() {})
	_, _, _ = revisions.Fetch("", true)
	all := syncStates{open: map[types.NamespacedName]*syncState{slow: {
		SyncRuntime: SyncRuntime{Loop: reconciler.NewLoop(nil, nil)},
		cancel:      func() { close(cancelled) }, revisions: revisions,
	}}}
	go func() {
		defer close(stopped)
		all.stop(slow)
	}()
	<-cancelled
	if !all.mu.TryLock() {
		t.Error("a state that drains holds the lock that every Sync needs")
	} else {
		all.mu.Unlock()
	}
	close(fetched)
	<-stopped
	build := func(context.Context, *v1alpha1.Sync) (SyncRuntime, error) { return SyncRuntime{}, nil }
	if _, err := all.get(t.Context(), other, build); err != nil || len(all.open) != 1 {
		t.Errorf("afterwards there are %d states, %v", len(all.open), err)
	}
}

func TestNamesAndReasonsInTheStatusAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	done := ran()
	for range 2 * pending.Limit {
		done.Plan.Changes = append(done.Plan.Changes, change(long, plan.Create, func(c *plan.Change) {
			c.After.Origin.File = long
			done.Outcome.Results = append(done.Outcome.Results, apply.Result{Change: *c, Status: apply.Failed, Err: errors.New(long)})
		}))
	}
	sync := &v1alpha1.Sync{}
	resultOf(done).write(sync, sync, done)
	raw, err := json.Marshal(sync.Status)
	if err != nil || len(sync.Status.Pending) != pending.Limit || len(raw) > 512<<10 {
		t.Errorf("the status has %d bytes and %d pending changes, %v", len(raw), len(sync.Status.Pending), err)
	}
}
