package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// requeueState is what one reconciliation passes to the next.
type requeueState struct {
	// nextFetch is when to fetch from the source again.
	nextFetch time.Time
	// lastFull is when everything was compared, lastObserved when anything was;
	// before restUntil another comparison of the same revision cannot help.
	lastFull     time.Time
	lastObserved time.Time
	restUntil    time.Time
	generation   int64
	// confirmed is the confirmation that the last full comparison read.
	confirmed string
	// used is the confirmation that was used last, whether or not the status has it.
	used      string
	converged bool
	failures  int
	lastEvent string
	// unused is what was reported of rules that match no object.
	unused string
	drift  driftState
	// statusWriteFailures counts the full comparisons in a row whose status could not be
	// written.
	statusWriteFailures int
	// ready is the condition Ready of the last run that wrote one and ended ready, before the
	// health of objects; nil where it did not.
	ready *metav1.Condition
	// dependencies are those of the Sync as they were at the last fetch that returned.
	dependencies string
	// next is when the last reconciliation had the next one come, for whatever but health.
	next time.Time
}

// record keeps what the next reconciliation needs of this one. It does nothing for nil.
func (s *syncState) record(sync *v1alpha1.Sync, done reconciliation, v runResult) {
	switch {
	case s == nil:
		return
	case v.reason == holdUntil:
		s.failures = 0 // Nothing failed.
	case !v.ready:
		s.failures++
	case done.kind != partial:
		// Putting one thing back proves nothing of the others.
		s.failures = 0
	}
	switch done.kind {
	case full:
		s.generation, s.confirmed = sync.Generation, sync.Annotations[v1alpha1.ConfirmAnnotation]
		s.converged = v.converged
		s.restUntil = s.lastFull.Add(v.after)
		if v.reason == partlyUnknown || endsByItself(v.reason) {
			// Everything else is done, and the watches cover what is unknown.
			s.restUntil = s.lastFull.Add(retryBackoff(s.failures, unknownRetryInterval))
		}
		if until := s.drift.heldUntil(); v.reason == holdUntil {
			// Nothing changes before the first hold ends, or an annotation is removed.
			s.restUntil = s.lastFull.Add(min(until.Sub(s.lastFull), unknownRetryInterval))
		}
	case partial:
		// What could not be put back alone is for a full run to decide.
		s.converged = s.converged && v.converged
		if v.cleared {
			// Only a full run may call that ready.
			s.restUntil = time.Time{}
		}
	case idle, waiting:
	}
}

// recorded keeps whether a run's status was written, and returns how long to wait if not.
// Only a full run reports again all that is missing.
func (s *syncState) recorded(done reconciliation, err error, now time.Time) time.Duration {
	switch {
	case err == nil && done.kind == full:
		s.statusWriteFailures = 0
	case err != nil && (done.kind == full || s.statusWriteFailures == 0):
		s.statusWriteFailures++
	}
	return max(s.retryStatusWrite(now), time.Second)
}

// retryStatusWrite is how long after now everything is compared again because a status could
// not be written.
func (s *syncState) retryStatusWrite(now time.Time) time.Duration {
	return s.lastFull.Add(retryBackoff(s.statusWriteFailures, unknownRetryInterval)).Sub(now)
}

// requeueAfter backs off exponentially from one second while something is wrong,
// and otherwise comes back when the source is to be fetched from again.
func (s *syncState) requeueAfter(now time.Time, every time.Duration, v runResult) time.Duration {
	if s.statusWriteFailures > 0 {
		return max(min(s.retryStatusWrite(now), every), time.Second)
	}
	if v.cleared && v.ready {
		return time.Second // Nothing is unknown any more: compare the rest, too.
	}
	if until := s.drift.heldUntil(); until.After(now) || v.reason == holdUntil { // What is over and could not be made keeps to the back-off.
		every = min(every, max(until.Sub(now), time.Second))
	}
	if (v.ready || v.reason == holdUntil) && s.failures == 0 {
		if left := s.nextFetch.Sub(now); left > 0 {
			return min(left, every)
		}
		return every
	}
	if v.after > 0 {
		return min(v.after, every)
	}
	return retryBackoff(s.failures, every)
}

// unknownRetryInterval is the longest time between two full comparisons whose only failure is
// that something could not be read: AWS bills and throttles by the call, and a
// permission is missing until a person grants it.
const unknownRetryInterval = 5 * time.Minute

// retryBackoff grows with the failures in a row, from a second to the limit.
func retryBackoff(failures int, limit time.Duration) time.Duration {
	return min(time.Second<<min(max(failures-1, 0), 10), limit)
}
