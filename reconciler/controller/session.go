package controller

import (
	"context"
	"slices"
	gosync "sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/background"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// Assembly is what a Sync needs to run.
type Assembly struct {
	// Loop leads from the Sync's source to its targets.
	Loop *reconciler.Loop
	// Watch reports the keys of things that drifted, as soon as they do,
	// until ctx ends. May be nil.
	Watch func(ctx context.Context, drifted func([]state.Key)) error
	// Consider holds what a plan's consequences do not allow, see [reconciler.Options];
	// sync is the Sync as it is then. May be nil.
	Consider func(ctx context.Context, sync *v1alpha1.Sync, p plan.Plan) plan.Plan
	// Orphan gives up the inventory and leaves the things; called when the
	// Sync is deleted.
	Orphan func(ctx context.Context) error
}

// Builder makes the Assembly of a Sync. ctx lives as long as the Assembly.
type Builder func(ctx context.Context, sync *v1alpha1.Sync) (Assembly, error)

// sessions holds what lives between two visits to a Sync.
type sessions struct {
	mu gosync.Mutex
	// notify requests a visit.
	notify func(types.NamespacedName)
	open   map[types.NamespacedName]*session
	// last are the statuses that were written last, and compared what they were compared with, by Sync.
	last     map[types.NamespacedName]written
	compared map[types.NamespacedName]string
}

// session is one Sync's memory. Only its drift is shared between goroutines:
// visits to one Sync never overlap.
type session struct {
	Assembly
	fingerprint string
	cancel      context.CancelFunc
	revisions   *background.Loader

	mu      gosync.Mutex
	drifted map[state.Key]bool

	requeueState
}

// requeueState is what one visit hands to the next.
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
	drift     driftState
	// statusWriteFailures counts the full comparisons in a row whose status could not be
	// written.
	statusWriteFailures int
}

// get returns the Sync's session, anew when its source, its path or where its variables
// come from changed.
func (s *sessions) get(ctx context.Context, sync *v1alpha1.Sync, build Builder) (*session, error) {
	name := types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name}
	fingerprint := fingerprintOf(sync)
	s.mu.Lock()
	old := s.open[name]
	s.mu.Unlock()
	if old != nil && old.fingerprint == fingerprint {
		return old, nil
	}
	s.stop(name)
	// The session outlives this visit, but not the process.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	assembly, err := build(live, sync)
	if err != nil {
		cancel()
		return nil, err
	}
	fresh := &session{
		Assembly: assembly, fingerprint: fingerprint, cancel: cancel, drifted: map[state.Key]bool{},
		revisions: background.New(live, assembly.Loop, func() { s.notify(name) }),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[types.NamespacedName]*session{}
	}
	s.open[name] = fresh
	if assembly.Watch != nil {
		go s.watch(live, name, fresh, assembly.Watch)
	}
	return fresh, nil
}

// fingerprintOf is what a session, and what waits, is of: a Sync's source, its path, and where its
// variables come from.
func fingerprintOf(sync *v1alpha1.Sync) string {
	return state.Hash(struct {
		UID    types.UID
		Source v1alpha1.Source
		Path   string
		From   []v1alpha1.SubstituteReference
		Given  bool
	}{sync.UID, sync.Spec.Source, sync.Spec.Path, sync.Spec.SubstituteFrom, len(sync.Spec.Substitute) > 0})
}

