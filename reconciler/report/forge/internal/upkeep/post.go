package upkeep

import (
	"context"
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

// Post keeps a comment of a pull request whose body and tail may have limit
// bytes.
func Post(ctx context.Context, in Thread, memory *Memory[Thing, int64], number int, c forge.Comment, limit int) (forge.Posted, error) {
	thing := Thing{number, c.Marker}
	want := Wanted{
		Marker: c.Marker, EditOnly: c.EditOnly,
		Text: func(now string) string { return text(c, now, limit) },
	}
	if c.Body != "" {
		// A tail alone is never written to a comment that was not read: what
		// stands above it would be lost.
		want.Last = memory.Recall(thing)
	}
	kept, written, err := Keep(ctx, in, want)
	if err != nil {
		return forge.Posted{}, err
	}
	memory.Note(thing, kept.ID)
	return forge.Posted{URL: kept.URL, Written: written}, nil
}
