package readiness

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/gpu"
)

// memory is what this process remembers of nodes. Nothing is decided by it that
// would not be decided again, later, after a restart.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*impression
}

// past is what of it others ask for.
type past struct {
	// met is when the node was first seen under its present profile.
	met time.Time
	// revised is when this process saw another revision of the plugin declared for
	// it, applied when it saw that the DaemonSet had come to be made from the
	// profile; zero for never.
	revised, applied time.Time
	// vouched is true when we ever vouched for what the node offers: pods may have
	// come to it.
	vouched bool
	// note is what keeps it from being replaced, found when that was tried last.
	note note
}

// impression is what is remembered of one node.
type impression struct {
	past
	uid  types.UID
	pool string
	// profile, revision and unapplied are how the node was seen last.
	profile, revision string
	unapplied         bool
	// since is when the node was first seen to offer something else than it
	// should; zero when it does not.
	since time.Time
	// told is true when that was said in an event.
	told bool
	// spared is what was last said of a node that is not replaced though it should.
	spared string
	// shown is the node's part in Pools, in words.
	shown string
}

func newMemory() *memory {
	return &memory{nodes: map[string]*impression{}}
}

// meet remembers a node, anew when it is another of the same name.
func (m *memory) meet(s *sight, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	revision, unapplied := s.revision(), s.unapplied != ""
	i := m.nodes[s.node.Name]
	if i == nil || i.uid != s.node.UID {
		i = &impression{uid: s.node.UID, profile: s.profile.Name, past: past{met: now}, revision: revision, unapplied: unapplied}
		m.nodes[s.node.Name] = i
	}
	switch {
	case i.profile != s.profile.Name:
		i.met, i.revised, i.applied = now, time.Time{}, time.Time{}
	case i.unapplied && !unapplied:
		i.applied = now
	case i.revision != revision && i.revision != "" && revision != "":
		i.revised = now
	}
	i.profile, i.unapplied, i.pool = s.profile.Name, unapplied, s.pool
	if revision != "" {
		i.revision = revision
	}
	if _, vouched := s.node.Annotations[gpu.OfferAnnotation]; vouched {
		i.vouched = true
	}
}

// past is what is known of a node; one that was never met is met now.
func (m *memory) past(node *corev1.Node, now time.Time) past {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[node.Name]; i != nil && i.uid == node.UID {
		return i.past
	}
	return past{met: now}
}

// take notes what keeps a node from being replaced; the zero note takes it back.
func (m *memory) take(name string, n note) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[name]; i != nil {
		i.note = n
	}
}

// spare returns true the first time that it is asked about these words.
func (m *memory) spare(name, words string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.spared == words {
		return false
	}
	i.spared = words
	return true
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
