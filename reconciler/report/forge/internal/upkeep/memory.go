package upkeep

import (
	"sync"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Thing names a comment: its pull request and its marker.
type Thing struct {
	Number int
	Marker forge.Marker
}

// Memory keeps what this process has done lately. It only saves requests and bridges
// forges' lag: all of it may be lost. The zero Memory is empty.
type Memory[K comparable, V any] struct {
	mu   sync.Mutex
	know map[K]V
}

const remembered = 4096

// Recall returns the value, or the zero value.
func (m *Memory[K, V]) Recall(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.know[key]
}

// Note keeps the value.
func (m *Memory[K, V]) Note(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.know == nil || len(m.know) >= remembered {
		m.know = map[K]V{}
	}
	m.know[key] = value
}
