package readiness

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/gpu"
)

// nodeRecords are what this process keeps of nodes. Nothing is decided by it that would
// not be decided again, later, after a restart.
type nodeRecords struct {
	mu    sync.Mutex
	nodes map[string]*nodeRecord
}

// nodeTimes is the part of a record that others read.
type nodeTimes struct {
	// firstObserved is when the node was first observed under its present configuration.
	firstObserved time.Time
	// revised is when this process observed another revision of the plugin declared for
	// it, applied when it observed that the DaemonSet had come to be made from the
	// configuration; zero for never.
	revised, applied time.Time
	// capacityRecorded is true when the node's capacity was ever recorded: pods may have
	// come to it.
	capacityRecorded bool
	// blocker is what keeps it from being replaced, found when that was tried last.
	blocker blocker
}

// nodeRecord is what is kept of one node.
type nodeRecord struct {
	nodeTimes
	uid  types.UID
	pool string
	// configuration, revision and unapplied are how the node was observed last.
	config, revision string
	unapplied        bool
	// since is when the node was first observed to advertise something else than it
	// should; zero when it does not.
	since time.Time
	// eventSent is true when that was reported by an event.
	eventSent bool
	// reported is what kept the node from being replaced when that was last reported.
	reported blocker
	// poolPart is the node's part in Pools, as text.
	poolPart string
}

func newNodeRecords() *nodeRecords {
	return &nodeRecords{nodes: map[string]*nodeRecord{}}
}

// observe records a node, anew when it is another of the same name.
func (m *nodeRecords) observe(s *nodeView, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	revision, unapplied := s.pluginHash(), s.unapplied != ""
	i := m.nodes[s.node.Name]
	if i == nil || i.uid != s.node.UID {
		i = &nodeRecord{uid: s.node.UID, config: s.config.Name, nodeTimes: nodeTimes{firstObserved: now}, revision: revision, unapplied: unapplied}
		m.nodes[s.node.Name] = i
	}
	switch {
	case i.config != s.config.Name:
		i.firstObserved, i.revised, i.applied = now, time.Time{}, time.Time{}
	case i.unapplied && !unapplied:
		i.applied = now
	case i.revision != revision && i.revision != "" && revision != "":
		i.revised = now
	}
	i.config, i.unapplied, i.pool = s.config.Name, unapplied, s.pool
	if revision != "" {
		i.revision = revision
	}
	if _, recorded := s.node.Annotations[gpu.AllocatableAnnotation]; recorded {
		i.capacityRecorded = true
	}
}

// timesOf returns a node's history, which begins now for one that is not recorded.
func (m *nodeRecords) timesOf(node *corev1.Node, now time.Time) nodeTimes {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[node.Name]; i != nil && i.uid == node.UID {
		return i.nodeTimes
	}
	return nodeTimes{firstObserved: now}
}

// setBlocker records what keeps a node from being replaced; the zero value takes it back.
func (m *nodeRecords) setBlocker(name string, n blocker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[name]; i != nil {
		i.blocker = n
	}
}

// blockerChanged records why a node is not replaced; it returns whether that is another reason, or another
// object by which it is blocked.
func (m *nodeRecords) blockerChanged(name string, why blocker) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.reported.code == why.code && i.reported.object == why.object {
		return false
	}
	i.reported = why
	return true
}

// mismatchSince records and returns since when the resources that a node advertises are not what it should be.
func (m *nodeRecords) mismatchSince(name string, now time.Time) time.Time {
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

// clearMismatch records that they are what they should be.
func (m *nodeRecords) clearMismatch(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[name]; i != nil {
		i.since, i.eventSent = time.Time{}, false
	}
}

// mismatched is what mismatchSince returned; zero without a mismatch.
func (m *nodeRecords) mismatched(node *corev1.Node) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.nodes[node.Name]; i != nil && i.uid == node.UID {
		return i.since
	}
	return time.Time{}
}

// firstEvent returns true once for each mismatch.
func (m *nodeRecords) firstEvent(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.eventSent {
		return false
	}
	i.eventSent = true
	return true
}

// poolPartChanged records a node's part in Pools; it returns whether that has changed.
func (m *nodeRecords) poolPartChanged(name, text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.nodes[name]
	if i == nil || i.poolPart == text {
		return false
	}
	i.poolPart = text
	return true
}

// drop drops a node. It returns whether it was known, and whether it was the
// last of its pool.
func (m *nodeRecords) drop(name string) (known, last bool) {
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
func (m *nodeRecords) empty(pools []string) []string {
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

func (m *nodeRecords) has(pool string) bool {
	for _, i := range m.nodes {
		if i.pool == pool {
			return true
		}
	}
	return false
}
