package controller

import (
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// staleTimeout is how long a cache may be behind before its watch is taken for
// broken: an old copy is better than a Sync that nobody reconciles.
const staleTimeout = 10 * time.Second

// previousStatus is the status of a Sync, empty where it is of another source: by what this process wrote, or where it
// wrote none yet, of an earlier spec.
func (s *syncStates) previousStatus(sync *v1alpha1.Sync) v1alpha1.SyncStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.compared[client.ObjectKeyFromObject(sync)]
	ready := conditions.Get(sync, fluxmeta.ReadyCondition)
	if known && of != fingerprintOf(sync) || !known && ready != nil && ready.ObservedGeneration != sync.Generation {
		return v1alpha1.SyncStatus{}
	}
	return sync.Status
}

// recordSource records that the status which was written is of the Sync's source.
func (s *syncStates) recordSource(sync *v1alpha1.Sync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared == nil {
		s.compared = map[types.NamespacedName]string{}
	}
	s.compared[client.ObjectKeyFromObject(sync)] = fingerprintOf(sync)
}

func (s *syncStates) recordWrite(sync *v1alpha1.Sync, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[types.NamespacedName]writtenStatus{}
	}
	s.last[client.ObjectKeyFromObject(sync)] = writtenStatus{sync.UID, sync.ResourceVersion, at}
}

// isStale reports whether a Sync, as the cache has it, lacks the status that we wrote
// last: compared with an older one, a new status can seem to be there already, and a
// patch would bring old conditions back. After a restart there is nothing to compare
// with: a new cache begins with the newest state.
func (s *syncStates) isStale(sync *v1alpha1.Sync, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[client.ObjectKeyFromObject(sync)]
	if !ok || last.uid != sync.UID || !now.Before(last.at.Add(staleTimeout)) {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(sync.ResourceVersion, last.version)
	return err == nil && order < 0
}

// writtenStatus is the version of a Sync that our last status made.
type writtenStatus struct {
	uid     types.UID
	version string
	at      time.Time
}