// watch turns drift into visits, for as long as the session lives.
func (s *sessions) watch(ctx context.Context, name types.NamespacedName, to *session, watch func(context.Context, func([]state.Key)) error) {
	for ctx.Err() == nil {
		err := watch(ctx, func(keys []state.Key) {
			to.putBack(keys)
			s.notify(name)
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		// Without its watch a Sync still works, by resync: try again later.
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// stop ends the Sync's session, if there is one. Draining takes seconds and is done
// without the lock: other Syncs do not wait for it, and visits to this one never overlap.
func (s *sessions) stop(name types.NamespacedName) {
	s.mu.Lock()
	old := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if old != nil {
		old.cancel()
		// The next session may use the same mirror. Other Syncs wait for neither.
		old.revisions.Drain()
		old.Loop.Unload()
	}
}

// forget ends the session of a Sync that is gone.
func (s *sessions) forget(name types.NamespacedName) {
	s.stop(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, name)
	delete(s.compared, name)
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.open {
		old.cancel()
		delete(s.open, name)
	}
}

// options is how careful a run for the Sync must be.
func (s *session) options(sync *v1alpha1.Sync) reconciler.Options {
	opts := reconciler.Options{Policies: syncpolicy.ForRun(sync)}
	if s.Consider != nil {
		opts.Guard = func(ctx context.Context, p plan.Plan) plan.Plan { return s.Consider(ctx, sync, p) }
	}
	return opts
}

func (s *session) takeDrift() []state.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]state.Key, 0, len(s.drifted))
	for k := range s.drifted {
		keys = append(keys, k)
	}
	clear(s.drifted)
	return keys
}

func (s *session) putBack(keys []state.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.drifted[k] = true
	}
}

// forced reports whether the user requested more than the routine: a changed spec, the
// reconcile-now annotation, a new confirmation; or whether it is time to find out again
// what could not be written.
func (s *session) forced(sync *v1alpha1.Sync, now time.Time) bool {
	asked := sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	return sync.Generation != s.generation || s.statusWriteFailures > 0 && s.retryStatusWrite(now) <= 0 ||
		(asked != "" && asked != sync.Status.LastHandledReconcileAt) ||
		sync.Annotations[v1alpha1.ConfirmAnnotation] != s.confirmed
}

// observe puts what a run read into the session's drift state, and that into the result
// of a run that has observed only some of it. What the status has already was reported.
func (s *session) observe(done run, told []v1alpha1.PendingChange, v *runResult) {
	before := s.drift
	s.drift = before.after(done)
	v.lost = s.drift.lost(before)
	v.cleared = len(before.unknown) > 0 && len(s.drift.unknown) == 0
	if done.err == nil && done.kind != idle {
		v.added = s.drift.added(before, told)
	}
	if done.kind == partial && done.err == nil {
		v.drift = s.drift
		if slices.Contains([]string{pruneHeld, guardChangeHeld, nodeReplacementHeld}, v.reason) {
			v.wait(done.Revision) // With what else waits.
		}
	}
}

// note keeps what the next visit needs of this one.
func (s *session) note(sync *v1alpha1.Sync, done run, v runResult) {
	switch {
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
		if v.reason == partlyUnknown || v.reason == nodeReplacementHeld {
			// Everything else is done, and the watches cover what is unknown.
			s.restUntil = s.lastFull.Add(pause(s.failures, unknownPause))
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
func (s *session) recorded(done run, err error, now time.Time) time.Duration {
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
func (s *session) retryStatusWrite(now time.Time) time.Duration {
	return s.lastFull.Add(pause(s.statusWriteFailures, unknownPause)).Sub(now)
}

// requeueAfter backs off exponentially from one second while something is wrong,
// and otherwise comes back when the source is to be fetched from again.
func (s *session) requeueAfter(now time.Time, every time.Duration, v runResult) time.Duration {
	if s.statusWriteFailures > 0 {
		return max(min(s.retryStatusWrite(now), every), time.Second)
	}
	if v.cleared && v.ready {
		return time.Second // Nothing is unknown any more: compare the rest, too.
	}
	if v.ready && s.failures == 0 {
		if left := s.nextFetch.Sub(now); left > 0 {
			return left
		}
		return every
	}
	if v.after > 0 {
		return min(v.after, every)
	}
	return pause(s.failures, every)
}

// unknownPause is the longest time between two full comparisons whose only failure is
// that something could not be read: AWS bills and throttles by the call, and a
// permission is missing until a person grants it.
const unknownPause = 5 * time.Minute

// pause grows with the failures in a row, from a second to the limit.
func pause(failures int, limit time.Duration) time.Duration {
	return min(time.Second<<min(max(failures-1, 0), 10), limit)
}

// written is the version of a Sync that our last status made.
type written struct {
	uid     types.UID
	version string
	at      time.Time
}
