// Package expectations records the versions of Syncs that the informer's cache is expected to have, since this
// process wrote their statuses, and of which source each status is.
//
// It refuses to hold statuses: it has their versions. Start reading at Expectations.
package expectations

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

// Expectations are what the cache is expected to have of each Sync, as ControllerExpectations of
// Kubernetes' controllers. The zero value is ready to use, and it is safe for concurrent use.
type Expectations struct {
	mu sync.Mutex
	// last are the statuses that were written last, and compared what they were compared with, by Sync.
	last     map[types.NamespacedName]writtenStatus
	compared map[types.NamespacedName]string
}

// Timeout is how long a cache may be behind before its watch is taken for
// broken: an old copy is better than a Sync that nobody reconciles.
const Timeout = 10 * time.Second

// Delete deletes the expectations of a Sync that is gone.
func (s *Expectations) Delete(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, name)
	delete(s.compared, name)
}

// Previous is the status of a Sync whose source has the fingerprint, empty where it is of another
// source: by what this process wrote, or where it wrote none yet, of an earlier spec.
func (s *Expectations) Previous(sync *v1alpha1.Sync, fingerprint string) v1alpha1.SyncStatus {
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
func (s *Expectations) RecordSource(sync *v1alpha1.Sync, fingerprint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared == nil {
		s.compared = map[types.NamespacedName]string{}
	}
	s.compared[client.ObjectKeyFromObject(sync)] = fingerprint
}

// Expect records the Sync as a write of its status returned it: the cache has to have that version.
func (s *Expectations) Expect(sync *v1alpha1.Sync, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[types.NamespacedName]writtenStatus{}
	}
	s.last[client.ObjectKeyFromObject(sync)] = writtenStatus{sync.UID, sync.ResourceVersion, at}
}

// Satisfied reports whether a Sync, as the cache has it, has the status that we wrote
// last, or Timeout has passed: compared with an older one, a new status can seem to be there already, and a
// patch would bring old conditions back. After a restart there is nothing to compare
// with: a new cache begins with the newest state.
func (s *Expectations) Satisfied(sync *v1alpha1.Sync, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[client.ObjectKeyFromObject(sync)]
	if !ok || last.uid != sync.UID || !now.Before(last.at.Add(Timeout)) {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(sync.ResourceVersion, last.version)
	return err != nil || order >= 0
}

// writtenStatus is the version of a Sync that our last status made.
type writtenStatus struct {
	uid     types.UID
	version string
	at      time.Time
}
