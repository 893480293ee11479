package comments

import (
	"sync"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Key names a comment: its pull request and its marker.
type Key struct {
	Number int
	Marker forge.Marker
}

// Cache keeps what this process has done lately. It only saves requests and bridges
// forges' lag: all of it may be lost. The zero Cache is empty.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]V
}

const maxEntries = 4096

// Get returns the value, or the zero value.
func (m *Cache[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entries[key]
}

// Remove removes the value: what a request leaves whose response is lost is not known.
func (m *Cache[K, V]) Remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// Put keeps the value.
func (m *Cache[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil || len(m.entries) >= maxEntries {
		m.entries = map[K]V{}
	}
	m.entries[key] = value
}
