// Package health makes of what a target found of the objects that a Sync requires to be healthy
// what the Sync's condition Healthy has, and until when they may become so.
//
// It refuses to change what a run does: it is computed beside the runs. Start reading at State.
package health

import (
	"context"
	"fmt"
	gosync "sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Checker is the ability of a target to compute the health of objects.
type Checker interface {
	// CheckHealth is which objects have to be healthy from now on; an error means that an
	// expression is invalid, and that none is checked.
	CheckHealth(spec v1alpha1.HealthCheckSpec) error
	// WatchHealth calls changed, until ctx ends, when Health may be another.
	WatchHealth(ctx context.Context, changed func())
	// Health is what was found.
	Health() targets.Health
}

// State is the health of one Sync's objects between two reconciliations, which never overlap.
type State struct {
	checker Checker
	// invalid is why the expressions of the spec cannot be evaluated.
	invalid error
	// fails is when what is not healthy yet has failed; zero where nothing is awaited.
	fails time.Time
	// since is from when the timeout counts, by the spec of that generation; zero while all is
	// healthy.
	since      time.Time
	generation int64
	// last is the status that was found last.
	last metav1.ConditionStatus
	// origin is the origin of the last applied revision; empty where that is unknown, or there is none.
	origin string

	mu      gosync.Mutex
	changed bool
}

// New makes a State, which has notify called, until ctx ends, when the health may be another. A
// nil Checker checks nothing.
func New(ctx context.Context, checker Checker, notify func()) *State {
	s := &State{checker: checker}
	if checker != nil {
		go checker.WatchHealth(ctx, func() {
			s.mu.Lock()
			s.changed = true
			s.mu.Unlock()
			notify()
		})
	}
	return s
}

// Require is which objects have to be healthy from now on.
func (s *State) Require(spec v1alpha1.HealthCheckSpec) {
	if s.checker != nil {
		s.invalid = s.checker.CheckHealth(spec)
	}
}

// Due reports whether the health may be another than Check found last.
func (s *State) Due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed || !s.fails.IsZero() && !now.Before(s.fails)
}

// Result is the health of what a Sync requires to be healthy. The zero value is that nothing is.
type Result struct {
	// Status, Reason and Message are those of the condition Healthy.
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// Stalled is true where only a changed spec helps.
	Stalled bool
	// After is how long what is not healthy yet may take; 0 where nothing is awaited.
	After time.Duration
	// Changed is true where another status was found before, Recovered where that is healthy
	// now and was not before.
	Changed, Recovered bool
	// OriginRevision is the [reconciler.Result]'s of the last applied revision; may be empty.
	OriginRevision string
}

// Checked reports whether anything has to be healthy.
func (r Result) Checked() bool { return r.Status != "" }

// Healthy reports whether all is healthy that has to be.
func (r Result) Healthy() bool { return r.Status == "" || r.Status == metav1.ConditionTrue }

// Check computes the health by what was found last. The Sync has the condition of before, and
// applied is when its revision was applied.
func (s *State) Check(sync *v1alpha1.Sync, applied *metav1.Time, now time.Time) Result {
	before := conditions.Get(sync, fluxmeta.HealthyCondition)
	if s.last == "" && before != nil {
		s.last = before.Status
	}
	s.mu.Lock()
	s.changed, s.fails = false, time.Time{}
	s.mu.Unlock()
	if s.checker == nil || !sync.Spec.ChecksHealth() {
		s.last = ""
		return Result{}
	}
	result := s.check(sync, before, applied, now)
	result.OriginRevision = s.origin
	if result.After > 0 {
		s.fails = now.Add(result.After)
	}
	result.Changed = s.last != result.Status
	result.Recovered = result.Changed && s.last != "" && result.Healthy()
	s.last = result.Status
	return result
}

// RecordOrigin records the origin of the last applied revision where a run was of that.
func (s *State) RecordOrigin(applied string, run reconciler.Result) {
	if run.Revision == applied && run.AttemptedRevision == "" {
		s.origin = run.OriginRevision
	}
}

func (s *State) check(sync *v1alpha1.Sync, before *metav1.Condition, applied *metav1.Time, now time.Time) Result {
	if s.invalid != nil {
		return Result{Status: metav1.ConditionFalse, Reason: fluxmeta.InvalidCELExpressionReason, Stalled: true, Message: sanitize.Text(s.invalid.Error())}
	}
	found := s.checker.Health()
	if found.Observed && found.Unhealthy == 0 {
		s.since = time.Time{}
		return Result{Status: metav1.ConditionTrue, Reason: fluxmeta.SucceededReason, Message: fmt.Sprintf("%d of %d objects are healthy", found.Checked, found.Checked)}
	}
	message := "The objects are not observed yet"
	if found.Observed {
		message = fmt.Sprintf("%d of %d objects are not healthy, the first: %s: %s", found.Unhealthy, found.Checked, found.First.Key, sanitize.Text(found.First.Reason))
	}
	if found.Failed > 0 {
		message = fmt.Sprintf("%d of %d objects failed, the first: %s: %s", found.Failed, found.Checked, found.First.Key, sanitize.Text(found.First.Reason))
	}
	left := sync.Spec.HealthCheckTimeout() - now.Sub(s.began(sync, before, applied, now))
	if left <= 0 || found.Failed > 0 {
		return Result{Status: metav1.ConditionFalse, Reason: fluxmeta.HealthCheckFailedReason, Message: message}
	}
	return Result{Status: metav1.ConditionUnknown, Reason: fluxmeta.ProgressingReason, Message: message, After: left}
}

// began is since when the objects may take the timeout to become healthy: since the revision was
// applied, the spec was changed or the first of them became unhealthy, whatever was last. A process
// that has just started finds that in the condition.
func (s *State) began(sync *v1alpha1.Sync, before *metav1.Condition, applied *metav1.Time, now time.Time) time.Time {
	switch {
	case s.generation != 0 && s.generation != sync.Generation:
		s.since = now
	case !s.since.IsZero():
	case before == nil || before.Status == metav1.ConditionTrue || before.ObservedGeneration != sync.Generation:
		s.since = now
	case before.Status == metav1.ConditionFalse:
		s.since = before.LastTransitionTime.Add(-sync.Spec.HealthCheckTimeout())
	default:
		s.since = before.LastTransitionTime.Time
	}
	if s.generation = sync.Generation; applied != nil && applied.After(s.since) {
		s.since = applied.Time
	}
	return s.since
}
