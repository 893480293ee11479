package readiness

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process remembers of nodes. Nothing is decided by it that
// would not be decided again, later, after a restart.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*impression
}

// impression is what is remembered of one node.
type impression struct {
	uid  types.UID
	pool string
	// met is when the node was first seen under its present profile.
	met     time.Time
	profile string
	// since is when the node was first seen to offer something else than it
	// should; zero when it does not.
	since time.Time
	// told is true when that was said in an event.
	told bool
	// shown is the node's part in Pools, in words.
	shown string
}

func newMemory() *memory {
	return &memory{nodes: map[string]*impression{}}
}

// meet remembers a node, anew when it is another of the same name.
func (m *memory) meet(node *corev1.Node, pool, profile string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[node.Name]
	if i == nil || i.uid != node.UID {
		i = &impression{uid: node.UID, met: now, profile: profile}
		m.nodes[node.Name] = i
	}
	if i.profile != profile {
		i.profile, i.met = profile, now
	}
	i.pool = pool
	return i.met
}

// metAt is when a node was first seen, or now.
func (m *memory) metAt(node *corev1.Node, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[node.Name]; i != nil && i.uid == node.UID {
		return i.met
	}
	return now
}

// doubt remembers since when a node's offer is not what it should be.
func (m *memory) doubt(name string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil {
		return now
	}
	if i.since.IsZero() {
		i.since = now
	}
	return i.since
}

// settle forgets the doubt.
func (m *memory) settle(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[name]; i != nil {
		i.since, i.told = time.Time{}, false
	}
}

// doubted is what doubt returned; zero without a doubt.
func (m *memory) doubted(node *corev1.Node) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[node.Name]; i != nil && i.uid == node.UID {
		return i.since
	}
	return time.Time{}
}

// tell returns true the first time that it is asked about a doubt.
func (m *memory) tell(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.told {
		return false
	}
	i.told = true
	return true
}

// show remembers a node's part in Pools; it returns whether that is news.
func (m *memory) show(name, words string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.shown == words {
		return false
	}
	i.shown = words
	return true
}

// forget drops a node. It returns whether it was known, and whether it was the
// last of its pool.
func (m *memory) forget(name string) (known, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := m.nodes[name]
	if gone == nil {
		return false, false
	}
	delete(m.nodes, name)
	return true, !m.has(gone.pool)
}

// empty are those of the pools that have no nodes.
func (m *memory) empty(pools []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, pool := range pools {
		if !m.has(pool) {
			out = append(out, pool)
		}
	}
	return out
}

func (m *memory) has(pool string) bool {
	for _, i := range m.nodes {
		if i.pool == pool {
			return true
		}
	}
	return false
}
