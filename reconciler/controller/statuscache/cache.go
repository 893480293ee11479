// Package statuscache records the statuses of Syncs that this process wrote, by which a cache that
// lacks them is detected, and a status of another source.
//
// It refuses to hold statuses: it has their versions. Start reading at Cache.
package statuscache

import (
	"sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Cache is what was written of each Sync. The zero value is ready to use, and it is safe for
// concurrent use.
type Cache struct {
	mu sync.Mutex
	// last are the statuses that were written last, and compared what they were compared with, by Sync.
	last     map[types.NamespacedName]writtenStatus
	compared map[types.NamespacedName]string
}

// StaleTimeout is how long a cache may be behind before its watch is taken for
// broken: an old copy is better than a Sync that nobody reconciles.
const StaleTimeout = 10 * time.Second

// Drop drops what was recorded of a Sync that is gone.
func (s *Cache) Drop(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, name)
	delete(s.compared, name)
}

// Previous is the status of a Sync whose source has the fingerprint, empty where it is of another
// source: by what this process wrote, or where it wrote none yet, of an earlier spec.
func (s *Cache) Previous(sync *v1alpha1.Sync, fingerprint string) v1alpha1.SyncStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.compared[client.ObjectKeyFromObject(sync)]
	ready := conditions.Get(sync, fluxmeta.ReadyCondition)
	if known && of != fingerprint || !known && ready != nil && ready.ObservedGeneration != sync.Generation {
		return v1alpha1.SyncStatus{}
	}
	return sync.Status
}

// RecordSource records that the status which was written is of the Sync's source.
func (s *Cache) RecordSource(sync *v1alpha1.Sync, fingerprint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared == nil {
		s.compared = map[types.NamespacedName]string{}
	}
	s.compared[client.ObjectKeyFromObject(sync)] = fingerprint
}

// Record records the Sync as a write of its status returned it.
func (s *Cache) Record(sync *v1alpha1.Sync, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[types.NamespacedName]writtenStatus{}
	}
	s.last[client.ObjectKeyFromObject(sync)] = writtenStatus{sync.UID, sync.ResourceVersion, at}
}

// IsStale reports whether a Sync, as the cache has it, lacks the status that we wrote
// last: compared with an older one, a new status can seem to be there already, and a
// patch would bring old conditions back. After a restart there is nothing to compare
// with: a new cache begins with the newest state.
func (s *Cache) IsStale(sync *v1alpha1.Sync, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[client.ObjectKeyFromObject(sync)]
	if !ok || last.uid != sync.UID || !now.Before(last.at.Add(StaleTimeout)) {
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
