package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	gosync "sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/background"
	"github.com/poolwright/poolwright/reconciler/controller/expectations"
	"github.com/poolwright/poolwright/reconciler/controller/health"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state"
)

// SyncRuntime is what a Sync needs to run.
type SyncRuntime struct {
	// Loop leads from the Sync's source to its targets.
	Loop *reconciler.Loop
	// Watch reports the keys of things that drifted, as soon as they do,
	// until ctx ends. May be nil.
	Watch func(ctx context.Context, drifted func([]state.Key)) error
	// Guard holds what a plan's consequences do not allow, see [reconciler.Options];
	// sync is the Sync as it is then. May be nil.
	Guard func(ctx context.Context, sync *v1alpha1.Sync, p plan.Plan) plan.Plan
	// Health computes the health of what the Sync's spec requires to be healthy. May be nil.
	Health health.Checker
	// Orphan gives up the inventory and leaves the things; called when the
	// Sync is deleted.
	Orphan func(ctx context.Context) error
}

// Builder makes the SyncRuntime of a Sync. ctx lives as long as that.
type Builder func(ctx context.Context, sync *v1alpha1.Sync) (SyncRuntime, error)

// syncStates holds what lives between two reconciliations of a Sync.
type syncStates struct {
	mu gosync.Mutex
	// notify requests a reconciliation.
	notify func(types.NamespacedName)
	// timeout is that of each Loader; 0 is its default.
	timeout time.Duration
	open    map[types.NamespacedName]*syncState
	// expectations are the versions that the cache has to have, since we wrote their statuses.
	expectations expectations.Expectations
}

// syncState is one Sync's state between reconciliations. Only its drift is shared between goroutines:
// reconciliations of one Sync never overlap.
type syncState struct {
	SyncRuntime
	fingerprint string
	cancel      context.CancelFunc
	revisions   *background.Loader
	health      *health.State
	inputs      background.Inputs

	mu      gosync.Mutex
	drifted map[state.Key]bool
	// requested is true where a watch requested a reconciliation, be it without a key.
	requested bool

	requeueState
}

// get returns the Sync's state, anew when its source, its path or where its variables
// come from changed.
func (s *syncStates) get(ctx context.Context, sync *v1alpha1.Sync, build Builder) (*syncState, error) {
	name := types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name}
	fingerprint := fingerprintOf(sync)
	s.mu.Lock()
	old := s.open[name]
	s.mu.Unlock()
	if old != nil && old.fingerprint == fingerprint {
		return old, nil
	}
	s.stop(name)
	// The state outlives this reconciliation, but not the process.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	assembly, err := build(live, sync)
	if err != nil {
		cancel()
		return nil, err
	}
	fresh := &syncState{
		SyncRuntime: assembly, fingerprint: fingerprint, cancel: cancel, drifted: map[state.Key]bool{},
		revisions: background.New(live, assembly.Loop, func() { s.notify(name) }),
	}
	fresh.revisions.Timeout = cmp.Or(s.timeout, fresh.revisions.Timeout)
	fresh.health = health.New(live, assembly.Health, func() { s.notify(name) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[types.NamespacedName]*syncState{}
	}
	s.open[name] = fresh
	if assembly.Watch != nil {
		go s.watch(live, name, fresh, assembly.Watch)
	}
	return fresh, nil
}

// fingerprintOf is what a state, and what waits, is of: a Sync's source, its path, where its
// variables come from, and what it ignores.
func fingerprintOf(sync *v1alpha1.Sync) string {
	spec := sync.Spec
	return state.Hash([]any{sync.UID, rollback.Source(sync), spec.SourceRef, spec.Path, spec.SubstituteFrom, len(spec.Substitute) > 0, spec.Ignore})
}

// watch turns drift into reconciliations, for as long as the state is kept.
func (s *syncStates) watch(ctx context.Context, name types.NamespacedName, to *syncState, watch func(context.Context, func([]state.Key)) error) {
	for ctx.Err() == nil {
		err := watch(ctx, func(keys []state.Key) {
			to.inputs.Record(keys)
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

// stop ends the Sync's state, if there is one. Draining takes seconds and is done
// without the lock: other Syncs do not wait for it, and those of this one never overlap.
func (s *syncStates) stop(name types.NamespacedName) {
	s.mu.Lock()
	old := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if old != nil {
		old.cancel()
		// The next one may use the same cache. Other Syncs wait for neither.
		old.revisions.Drain()
		old.Loop.Unload()
	}
}

// drop ends the state of a Sync that is gone.
func (s *syncStates) drop(name types.NamespacedName) {
	s.stop(name)
	s.expectations.Delete(name)
}

// close ends all of them.
func (s *syncStates) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.open {
		old.cancel()
		delete(s.open, name)
	}
}

func (s *syncState) takeDrift() []state.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Collect(maps.Keys(s.drifted))
	clear(s.drifted)
	s.requested = false
	return keys
}

func (s *syncState) putBack(keys []state.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.drifted[k] = true
	}
	s.requested = true
}

// forced reports whether the user requested more than the routine: a changed spec, the
// reconcile-now annotation, a new confirmation; or whether it is time to find out again
// what could not be written.
func (s *syncState) forced(sync *v1alpha1.Sync, now time.Time) bool {
	requestedAt := sync.Annotations[fluxmeta.ReconcileRequestAnnotation]
	return sync.Generation != s.generation || s.statusWriteFailures > 0 && s.retryStatusWrite(now) <= 0 ||
		(requestedAt != "" && requestedAt != sync.Status.LastHandledReconcileAt) ||
		sync.Annotations[v1alpha1.ConfirmAnnotation] != s.confirmed
}
